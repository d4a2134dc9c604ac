//! `status`: shows whether a runner runs, its pending work, and whether its backend answers. Works without a runner
//! too.

mod journal_facts;
mod openings;
mod protection;
mod runner_status;
mod status_text;

use std::time::Duration;

use super::context::{CliContext, command_runtime};
use super::exit::Exit;
use super::{console, wiring};
use crate::config::{Config, WorkspaceRule};
use crate::home::{
    DeviceIdentity, Home, OwnerSwitch, OwnerSwitches, RunnerLock, SecretStore, SupervisionStore,
};
use crate::journal::has_disk_space_at;
use crate::runner::{Clock, SKEW_MS};
use crate::sandbox::ConfinementLevel;
use journal_facts::JournalFacts;
use openings::{SandboxOpening, list_openings};
use protection::{CommandLimits, PolicyStatus};
use runner_status::{
    BackendStatus, CanExecute, OtherBackendStatus, OutboxStatus, RunnerStatus, RunningShell,
    WaitingCalls,
};
use status_text::show_status;

/// The time limit for probing the backend.
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);

/// Shows the status.
pub fn run_status(context: &CliContext) -> anyhow::Result<Exit> {
    let (config, home) = context.config_and_home(WorkspaceRule::NotNeeded)?;
    let confinement = wiring::build_confinement(&config, &home, context.environment());
    let level = command_runtime()?.block_on(confinement.confinement_level());
    let runner = RunnerLock::find_holder(&home)?.and_then(|holder| holder.pid);
    let exec = command_runtime()?
        .block_on(confinement.check_required_level())
        .is_ok();
    let confined = ConfinementStatus {
        exec,
        openings: list_openings(&config, context.environment().user_dir(), &level),
        level: level.to_string(),
        network: confinement.effective_network().as_str(),
        protected_paths: if confinement.has_read_only_protection() {
            "read_only"
        } else {
            "watched"
        },
        limits: CommandLimits::from_confinement(
            &confinement,
            level != ConfinementLevel::None,
            runner,
        ),
    };
    let status = collect_status(&config, &home, confined)?;
    if context.is_json() {
        console::print_json(&status);
    } else {
        show_status(&status);
    }
    Ok(Exit::Done)
}

/// The confinement of commands.
struct ConfinementStatus {
    /// Commands may run at this level.
    exec: bool,
    level: String,
    network: &'static str,
    protected_paths: &'static str,
    limits: CommandLimits,
    openings: Vec<SandboxOpening>,
}

fn collect_status(
    config: &Config,
    home: &Home,
    confined: ConfinementStatus,
) -> anyhow::Result<RunnerStatus> {
    let holder = RunnerLock::find_holder(home)?;
    let running = holder.is_some();
    let mut facts = JournalFacts::read_facts(config, home, running)?;
    if !running {
        // The last runner recorded these, and they ended with it.
        facts.degraded.clear();
        (facts.trouble, facts.link, facts.sending_bytes) = (None, None, None);
    }
    let switches = OwnerSwitches::in_home(home);
    let secrets = SecretStore::in_home(home);
    let supervision = SupervisionStore::in_home(home);
    let policy = PolicyStatus::from_home(home);
    let has_policy = policy.broken.is_none();
    let counts = facts.counts;
    let since = |at: i64| Clock::system_clock().now_ms().saturating_sub(at).max(0);
    let mut status = RunnerStatus {
        running,
        pid: holder.and_then(|holder| holder.pid),
        device_id: DeviceIdentity::load_or_create(home)?
            .device_id()
            .to_string(),
        device_key: "file",
        secrets: secrets.list_secrets().map(|all| all.len()).ok(),
        secrets_key: secrets.key_place().ok(),
        backend: collect_backend(config, &facts, running)?,
        confinement: confined.level,
        network: confined.network,
        protected_paths: confined.protected_paths,
        limits: confined.limits,
        openings: confined.openings,
        request_auth: match config.backend.request_key {
            Some(_) => "signed",
            None => "transport",
        },
        shells: facts.shells.into_iter().map(RunningShell::from).collect(),
        in_flight: counts.accepted + counts.started,
        outbox: OutboxStatus {
            pending: counts.outbox,
            bytes: facts.undelivered_bytes,
            sending_bytes: facts.sending_bytes.unwrap_or(0),
            oldest_ms: counts.outbox_oldest_ms.map(since),
            undeliverable: counts.undeliverable,
        },
        other_backends: facts
            .other_backends
            .into_iter()
            .map(|other| OtherBackendStatus::from_waiting(other, since))
            .collect(),
        can_execute: CanExecute {
            read: true,
            write: has_policy,
            exec: has_policy && confined.exec,
        },
        salvage: facts.salvage,
        version: env!("CARGO_PKG_VERSION"),
        epoch: facts.epoch,
        waiting: WaitingCalls {
            count: facts.pending.count,
            oldest_ms: facts.pending.oldest_ms.map(since),
        },
        paused: switches.read_switch(OwnerSwitch::Paused),
        safe_mode: switches.read_switch(OwnerSwitch::SafeMode),
        stopped_conversations: supervision.stopped_conversations(),
        asked_conversations: supervision.asked_conversations(),
        policy,
        protected_path_changes: switches.list_notices(),
        degraded: Vec::new(),
    };
    let has_room = has_disk_space_at(&home.journal_file(), wiring::min_free_bytes(config));
    status.degraded = problem_words(&status, has_room, &facts.degraded);
    Ok(status)
}

