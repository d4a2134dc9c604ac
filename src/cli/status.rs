//! `status`: whether a runner runs, what is on its way, whether its backend answers. Works without a runner too.

use std::time::Duration;

use serde::Serialize;

use super::context::{Context, runtime};
use super::exit::Exit;
use super::{moments, print, wiring};
use crate::acp::local::confinement::Confinement;
use crate::config::{Config, WorkspaceRule};
use crate::home::{DeviceIdentity, Home, RunnerLock, Secrets, Switch, SwitchedOn, Switches};
use crate::journal::{LiveCounts, Pending, Reader, Salvage, has_room_at};
use crate::runner::{Clock, SKEW_MS};
use crate::sandbox::Level;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    running: bool,
    pid: Option<u32>,
    device_id: String,
    /// Where the device's private key is kept: `file`, which is all there is.
    device_key: &'static str,
    /// How many secrets the owner keeps, in their sealed file; null where it cannot be read.
    secrets: Option<usize>,
    backend: BackendStatus,
    confinement: String,
    /// `signed` where only requests with the pinned key's signature are run, else `transport`.
    request_auth: &'static str,
    /// `none`, `loopback` or `full`: what commands reach.
    network: &'static str,
    /// `read_only` or `watched`: how commands meet what of a workspace runs programs later, as `.git/hooks`.
    protected_paths: &'static str,
    /// What of the machine one command, or all together, can use up to a limit only.
    limits: Limits,
    in_flight: u32,
    outbox: Outbox,
    can_execute: CanExecute,
    /// The last time that the journal was damaged and what became of it.
    salvage: Option<Salvage>,
    version: &'static str,
    /// The life of the runner that is, or was the last.
    epoch: Option<u64>,
    waiting: Waiting,
    paused: Option<SwitchedOn>,
    safe_mode: Option<SwitchedOn>,
    /// `disk`, `intercepted`, `clock_skew`, `secrets`, `paused`, `safe_mode`, `audit`: what keeps it from being all it should be.
    degraded: Vec<&'static str>,
}

#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
struct Limits {
    processes: bool,
    /// Known of a runner that runs.
    memory: bool,
    file_size: bool,
}

impl Limits {
    fn of(confinement: &Confinement, confined: bool, runner: Option<u32>) -> Self {
        let (processes, memory) = runner.map(in_groups).unwrap_or_default();
        Self {
            processes: processes || confinement.counts_processes(),
            memory,
            file_size: confined && cfg!(target_os = "linux"),
        }
    }

    fn words(self) -> String {
        let all = [(self.processes, "processes"), (self.memory, "memory"), (self.file_size, "file size")];
        let list = |limited: bool| {
            let names: Vec<&str> =
                all.iter().filter(|(is, _)| *is == limited).map(|(_, name)| *name).collect();
            names.join(", ")
        };
        match (list(true), list(false)) {
            (none, open) if none.is_empty() => format!("none of {open}"),
            (kept, none) if none.is_empty() => kept,
            (kept, open) => format!("{kept}; not {open}"),
        }
    }
}

/// Whether the control groups of this runner's commands limit their processes, and their memory.
#[cfg(unix)]
fn in_groups(runner: u32) -> (bool, bool) {
    let limits = crate::acp::local::group_limits::of_runner(runner);
    (limits.processes, limits.memory)
}

#[cfg(not(unix))]
fn in_groups(_runner: u32) -> (bool, bool) {
    (false, false)
}

/// What is accepted and not begun.
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
    /// Whether the lasting connection is `up` or `down`; null where there is none, or no runner runs.
    link: Option<String>,
    reachable: bool,
    /// Why nothing comes through: `unreachable`, `intercepted`, `refused`, `busy`, `failing`; null while all does.
    trouble: Option<String>,
    last_contact_ms: Option<i64>,
    last_poll_ms: Option<i64>,
    clock_skew_ms: Option<i64>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Outbox {
    pending: u32,
    oldest_ms: Option<i64>,
    /// Answers that the backend will never take, of the last 30 days.
    undeliverable: u32,
}

#[derive(Debug, Serialize)]
struct CanExecute {
    read: bool,
    write: bool,
    exec: bool,
}

/// How long the backend has to answer.
const PROBE: Duration = Duration::from_secs(3);

