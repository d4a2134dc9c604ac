//! Collects the status: what a running runner published, else what the configuration would bring into force; the
//! journal; the owner's switches; a probe of the backend.

use std::path::Path;
use std::time::Duration;

use super::attention;
use super::bridge_problems::list_bridge_problems;
use super::journal_facts::JournalFacts;
use super::protection::{self, CommandLimits};
use super::runner_status::{
    BackendStatus, CanExecute, HomeSize, OtherBackendStatus, OutboxStatus, RunnerStatus,
    RunningShell, Verdict, WaitingApproval, WaitingCalls,
};
use super::workspace_status::WorkspaceStatus;
use crate::cli::approvals;
use crate::cli::context::{CliContext, command_runtime};
use crate::cli::wiring::{self, BackendProbe, ConfinementInForce, ProbeFailure, SettingsInForce};
use crate::config::{BackendKind, Config, WorkspaceRule};
use punie_engine::backend::ConnectionProblem;
use punie_engine::journal::{HealthProblem, has_disk_space_at};
use punie_engine::runner::{Clock, SKEW_MS};
use punie_home::{
    BackendTokens, DeviceIdentity, EmbeddedBackendAddress, Home, OwnerSwitch, OwnerSwitches,
    RunnerLock, RunnerLockHolder, SecretStore, SupervisionStore, change_hint_flags,
};

/// The time limit for probing the backend.
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);

/// Collects the status, once or again and again.
pub(super) struct StatusFacts<'a> {
    context: &'a CliContext,
    /// Also what takes long to find out.
    verbose: bool,
    /// The confinement that this process measured, where no runner published one.
    measured: Option<ConfinementInForce>,
}

impl<'a> StatusFacts<'a> {
    pub fn new(context: &'a CliContext, verbose: bool) -> Self {
        Self {
            context,
            verbose,
            measured: None,
        }
    }

    /// Collects the status of this moment.
    pub fn collect(&mut self) -> anyhow::Result<RunnerStatus> {
        let (mut config, home) = self
            .context
            .config_beside_runner(WorkspaceRule::NotNeeded)?;
        let holder = RunnerLock::find_holder(&home)?;
        let in_force = holder.and_then(|holder| SettingsInForce::read_for(holder, &home));
        if let Some(in_force) = &in_force {
            in_force.apply_backend(&mut config);
        } else if config.backend.url.is_none() {
            use_embedded_backend(&mut config, &home)?;
        }
        let confinement = match published_confinement(in_force.as_ref()) {
            Some(published) => published.clone(),
            None => self.measure_confinement_once(&config, &home)?,
        };
        let running = holder.is_some();
        let facts = JournalFacts::read_current(&config, &home, running, in_force.as_ref())?;
        let probe = command_runtime()?.block_on(wiring::probe_configured(&config, PROBE_TIMEOUT));
        let backend = collect_backend(&config, &home, &facts, running, &probe)?;
        let mut status = build_status(
            &config,
            &home,
            facts,
            in_force,
            &confinement,
            holder,
            backend,
        )?;
        status.home_size = self.verbose.then(|| HomeSize {
            total: home.disk_usage(),
            commands: home.commands_disk_usage(),
        });
        let environment = self.context.environment();
        status.user_home = environment.user_dir().map(Path::to_owned);
        status.hidden_repositories =
            wiring::undecided_repositories(&config, &home, environment, &status.workspaces.all);
        status.attention = attention::list_attention(&status, Clock::system().now_ms());
        status.verdict = match (running, status.attention.is_empty()) {
            (false, _) => Verdict::NotRunning,
            (true, true) => Verdict::Healthy,
            (true, false) => Verdict::Attention,
        };
        Ok(status)
    }

    /// Measures the confinement that the configuration brings into force. The self-test runs once in this process.
    fn measure_confinement_once(
        &mut self,
        config: &Config,
        home: &Home,
    ) -> anyhow::Result<ConfinementInForce> {
        if let Some(measured) = &self.measured {
            return Ok(measured.clone());
        }
        let measured = measure_confinement(self.context, config, home)?;
        Ok(self.measured.insert(measured).clone())
    }
}

/// Returns the confinement that a running runner published, if its self-test has run.
pub(in crate::cli) fn published_confinement(
    in_force: Option<&SettingsInForce>,
) -> Option<&ConfinementInForce> {
    let published = in_force.map(|settings| &settings.confinement);
    published.filter(|confinement| confinement.is_proven())
}

/// Measures the confinement that the configuration brings into force.
pub(in crate::cli) fn measure_confinement(
    context: &CliContext,
    config: &Config,
    home: &Home,
) -> anyhow::Result<ConfinementInForce> {
    let environment = context.environment();
    let confinement = wiring::build_confinement(config, home, environment);
    command_runtime()?.block_on(confinement.level());
    Ok(ConfinementInForce::from_confinement(
        config,
        &confinement,
        environment,
    ))
}

