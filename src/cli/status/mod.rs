//! `status`: shows whether a runner runs, its pending work, and whether its backend answers. Works without a runner
//! too.

mod protection;
mod status_text;

use std::time::Duration;

use serde::Serialize;

use super::context::{CliContext, command_runtime};
use super::exit::Exit;
use super::{console, wiring};
use crate::config::{Config, WorkspaceRule};
use crate::home::{
    AskedConversations, DeviceIdentity, Home, KeyPlace, OwnerSwitch, OwnerSwitches, RunnerLock,
    SecretStore, StoppedConversation, SupervisionStore, SwitchState,
};
use crate::journal::{
    DamageReport, JournalReader, OpenRequestCounts, PendingRequests, WaitingBackend,
    has_disk_space_at,
};
use crate::runner::{Clock, SKEW_MS};
use crate::sandbox::ConfinementLevel;
use protection::{CommandLimits, PolicyStatus};
use status_text::show_status;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct RunnerStatus {
    running: bool,
    pid: Option<u32>,
    device_id: String,
    /// The storage of the device's private key: always `file`.
    device_key: &'static str,
    /// The number of the owner's secrets; null if their file cannot be read.
    secrets: Option<usize>,
    /// The storage of the secrets' key: `file` or `keychain`; null if its file cannot be read.
    secrets_key: Option<KeyPlace>,
    backend: BackendStatus,
    confinement: String,
    /// `signed` if only requests signed with the configured key are run, else `transport`.
    request_auth: &'static str,
    /// The network access of commands: `none`, `loopback` or `full`.
    network: &'static str,
    /// `read_only` or `watched`: the protection of workspace files that run programs later, such as `.git/hooks`.
    protected_paths: &'static str,
    /// The resources that are limited for commands.
    limits: CommandLimits,
    in_flight: u32,
    outbox: OutboxStatus,
    /// The pending work for other backends than the current one, or than the configured one if no runner runs.
    other_backends: Vec<OtherBackendStatus>,
    can_execute: CanExecute,
    /// The last damage to the journal, and its repair.
    salvage: Option<DamageReport>,
    version: &'static str,
    /// The number of the current or the last process of the runner.
    epoch: Option<u64>,
    waiting: WaitingCalls,
    paused: Option<SwitchState>,
    safe_mode: Option<SwitchState>,
    /// The conversations that a person stopped in an editor.
    stopped_conversations: Vec<StoppedConversation>,
    /// The conversations that are asked about even without an editor, because one was attached to them.
    asked_conversations: AskedConversations,
    policy: PolicyStatus,
    /// The current problems: `disk`, `intercepted`, `clock_skew`, `secrets`, `paused`, `safe_mode`, `audit`,
    /// `other_process`, `policy`.
    degraded: Vec<&'static str>,
}

/// A backend with work that is pending until the runner works for it again.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct OtherBackendStatus {
    /// Its address; null for requests from before the backend was recorded, if no start has named one since.
    url: Option<String>,
    /// The id of the deployment, if it has one.
    backend_id: Option<String>,
    requests: u32,
    results: u32,
    oldest_ms: Option<i64>,
}

