//! `status`: whether a runner runs, what is on its way, whether its backend answers. Works without a runner too.

use std::time::Duration;

use serde::Serialize;

use super::context::{Context, runtime};
use super::exit::Exit;
use super::{moments, print, wiring};
use crate::config::{Config, WorkspaceRule};
use crate::home::{DeviceIdentity, Home, RunnerLock, Switch, SwitchedOn, Switches};
use crate::journal::{LiveCounts, Pending, Reader};
use crate::runner::Clock;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Status {
    running: bool,
    pid: Option<u32>,
    device_id: String,
    backend: BackendStatus,
    confinement: &'static str,
    in_flight: u32,
    outbox: Outbox,
    can_execute: CanExecute,
    version: &'static str,
    /// The life of the runner that is, or was the last.
    epoch: Option<u64>,
    waiting: Waiting,
    paused: Option<SwitchedOn>,
    safe_mode: Option<SwitchedOn>,
    /// `disk`, `intercepted`, `clock_skew`, `paused`, `safe_mode`: what keeps it from being all it should be.
    degraded: Vec<String>,
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
    url: Option<String>,
    reachable: bool,
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
    let status = look(&config, &home)?;
    if context.json() {
        print::json(&status);
    } else {
        show(&status);
    }
    Ok(Exit::Done)
}

/// The clocks may differ by this much before it is worth saying so, in milliseconds.
const SKEW_MS: i64 = 120_000;

fn look(config: &Config, home: &Home) -> anyhow::Result<Status> {
    let holder = RunnerLock::peek(home)?;
    let facts = Facts::read(home)?;
    let switches = Switches::of(home);
    let (paused, safe_mode) = (switches.read(Switch::Paused), switches.read(Switch::SafeMode));
    let url = config.backend.url.as_ref().map(ToString::to_string);
    let reachable = url.is_some() && runtime()?.block_on(probe(config));
    let since = |at: i64| Clock::system().now_ms().saturating_sub(at).max(0);
    // What only a runner can notice is news only while one runs; the rest is looked up here.
    let mut degraded: Vec<String> = if holder.is_some() { facts.noticed } else { Vec::new() };
    degraded.retain(|word| word == "disk" || word == "intercepted");
    for (is_so, word) in [
        (facts.clock_skew_ms.is_some_and(|skew| skew.abs() > SKEW_MS), "clock_skew"),
        (paused.is_some(), "paused"),
        (safe_mode.is_some(), "safe_mode"),
    ] {
        degraded.extend(is_so.then(|| word.to_owned()));
    }
    let counts = facts.counts;
    Ok(Status {
        running: holder.is_some(),
        pid: holder.and_then(|holder| holder.pid),
        device_id: DeviceIdentity::load_or_create(home)?.id().to_string(),
        backend: BackendStatus {
            url,
            reachable,
            last_contact_ms: facts.last_contact_ms.max(facts.last_poll_ms),
            last_poll_ms: facts.last_poll_ms,
            clock_skew_ms: facts.clock_skew_ms,
        },
        confinement: wiring::CONFINEMENT,
        in_flight: counts.accepted + counts.started,
        outbox: Outbox {
            pending: counts.outbox,
            oldest_ms: counts.outbox_oldest_ms.map(since),
            undeliverable: counts.undeliverable,
        },
        can_execute: CanExecute { read: true, write: true, exec: true },
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
    noticed: Vec<String>,
}

impl Facts {
    fn read(home: &Home) -> anyhow::Result<Self> {
        let path = home.journal_file();
        if !path.exists() {
            return Ok(Self::default());
        }
        let reader = Reader::open(&path)?;
        let number = |key| anyhow::Ok(reader.recall(key)?.and_then(|text| text.parse().ok()));
        let noticed = reader.recall("degraded")?.unwrap_or_default();
        Ok(Self {
            counts: reader.counts()?,
            pending: reader.pending()?,
            last_contact_ms: number("last_contact_ms")?,
            last_poll_ms: number("last_poll_ms")?,
            clock_skew_ms: number("clock_offset_ms")?,
            epoch: reader.recall("epoch")?.and_then(|text| text.parse().ok()),
            noticed: noticed.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect(),
        })
    }
}

async fn probe(config: &Config) -> bool {
    match wiring::functions(config) {
        Ok(functions) => functions.probe(PROBE).await.is_ok(),
        Err(_) => false,
    }
}

fn show(status: &Status) {
    let running = match (status.running, status.pid) {
        (true, Some(pid)) => format!("running (pid {pid})"),
        (true, None) => "running".to_owned(),
        (false, _) => "not running".to_owned(),
    };
    let backend = match (&status.backend.url, status.backend.reachable) {
        (None, _) => "none is set".to_owned(),
        (Some(url), true) => format!("{url} (answers)"),
        (Some(url), false) => format!("{url} (does not answer)"),
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
    print::line(&format!("Device        {}", status.device_id));
    print::line(&format!("Backend       {backend}"));
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
    print::line(&format!("Confinement   {}", status.confinement));
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
    let sentence = |word: &String| match word.as_str() {
        "disk" => "The disk is nearly full: nothing new is begun until there is room.".to_owned(),
        "intercepted" => {
            "Something else answers at the backend's address: a login page of the network, or a proxy."
                .to_owned()
        }
        "clock_skew" => format!(
            "This machine's clock and the backend's are {} apart; the backend's counts.",
            moments::coarse(status.backend.clock_skew_ms.unwrap_or_default().saturating_abs())
        ),
        "paused" => {
            format!("Paused{}: nothing new begins until `punie-runner resume`.", since(&status.paused))
        }
        "safe_mode" => format!(
            "Safe mode{}: the runner crashed several times and begins nothing until it has been quiet for a while, or \
             `punie-runner resume`.",
            since(&status.safe_mode)
        ),
        other => other.to_owned(),
    };
    status.degraded.iter().map(sentence).collect()
}