/// Takes the embedded backend that serves in this home, if there is one. A runner does not find it by itself.
pub(in crate::cli) fn use_embedded_backend(config: &mut Config, home: &Home) -> anyhow::Result<()> {
    if let Some(url) = EmbeddedBackendAddress::find(home)? {
        config.set_embedded_backend(&url);
        change_hint_flags(|flags| flags.backend_url = Some(url));
    }
    Ok(())
}

fn build_status(
    config: &Config,
    home: &Home,
    facts: JournalFacts,
    in_force: Option<SettingsInForce>,
    confinement: &ConfinementInForce,
    holder: Option<RunnerLockHolder>,
    backend: BackendStatus,
) -> anyhow::Result<RunnerStatus> {
    let running = holder.is_some();
    let pid = holder.and_then(|holder| holder.pid);
    let switches = OwnerSwitches::in_home(home);
    let secrets = SecretStore::in_home(home);
    let supervision = SupervisionStore::in_home(home);
    let policy = protection::read_policy(home, in_force.as_ref());
    let has_policy = policy.broken.is_none();
    let counts = facts.counts;
    let since = |at: i64| Clock::system().now_ms().saturating_sub(at).max(0);
    let outbox = describe_outbox(&facts, since);
    let [approvals, questions] = list_approvals(home, running)?;
    let mut status = RunnerStatus {
        verdict: Verdict::NotRunning,
        running,
        pid,
        device_id: DeviceIdentity::load_or_create(home)?
            .device_id()
            .to_string(),
        device_key: "file",
        secrets: secrets.list().map(|all| all.len()).ok(),
        secrets_key: secrets.key_place().ok(),
        backend,
        confinement: confinement.level.clone(),
        network: confinement.network.clone(),
        protected_paths: confinement.protected_paths.clone(),
        limits: CommandLimits::from_confinement(confinement, pid),
        openings: confinement.openings.clone(),
        request_auth: describe_request_auth(config, in_force.as_ref()),
        shells: facts.shells.into_iter().map(RunningShell::from).collect(),
        in_flight: counts.accepted + counts.started,
        cut_off: counts.cut_off,
        outbox,
        other_backends: facts
            .other_backends
            .into_iter()
            .map(|other| OtherBackendStatus::from_waiting(other, since))
            .collect(),
        can_execute: CanExecute {
            read: true,
            write: has_policy,
            exec: has_policy && confinement.can_execute,
        },
        salvage: facts.salvage,
        version: crate::config::optional_parts::version(),
        epoch: facts.epoch,
        waiting: WaitingCalls {
            count: facts.pending.count,
            oldest_ms: facts.pending.oldest_ms.map(since),
        },
        approvals,
        questions,
        interrupted_questions: approvals::list_interrupted_questions(home)?,
        bridge_problems: list_bridge_problems(home, running),
        hidden_repositories: Vec::new(),
        canary: facts.canary,
        paused: switches.read_switch(OwnerSwitch::Paused),
        safe_mode: switches.read_switch(OwnerSwitch::SafeMode),
        stopped_conversations: supervision.stopped_conversations(),
        asked_conversations: supervision.asked_conversations(),
        policy,
        protected_path_changes: switches.list_notices(),
        journal_losses: switches.list_journal_notices(),
        degraded: Vec::new(),
        attention: Vec::new(),
        workspaces: WorkspaceStatus::collect(config, in_force.as_ref(), home),
        user_home: None,
        home_size: None,
        caches: confinement.caches.clone(),
        in_force,
    };
    let least_free = least_free_bytes(config, status.in_force.as_ref());
    let has_room = has_disk_space_at(&home.journal_file(), least_free);
    #[cfg(feature = "people")]
    let is_map_unreadable = punie_home::IdentityMapStore::in_home(home)
        .load_aliases()
        .is_err();
    #[cfg(not(feature = "people"))]
    let is_map_unreadable = home.identity_map_file().symlink_metadata().is_ok();
    status.degraded = current_problems(&status, has_room, &facts.degraded, is_map_unreadable);
    Ok(status)
}

fn describe_outbox(facts: &JournalFacts, since: impl Fn(i64) -> i64) -> OutboxStatus {
    OutboxStatus {
        pending: facts.counts.outbox,
        bytes: facts.undelivered_bytes,
        sending_bytes: facts.sending_bytes.unwrap_or(0),
        oldest_ms: facts.counts.outbox_oldest_ms.map(since),
        undeliverable: facts.counts.undeliverable,
    }
}

fn describe_request_auth(config: &Config, in_force: Option<&SettingsInForce>) -> String {
    match (in_force, &config.backend.request_key) {
        (Some(in_force), _) => in_force.request_auth.clone(),
        (None, Some(_)) => "signed".to_owned(),
        (None, None) => "transport".to_owned(),
    }
}