/// The requests that are accepted and not started.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct WaitingCalls {
    count: u32,
    oldest_ms: Option<i64>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct BackendStatus {
    /// `convex` or `websocket`.
    kind: &'static str,
    url: Option<String>,
    /// `up` or `down` for a lasting connection; null if there is none or no runner runs.
    link: Option<String>,
    reachable: bool,
    /// The reason why the backend cannot be used: `unreachable`, `intercepted`, `no_backend` (404), `refused`, `busy`,
    /// `failing`; null if it can.
    trouble: Option<String>,
    last_contact_ms: Option<i64>,
    last_poll_ms: Option<i64>,
    clock_skew_ms: Option<i64>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct OutboxStatus {
    pending: u32,
    /// The size of the pending answers.
    bytes: u64,
    /// The number of their bytes being sent, if that takes longer than a moment.
    sending_bytes: u64,
    oldest_ms: Option<i64>,
    /// Answers of the last 30 days that the backend will never accept.
    undeliverable: u32,
}

#[derive(Debug, Serialize)]
struct CanExecute {
    read: bool,
    write: bool,
    exec: bool,
}

/// The time limit for probing the backend.
const PROBE_TIMEOUT: Duration = Duration::from_secs(3);

/// Shows the status.
pub fn run_status(context: &CliContext) -> anyhow::Result<Exit> {
    let config = context.effective_config(WorkspaceRule::NotNeeded)?;
    let home = CliContext::config_home(&config)?;
    let confinement = wiring::build_confinement(&config, &home, context.environment());
    let level = command_runtime()?.block_on(confinement.confinement_level());
    let runner = RunnerLock::find_holder(&home)?.and_then(|holder| holder.pid);
    let exec = command_runtime()?
        .block_on(confinement.check_required_level())
        .is_ok();
    let confined = ConfinementStatus {
        exec,
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
}

fn collect_status(
    config: &Config,
    home: &Home,
    confined: ConfinementStatus,
) -> anyhow::Result<RunnerStatus> {
    let holder = RunnerLock::find_holder(home)?;
    let facts = JournalFacts::read_facts(config, home, holder.is_some())?;
    let switches = OwnerSwitches::in_home(home);
    let (paused, safe_mode) = (
        switches.read_switch(OwnerSwitch::Paused),
        switches.read_switch(OwnerSwitch::SafeMode),
    );
    let secrets = SecretStore::in_home(home)
        .list_secrets()
        .map(|all| all.len())
        .ok();
    let policy = PolicyStatus::from_home(home);
    let has_room = has_disk_space_at(&home.journal_file(), wiring::min_free_bytes(config));
    let url = config.backend.url.as_ref().map(ToString::to_string);
    let running = holder.is_some();
    let met = facts.trouble.filter(|word| running && !word.is_empty());
    let (reachable, trouble) = probe_backend(config, met, running)?;
    let link = facts.link.filter(|word| running && !word.is_empty());
    let says = |word: &str| facts.degraded.split(',').any(|said| said == word);
    let since = |at: i64| Clock::system_clock().now_ms().saturating_sub(at).max(0);
    let degraded: Vec<&'static str> = [
        (!has_room, "disk"),
        (trouble.as_deref() == Some("intercepted"), "intercepted"),
        (
            facts
                .clock_skew_ms
                .is_some_and(|skew| skew.unsigned_abs() > SKEW_MS),
            "clock_skew",
        ),
        (secrets.is_none(), "secrets"),
        (paused.is_some(), "paused"),
        (safe_mode.is_some(), "safe_mode"),
        (running && says("audit"), "audit"),
        (running && says("other_process"), "other_process"),
        (policy.broken.is_some(), "policy"),
    ]
    .into_iter()
    .filter_map(|(is_so, word)| is_so.then_some(word))
    .collect();
    let counts = facts.counts;
    Ok(RunnerStatus {
        running,
        pid: holder.and_then(|holder| holder.pid),
        device_id: DeviceIdentity::load_or_create(home)?
            .device_id()
            .to_string(),
        device_key: "file",
        secrets,
        secrets_key: SecretStore::in_home(home).key_place().ok(),
        backend: BackendStatus {
            kind: config.backend.kind.as_str(),
            url,
            link,
            reachable,
            trouble,
            last_contact_ms: facts.last_contact_ms.max(facts.last_poll_ms),
            last_poll_ms: facts.last_poll_ms,
            clock_skew_ms: facts.clock_skew_ms,
        },
        confinement: confined.level,
        network: confined.network,
        protected_paths: confined.protected_paths,
        limits: confined.limits,
        request_auth: if config.backend.request_key.is_some() {
            "signed"
        } else {
            "transport"
        },
        in_flight: counts.accepted + counts.started,
        outbox: OutboxStatus {
            pending: counts.outbox,
            bytes: facts.undelivered_bytes,
            sending_bytes: facts.sending_bytes.filter(|_| running).unwrap_or(0),
            oldest_ms: counts.outbox_oldest_ms.map(since),
            undeliverable: counts.undeliverable,
        },
        other_backends: facts
            .other_backends
            .into_iter()
            .map(|other| OtherBackendStatus::from(other, since))
            .collect(),
        can_execute: CanExecute {
            read: true,
            write: policy.broken.is_none(),
            exec: policy.broken.is_none() && confined.exec,
        },
        salvage: facts.salvage,
        version: env!("CARGO_PKG_VERSION"),
        epoch: facts.epoch,
        waiting: WaitingCalls {
            count: facts.pending.count,
            oldest_ms: facts.pending.oldest_ms.map(since),
        },
        paused,
        safe_mode,
        stopped_conversations: SupervisionStore::in_home(home).stopped_conversations(),
        asked_conversations: SupervisionStore::in_home(home).asked_conversations(),
        policy,
        degraded,
    })
}

/// Probes the backend. Returns whether it answers, and the problem: that of the running runner goes before that of
/// this process.
fn probe_backend(
    config: &Config,
    met: Option<String>,
    running: bool,
) -> anyhow::Result<(bool, Option<String>)> {
    let probed = match config.backend.url {
        Some(_) => command_runtime()?.block_on(wiring::probe_configured(config, PROBE_TIMEOUT)),
        None => Err(None),
    };
    // A runner that gets answers knows more than a probe of an address without a version.
    let probed = probed.or_else(|word| {
        if running && met.is_none() && word == Some("no_backend") {
            Ok(())
        } else {
            Err(word)
        }
    });
    Ok((
        probed.is_ok(),
        met.or_else(|| probed.err().flatten().map(str::to_owned)),
    ))
}

/// The facts in the journal.
#[derive(Debug, Default)]
struct JournalFacts {
    counts: OpenRequestCounts,
    undelivered_bytes: u64,
    sending_bytes: Option<u64>,
    pending: PendingRequests,
    last_contact_ms: Option<i64>,
    last_poll_ms: Option<i64>,
    clock_skew_ms: Option<i64>,
    epoch: Option<u64>,
    trouble: Option<String>,
    link: Option<String>,
    salvage: Option<DamageReport>,
    other_backends: Vec<WaitingBackend>,
    /// The problems that the runner recorded last, as keywords.
    degraded: String,
}

impl OtherBackendStatus {
    fn from(waiting: WaitingBackend, since: impl Fn(i64) -> i64) -> Self {
        Self {
            url: waiting.address,
            backend_id: waiting.id,
            requests: waiting.requests,
            results: waiting.results,
            oldest_ms: waiting.oldest_ms.map(since),
        }
    }

    /// Formats the counts: `2 requests and 3 results`.
    fn describe_counts(&self) -> String {
        let count = |n: u32, word: &str| match n {
            0 => None,
            1 => Some(format!("1 {word}")),
            n => Some(format!("{n} {word}s")),
        };
        let counts = [
            count(self.requests, "request"),
            count(self.results, "result"),
        ];
        counts
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join(" and ")
    }
}

impl JournalFacts {
    /// Reads the facts of the runner's backend; without a runner, of the configured one; without that, of the last
    /// one.
    fn read_facts(config: &Config, home: &Home, is_running: bool) -> anyhow::Result<Self> {
        let Some(reader) = JournalReader::find_journal(&home.journal_file())? else {
            return Ok(Self::default());
        };
        let reader = match &config.backend.url {
            Some(url) if !is_running => {
                let id = wiring::backend_tokens(config, home)?.backend_id();
                reader.for_backend(url.as_str(), id.as_deref())?
            }
            _ => reader.for_last_backend()?,
        };
        let number = |key| anyhow::Ok(reader.read_fact(key)?.and_then(|text| text.parse().ok()));
        Ok(Self {
            counts: reader.count_open_requests()?,
            undelivered_bytes: reader.undelivered_bytes()?,
            sending_bytes: reader
                .read_fact("sending_bytes")?
                .and_then(|text| text.parse().ok()),
            pending: reader.read_pending()?,
            last_contact_ms: number("last_contact_ms")?,
            last_poll_ms: number("last_poll_ms")?,
            clock_skew_ms: number("clock_offset_ms")?,
            epoch: reader
                .read_fact("epoch")?
                .and_then(|text| text.parse().ok()),
            trouble: reader.read_fact("backend_trouble")?,
            link: reader.read_fact("backend_link")?,
            salvage: reader.damage_report()?,
            other_backends: reader.other_waiting_backends()?,
            degraded: reader.read_fact("degraded")?.unwrap_or_default(),
        })
    }
}
