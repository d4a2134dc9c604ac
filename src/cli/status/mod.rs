//! `status`: shows whether a runner runs, its pending work, and whether its backend answers. Works without a runner
//! too.

mod protection;
mod shown;

use std::time::Duration;

use serde::Serialize;

use super::context::{Context, runtime};
use super::exit::Exit;
use super::{print, wiring};
use crate::config::{Config, WorkspaceRule};
use crate::home::{
    AskedConversations, DeviceIdentity, Home, KeyPlace, RunnerLock, Secrets, StoppedConversation,
    Supervision, Switch, SwitchedOn, Switches,
};
use crate::journal::{DamageReport, LiveCounts, Pending, Reader, WaitingBackend, has_room_at};
use crate::runner::{Clock, SKEW_MS};
use crate::sandbox::Level;
use protection::{Limits, PolicyStatus};
use shown::show;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Status {
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
    limits: Limits,
    in_flight: u32,
    outbox: Outbox,
    /// The pending work for other backends than the current one, or than the configured one if no runner runs.
    other_backends: Vec<OtherBackend>,
    can_execute: CanExecute,
    /// The last damage to the journal, and its repair.
    salvage: Option<DamageReport>,
    version: &'static str,
    /// The number of the current or the last process of the runner.
    epoch: Option<u64>,
    waiting: Waiting,
    paused: Option<SwitchedOn>,
    safe_mode: Option<SwitchedOn>,
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
struct OtherBackend {
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
struct Waiting {
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
struct Outbox {
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
const PROBE: Duration = Duration::from_secs(3);

/// Shows the status.
pub fn status(context: &Context) -> anyhow::Result<Exit> {
    let config = context.config(WorkspaceRule::NotNeeded)?;
    let home = Context::home(&config)?;
    let confinement = wiring::confinement(&config, &home, context.environment());
    let level = runtime()?.block_on(confinement.level());
    let runner = RunnerLock::peek(&home)?.and_then(|holder| holder.pid);
    let exec = runtime()?.block_on(confinement.permit()).is_ok();
    let confined = Confined {
        exec,
        level: level.to_string(),
        network: confinement.network().as_str(),
        protected_paths: if confinement.covers() { "read_only" } else { "watched" },
        limits: Limits::of(&confinement, level != Level::None, runner),
    };
    let status = look(&config, &home, confined)?;
    if context.json() {
        print::json(&status);
    } else {
        show(&status);
    }
    Ok(Exit::Done)
}

/// The confinement of commands.
struct Confined {
    /// Commands may run at this level.
    exec: bool,
    level: String,
    network: &'static str,
    protected_paths: &'static str,
    limits: Limits,
}

fn look(config: &Config, home: &Home, confined: Confined) -> anyhow::Result<Status> {
    let holder = RunnerLock::peek(home)?;
    let facts = Facts::read(config, home, holder.is_some())?;
    let switches = Switches::of(home);
    let (paused, safe_mode) = (switches.read(Switch::Paused), switches.read(Switch::SafeMode));
    let secrets = Secrets::of(home).list().map(|all| all.len()).ok();
    let policy = PolicyStatus::of(home);
    let has_room = has_room_at(&home.journal_file(), wiring::least_free(config));
    let url = config.backend.url.as_ref().map(ToString::to_string);
    let running = holder.is_some();
    let met = facts.trouble.filter(|word| running && !word.is_empty());
    let (reachable, trouble) = probe_backend(config, met, running)?;
    let link = facts.link.filter(|word| running && !word.is_empty());
    let says = |word: &str| facts.degraded.split(',').any(|said| said == word);
    let since = |at: i64| Clock::system().now_ms().saturating_sub(at).max(0);
    let degraded: Vec<&'static str> = [
        (!has_room, "disk"),
        (trouble.as_deref() == Some("intercepted"), "intercepted"),
        (facts.clock_skew_ms.is_some_and(|skew| skew.unsigned_abs() > SKEW_MS), "clock_skew"),
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
    Ok(Status {
        running,
        pid: holder.and_then(|holder| holder.pid),
        device_id: DeviceIdentity::load_or_create(home)?.id().to_string(),
        device_key: "file",
        secrets,
        secrets_key: Secrets::of(home).key_place().ok(),
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
        request_auth: if config.backend.request_key.is_some() { "signed" } else { "transport" },
        in_flight: counts.accepted + counts.started,
        outbox: Outbox {
            pending: counts.outbox,
            bytes: facts.undelivered_bytes,
            sending_bytes: facts.sending_bytes.filter(|_| running).unwrap_or(0),
            oldest_ms: counts.outbox_oldest_ms.map(since),
            undeliverable: counts.undeliverable,
        },
        other_backends: facts.elsewhere.into_iter().map(|other| OtherBackend::from(other, since)).collect(),
        can_execute: CanExecute {
            read: true,
            write: policy.broken.is_none(),
            exec: policy.broken.is_none() && confined.exec,
        },
        salvage: facts.salvage,
        version: env!("CARGO_PKG_VERSION"),
        epoch: facts.epoch,
        waiting: Waiting { count: facts.pending.count, oldest_ms: facts.pending.oldest_ms.map(since) },
        paused,
        safe_mode,
        stopped_conversations: Supervision::of(home).stopped(),
        asked_conversations: Supervision::of(home).asked(),
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
        Some(_) => runtime()?.block_on(wiring::probe(config, PROBE)),
        None => Err(None),
    };
    // A runner that gets answers knows more than a probe of an address without a version.
    let probed = probed.or_else(|word| {
        if running && met.is_none() && word == Some("no_backend") { Ok(()) } else { Err(word) }
    });
    Ok((probed.is_ok(), met.or_else(|| probed.err().flatten().map(str::to_owned))))
}

/// The facts in the journal.
#[derive(Debug, Default)]
struct Facts {
    counts: LiveCounts,
    undelivered_bytes: u64,
    sending_bytes: Option<u64>,
    pending: Pending,
    last_contact_ms: Option<i64>,
    last_poll_ms: Option<i64>,
    clock_skew_ms: Option<i64>,
    epoch: Option<u64>,
    trouble: Option<String>,
    link: Option<String>,
    salvage: Option<DamageReport>,
    elsewhere: Vec<WaitingBackend>,
    /// The problems that the runner recorded last, as keywords.
    degraded: String,
}

impl OtherBackend {
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
    fn counted(&self) -> String {
        let count = |n: u32, word: &str| match n {
            0 => None,
            1 => Some(format!("1 {word}")),
            n => Some(format!("{n} {word}s")),
        };
        let counts = [count(self.requests, "request"), count(self.results, "result")];
        counts.into_iter().flatten().collect::<Vec<_>>().join(" and ")
    }
}

impl Facts {
    /// Reads the facts of the runner's backend; without a runner, of the configured one; without that, of the last
    /// one.
    fn read(config: &Config, home: &Home, is_running: bool) -> anyhow::Result<Self> {
        let Some(reader) = Reader::find(&home.journal_file())? else { return Ok(Self::default()) };
        let reader = match &config.backend.url {
            Some(url) if !is_running => {
                let id = wiring::tokens(config, home)?.backend_id();
                reader.of_backend(url.as_str(), id.as_deref())?
            }
            _ => reader.of_last_backend()?,
        };
        let number = |key| anyhow::Ok(reader.recall(key)?.and_then(|text| text.parse().ok()));
        Ok(Self {
            counts: reader.counts()?,
            undelivered_bytes: reader.undelivered_bytes()?,
            sending_bytes: reader.recall("sending_bytes")?.and_then(|text| text.parse().ok()),
            pending: reader.pending()?,
            last_contact_ms: number("last_contact_ms")?,
            last_poll_ms: number("last_poll_ms")?,
            clock_skew_ms: number("clock_offset_ms")?,
            epoch: reader.recall("epoch")?.and_then(|text| text.parse().ok()),
            trouble: reader.recall("backend_trouble")?,
            link: reader.recall("backend_link")?,
            salvage: reader.damage_report()?,
            elsewhere: reader.waiting_elsewhere()?,
            degraded: reader.recall("degraded")?.unwrap_or_default(),
        })
    }
}