/// Returns the current problems as keywords. `recorded` are those that the runner recorded last.
fn problem_words(status: &RunnerStatus, has_room: bool, recorded: &str) -> Vec<&'static str> {
    let is_recorded = |word: &str| recorded.split(',').any(|recorded| recorded == word);
    let backend = &status.backend;
    let skew = backend.clock_skew_ms.map(i64::unsigned_abs);
    let problems = [
        (!has_room, "disk"),
        (
            backend.trouble.as_deref() == Some("intercepted"),
            "intercepted",
        ),
        (skew.is_some_and(|skew| skew > SKEW_MS), "clock_skew"),
        (status.secrets.is_none(), "secrets"),
        (status.paused.is_some(), "paused"),
        (status.safe_mode.is_some(), "safe_mode"),
        (is_recorded("audit"), "audit"),
        (is_recorded("other_process"), "other_process"),
        (status.policy.broken.is_some(), "policy"),
        (!status.protected_path_changes.is_empty(), "protected_paths"),
    ];
    let current = problems.into_iter().filter(|(is_current, _)| *is_current);
    current.map(|(_, word)| word).collect()
}

fn collect_backend(
    config: &Config,
    facts: &JournalFacts,
    running: bool,
) -> anyhow::Result<BackendStatus> {
    let recorded = |fact: &Option<String>| fact.clone().filter(|word| !word.is_empty());
    let (reachable, trouble) = probe_backend(config, recorded(&facts.trouble), running)?;
    Ok(BackendStatus {
        kind: config.backend.kind.as_str(),
        url: config.backend.url.as_ref().map(ToString::to_string),
        link: recorded(&facts.link),
        reachable,
        trouble,
        last_contact_ms: facts.last_contact_ms.max(facts.last_poll_ms),
        last_poll_ms: facts.last_poll_ms,
        clock_skew_ms: facts.clock_skew_ms,
    })
}

/// Probes the backend. Returns whether it answers, and the problem: that of the running runner goes before that of
/// this process.
fn probe_backend(
    config: &Config,
    recorded: Option<String>,
    running: bool,
) -> anyhow::Result<(bool, Option<String>)> {
    let probed = match config.backend.url {
        Some(_) => command_runtime()?.block_on(wiring::probe_configured(config, PROBE_TIMEOUT)),
        None => Err(None),
    };
    // A runner that gets answers knows more than a probe of an address without a version.
    let probed = probed.or_else(|word| {
        if running && recorded.is_none() && word == Some("no_backend") {
            Ok(())
        } else {
            Err(word)
        }
    });
    Ok((
        probed.is_ok(),
        recorded.or_else(|| probed.err().flatten().map(str::to_owned)),
    ))
}
