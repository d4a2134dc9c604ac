//! `status`: whether a runner runs, what is on its way, whether its backend answers. Works without a runner too.

use std::time::Duration;

use serde::Serialize;

use super::context::{Context, runtime};
use super::exit::Exit;
use super::{print, wiring};
use crate::config::{Config, WorkspaceRule};
use crate::home::{DeviceIdentity, Home, RunnerLock};
use crate::journal::{LiveCounts, Reader, Salvage, has_room_at};
use crate::runner::{Clock, SKEW_MS};

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
    /// What it goes without: `disk` while there is no room for new work.
    degraded: Vec<&'static str>,
    /// The last time that the journal was damaged and what became of it.
    salvage: Option<Salvage>,
    version: &'static str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct BackendStatus {
    url: Option<String>,
    reachable: bool,
    /// Why nothing comes through: `unreachable`, `intercepted`, `refused`, `busy`, `failing`; null while all does.
    trouble: Option<String>,
    last_contact_ms: Option<i64>,
    clock_skew_ms: Option<i64>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Outbox {
    pending: u32,
    oldest_ms: Option<i64>,
    /// For people only.
    #[serde(skip)]
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

fn look(config: &Config, home: &Home) -> anyhow::Result<Status> {
    let holder = RunnerLock::peek(home)?;
    let Facts { counts, last_contact_ms, clock_skew_ms, trouble, salvage } = journal(home)?;
    let has_room = has_room_at(&home.journal_file(), wiring::least_free(config));
    let url = config.backend.url.as_ref().map(ToString::to_string);
    let probed = match url {
        Some(_) => runtime()?.block_on(probe(config)),
        None => Err(None),
    };
    // What the runner has met says more than an answer to us; what it met when it last ran says nothing.
    let met = trouble.filter(|word| holder.is_some() && !word.is_empty());
    let trouble = met.or_else(|| probed.clone().err().flatten().map(str::to_owned));
    Ok(Status {
        running: holder.is_some(),
        pid: holder.and_then(|holder| holder.pid),
        device_id: DeviceIdentity::load_or_create(home)?.id().to_string(),
        backend: BackendStatus { url, reachable: probed.is_ok(), trouble, last_contact_ms, clock_skew_ms },
        confinement: wiring::CONFINEMENT,
        in_flight: counts.accepted + counts.started,
        outbox: Outbox {
            pending: counts.outbox,
            oldest_ms: counts.outbox_oldest_ms.map(|at| Clock::system().now_ms().saturating_sub(at)),
            undeliverable: counts.undeliverable,
        },
        can_execute: CanExecute { read: true, write: true, exec: true },
        degraded: if has_room { Vec::new() } else { vec!["disk"] },
        salvage,
        version: env!("CARGO_PKG_VERSION"),
    })
}

/// What the journal knows.
#[derive(Default)]
struct Facts {
    counts: LiveCounts,
    last_contact_ms: Option<i64>,
    clock_skew_ms: Option<i64>,
    trouble: Option<String>,
    salvage: Option<Salvage>,
}

fn journal(home: &Home) -> anyhow::Result<Facts> {
    let path = home.journal_file();
    if !path.exists() {
        return Ok(Facts::default());
    }
    let reader = Reader::open(&path)?;
    let number = |key| anyhow::Ok(reader.recall(key)?.and_then(|text| text.parse().ok()));
    Ok(Facts {
        counts: reader.counts()?,
        last_contact_ms: number("last_contact_ms")?,
        clock_skew_ms: number("clock_offset_ms")?,
        trouble: reader.recall("backend_trouble")?,
        salvage: reader.salvage()?,
    })
}

/// Whether the backend answers, and if not, why in one word.
async fn probe(config: &Config) -> Result<(), Option<&'static str>> {
    let functions = wiring::functions(config).map_err(|_| None)?;
    functions.probe(PROBE).await.map_err(|error| Some(error.trouble()))
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
    let contact = status.backend.last_contact_ms.map_or_else(
        || "never".to_owned(),
        |at| format!("{} s ago", Clock::system().now_ms().saturating_sub(at) / 1_000),
    );
    print::line(&format!("Runner        {running}"));
    print::line(&format!("Device        {}", status.device_id));
    print::line(&format!("Backend       {backend}"));
    print::line(&format!("Last contact  {contact}"));
    if let Some(skew) = status.backend.clock_skew_ms.filter(|skew| skew.unsigned_abs() > SKEW_MS) {
        let (minutes, which) = (skew.unsigned_abs() / 60_000, if skew > 0 { "behind" } else { "ahead of" });
        print::line(&format!(
            "Clock         {minutes} min {which} the backend's; deadlines go by the backend's"
        ));
    }
    print::line(&format!("In flight     {}", status.in_flight));
    print::line(&format!("Undelivered   {}", status.outbox.pending));
    if status.outbox.undeliverable > 0 {
        print::line(&format!(
            "Refused       {} answers that the backend will never take",
            status.outbox.undeliverable
        ));
    }
    if !status.degraded.is_empty() {
        print::line("Disk          has no room: nothing new is begun until it has");
    }
    if let Some(salvage) = &status.salvage {
        print::line(&format!(
            "Journal       was damaged and is kept as {}: {} requests were carried over, {} could not be read",
            salvage.file, salvage.kept, salvage.lost
        ));
    }
    print::line(&format!("Confinement   {}", status.confinement));
    #[cfg(unix)]
    print::line(&format!("A stop ends   {}", crate::acp::local::kill::reach()));
    print::line(&format!("Version       {}", status.version));
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