/// Shows the status.
pub fn status(context: &Context) -> anyhow::Result<Exit> {
    let config = context.config(WorkspaceRule::NotNeeded)?;
    let home = Context::home(&config)?;
    let confinement = wiring::confinement(&config, &home, context.environment());
    let level = runtime()?.block_on(confinement.level());
    let runner = RunnerLock::peek(&home)?.and_then(|holder| holder.pid);
    let confined = Confined {
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

/// How commands are confined.
struct Confined {
    level: String,
    network: &'static str,
    protected_paths: &'static str,
    limits: Limits,
}

fn look(config: &Config, home: &Home, confined: Confined) -> anyhow::Result<Status> {
    let holder = RunnerLock::peek(home)?;
    let facts = Facts::read(home)?;
    let switches = Switches::of(home);
    let (paused, safe_mode) = (switches.read(Switch::Paused), switches.read(Switch::SafeMode));
    let secrets = Secrets::of(home).list().map(|all| all.len()).ok();
    let has_room = has_room_at(&home.journal_file(), wiring::least_free(config));
    let url = config.backend.url.as_ref().map(ToString::to_string);
    let probed = match url {
        Some(_) => runtime()?.block_on(wiring::probe(config, PROBE)),
        None => Err(None),
    };
    // What the runner has met says more than an answer to us; what it met when it last ran says nothing.
    let running = holder.is_some();
    let met = facts.trouble.filter(|word| running && !word.is_empty());
    let link = facts.link.filter(|word| running && !word.is_empty());
    let trouble = met.or_else(|| probed.err().flatten().map(str::to_owned));
    let since = |at: i64| Clock::system().now_ms().saturating_sub(at).max(0);
    let degraded: Vec<&'static str> = [
        (!has_room, "disk"),
        (trouble.as_deref() == Some("intercepted"), "intercepted"),
        (facts.clock_skew_ms.is_some_and(|skew| skew.unsigned_abs() > SKEW_MS), "clock_skew"),
        (secrets.is_none(), "secrets"),
        (paused.is_some(), "paused"),
        (safe_mode.is_some(), "safe_mode"),
        (running && facts.audit_fails, "audit"),
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
        backend: BackendStatus {
            kind: config.backend.kind.as_str(),
            url,
            link,
            reachable: probed.is_ok(),
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
            oldest_ms: counts.outbox_oldest_ms.map(since),
            undeliverable: counts.undeliverable,
        },
        can_execute: CanExecute { read: true, write: true, exec: true },
        salvage: facts.salvage,
        version: env!("CARGO_PKG_VERSION"),
        epoch: facts.epoch,
        waiting: Waiting { count: facts.pending.count, oldest_ms: facts.pending.oldest_ms.map(since) },
        paused,
        safe_mode,
        degraded,
    })
}

/// What the journal knows.
#[derive(Debug, Default)]
struct Facts {
    counts: LiveCounts,
    pending: Pending,
    last_contact_ms: Option<i64>,
    last_poll_ms: Option<i64>,
    clock_skew_ms: Option<i64>,
    epoch: Option<u64>,
    trouble: Option<String>,
    link: Option<String>,
    salvage: Option<Salvage>,
    /// Whether the runner could not write its audit, as it last said.
    audit_fails: bool,
}

impl Facts {
    fn read(home: &Home) -> anyhow::Result<Self> {
        let Some(reader) = Reader::find(&home.journal_file())? else { return Ok(Self::default()) };
        let number = |key| anyhow::Ok(reader.recall(key)?.and_then(|text| text.parse().ok()));
        Ok(Self {
            counts: reader.counts()?,
            pending: reader.pending()?,
            last_contact_ms: number("last_contact_ms")?,
            last_poll_ms: number("last_poll_ms")?,
            clock_skew_ms: number("clock_offset_ms")?,
            epoch: reader.recall("epoch")?.and_then(|text| text.parse().ok()),
            trouble: reader.recall("backend_trouble")?,
            link: reader.recall("backend_link")?,
            salvage: reader.salvage()?,
            audit_fails: reader
                .recall("degraded")?
                .is_some_and(|words| words.split(',').any(|word| word == "audit")),
        })
    }
}