/// Lists the workspaces in force, else the configured ones.
pub(in crate::cli) fn list_workspaces(
    config: &Config,
    in_force: Option<&SettingsInForce>,
) -> Vec<String> {
    if let Some(in_force) = in_force {
        return in_force.workspaces.clone();
    }
    let configured = config.workspaces.iter();
    configured.map(|path| path.display().to_string()).collect()
}

/// Returns the free disk space below which no call starts.
pub(in crate::cli) fn least_free_bytes(config: &Config, in_force: Option<&SettingsInForce>) -> u64 {
    let megabytes = in_force
        .and_then(|in_force| in_force.setting_value("limits.least_free_mb"))
        .and_then(|megabytes| megabytes.parse::<u64>().ok());
    megabytes.map_or_else(
        || wiring::min_free_bytes(config),
        |megabytes| megabytes << 20,
    )
}

/// Lists the calls that wait for a person, and the agent's questions. Without a runner, the calls are interrupted questions.
fn list_approvals(home: &Home, running: bool) -> anyhow::Result<[Vec<WaitingApproval>; 2]> {
    let open = approvals::list_open_questions(home)?;
    let (calls, questions): (Vec<_>, Vec<_>) = open
        .into_iter()
        .partition(|question| question.input.is_none());
    let calls = if running { calls } else { Vec::new() };
    Ok([calls, questions].map(|open| open.into_iter().map(WaitingApproval::from).collect()))
}

/// Returns the current problems. `recorded` are those that the runner recorded last.
fn current_problems(
    status: &RunnerStatus,
    has_room: bool,
    recorded: &[HealthProblem],
    is_map_unreadable: bool,
) -> Vec<HealthProblem> {
    let as_recorded = |problem| (recorded.contains(&problem), problem);
    let backend = &status.backend;
    let skew = backend.clock_skew_ms.map(i64::unsigned_abs);
    let is_intercepted = backend.trouble.as_deref() == Some("intercepted");
    HealthProblem::filter_current([
        (!has_room, HealthProblem::Disk),
        (is_intercepted, HealthProblem::Intercepted),
        (
            skew.is_some_and(|skew| skew > SKEW_MS),
            HealthProblem::ClockSkew,
        ),
        (status.secrets.is_none(), HealthProblem::Secrets),
        (is_map_unreadable, HealthProblem::People),
        (status.paused.is_some(), HealthProblem::Paused),
        (status.safe_mode.is_some(), HealthProblem::SafeMode),
        as_recorded(HealthProblem::Audit),
        as_recorded(HealthProblem::OtherProcess),
        as_recorded(HealthProblem::Canary),
        (status.policy.broken.is_some(), HealthProblem::Policy),
        (
            !status.protected_path_changes.is_empty(),
            HealthProblem::ProtectedPaths,
        ),
        (!status.journal_losses.is_empty(), HealthProblem::Journal),
    ])
}

/// Collects the state of the backend from the journal, the tokens and a probe.
pub(in crate::cli) fn collect_backend(
    config: &Config,
    home: &Home,
    facts: &JournalFacts,
    running: bool,
    probe: &BackendProbe,
) -> anyhow::Result<BackendStatus> {
    let recorded = |fact: &Option<String>| fact.clone().filter(|word| !word.is_empty());
    let (reachable, trouble) = judge_probe(probe, recorded(&facts.trouble), running);
    let url = config.backend.url.as_ref().map(ToString::to_string);
    let embedded = EmbeddedBackendAddress::find(home)?;
    let paired = match &url {
        Some(url) if config.backend.kind == BackendKind::Convex => {
            let id = BackendTokens::for_backend(home, url).id();
            Some(id.is_some() || facts.last_contact_ms.is_some())
        }
        _ => None,
    };
    Ok(BackendStatus {
        kind: config.backend.kind.as_str(),
        embedded: url.is_some() && url == embedded,
        paired,
        url,
        link: recorded(&facts.link),
        reachable,
        trouble,
        last_contact_ms: facts.last_contact_ms.max(facts.last_poll_ms),
        last_poll_ms: facts.last_poll_ms,
        clock_skew_ms: facts.clock_skew_ms,
    })
}

/// Returns whether the backend answers, and the problem: that of the running runner goes before that of this process.
fn judge_probe(
    probe: &BackendProbe,
    recorded: Option<String>,
    running: bool,
) -> (bool, Option<String>) {
    let problem = probe.answer.as_ref().map_err(ProbeFailure::keyword);
    // A runner that gets answers knows more than a probe of an address without a version.
    let knows_better = running && recorded.is_none() && problem == Err(Some("no_backend"));
    let answers = problem.is_ok() || knows_better;
    let problem = problem.err().flatten().filter(|_| !answers);
    let trouble = recorded.or_else(|| problem.map(str::to_owned));
    let is_unreachable = |word: &String| {
        let mut words = ConnectionProblem::UNREACHABLE.iter().map(|it| it.as_str());
        words.any(|known| known == word)
    };
    let is_reachable = trouble
        .as_ref()
        .map_or(answers, |word| !is_unreachable(word));
    (is_reachable, trouble)
}