fn show(status: &Status) {
    let running = match (status.running, status.pid) {
        (true, Some(pid)) => format!("running (pid {pid})"),
        (true, None) => "running".to_owned(),
        (false, _) => "not running".to_owned(),
    };
    let backend = match (&status.backend.url, status.backend.trouble.as_deref()) {
        (None, _) => "none is set".to_owned(),
        (Some(url), None) => format!("{url} (answers)"),
        (Some(url), Some(trouble)) => format!("{url} ({})", in_words(trouble)),
    };
    let now_ms = Clock::system().now_ms();
    let when = |at: Option<i64>| at.map_or_else(|| "never".to_owned(), |at| moments::ago(at, now_ms));
    let oldest = |age: Option<i64>| {
        age.map_or_else(String::new, |age| format!(", the oldest for {}", moments::coarse(age)))
    };
    print::line(&format!("Runner        {running}"));
    for hindrance in hindrances(status, now_ms) {
        print::line(&format!("Attention     {hindrance}"));
    }
    print::line(&format!("Device        {} (its key is kept in a {})", status.device_id, status.device_key));
    print::line(&format!("Backend       {backend}, {}", status.backend.kind));
    if let Some(link) = &status.backend.link {
        print::line(&format!("Connection    {link}"));
    }
    print::line(&format!("Last contact  {}", when(status.backend.last_contact_ms)));
    print::line(&format!("Last poll     {}", when(status.backend.last_poll_ms)));
    print::line(&format!("Waiting       {}{}", status.waiting.count, oldest(status.waiting.oldest_ms)));
    print::line(&format!("Running       {}", status.in_flight - status.waiting.count.min(status.in_flight)));
    print::line(&format!("Undelivered   {}{}", status.outbox.pending, oldest(status.outbox.oldest_ms)));
    if status.outbox.undeliverable > 0 {
        print::line(&format!(
            "Refused       {} answers that the backend will never take (`punie-runner history --failed`)",
            status.outbox.undeliverable
        ));
    }
    if let Some(salvage) = &status.salvage {
        print::line(&format!(
            "Journal       was damaged and is kept as {}: {} requests were carried over, {} could not be read",
            salvage.file, salvage.kept, salvage.lost
        ));
    }
    print::line(&format!(
        "Confinement   {} (commands reach by network: {})",
        status.confinement, status.network
    ));
    print::line(&format!(
        "Protected     .git/hooks, .git/config and the like {}",
        if status.protected_paths == "read_only" {
            "are read-only to commands"
        } else {
            "can be written by commands; a result says so when they were"
        }
    ));
    print::line(&format!("Limits        {}", status.limits.words()));
    print::line(&format!(
        "Requests      {}",
        match status.request_auth {
            "signed" => "run only when signed with the key that is pinned here",
            _ => "run as the backend hands them on (request_auth = transport)",
        }
    ));
    if let Some(count @ 1..) = status.secrets {
        print::line(&format!("Secrets       {count}, in a sealed file"));
    }
    #[cfg(unix)]
    print::line(&format!("A stop ends   {}", crate::acp::local::kill::reach()));
    print::line(&format!("Version       {}", status.version));
}

/// What is not as it should be, in sentences.
fn hindrances(status: &Status, now_ms: i64) -> Vec<String> {
    let since = |on: &Option<SwitchedOn>| {
        let Some(on) = on else { return String::new() };
        let reason = on.reason.as_ref().map(|reason| format!(" ({})", print::cell(reason, 100)));
        let since = if on.since_ms > 0 {
            format!(" for {}", moments::coarse(now_ms - on.since_ms))
        } else {
            String::new()
        };
        format!("{since}{}", reason.unwrap_or_default())
    };
    let sentence = |word: &&'static str| match *word {
        "disk" => "The disk is nearly full: nothing new is begun until there is room.".to_owned(),
        "intercepted" => {
            "Something else answers at the backend's address: a login page of the network, or a proxy."
                .to_owned()
        }
        "clock_skew" => {
            let skew = status.backend.clock_skew_ms.unwrap_or_default();
            let which = if skew > 0 { "behind" } else { "ahead of" };
            let apart = moments::coarse(skew.saturating_abs());
            format!("This machine's clock is {apart} {which} the backend's; deadlines go by the backend's.")
        }
        "secrets" => "The owner's secrets cannot be read; `punie-runner secrets list` says why.".to_owned(),
        "paused" => {
            format!("Paused{}: nothing new begins until `punie-runner resume`.", since(&status.paused))
        }
        "safe_mode" => format!(
            "Safe mode{}: the runner crashed several times and begins nothing until it has been quiet for a while, or \
             `punie-runner resume`.",
            since(&status.safe_mode)
        ),
        "audit" => {
            "The audit cannot be written; calls go on, and its rows wait (the log says why).".to_owned()
        }
        other => other.to_owned(),
    };
    status.degraded.iter().map(sentence).collect()
}

fn in_words(trouble: &str) -> &str {
    match trouble {
        "unreachable" => "does not answer",
        "intercepted" => {
            "intercepted: something else answers in its place, perhaps this network's login page"
        }
        "refused" => "refuses this device",
        "busy" => "asks for patience",
        "failing" => "fails",
        other => other,
    }
}
