//! `audit`: lists the requests, decisions and outcomes of this device, and verifies that all rows are present and
//! unchanged. Not here: the hash chain (audit).

use clap::{Args, Subcommand};
use serde_json::Value;

use super::context::Context;
use super::exit::{Exit, Stop};
use super::{moments, print};
use crate::audit::{self, Entry, Event, Head, Link, Places, Report, Signed, Who};
use crate::config::WorkspaceRule;
use crate::home::{DeviceIdentity, Home};
use crate::output::figures;
use crate::runner::Clock;

#[derive(Debug, Args)]
pub struct AuditArgs {
    #[command(subcommand)]
    word: Word,
}

#[derive(Debug, Subcommand)]
enum Word {
    /// Follow the rows from first to last; exits with 1 and names the first that is not as it was written
    Verify(VerifyArgs),
    /// The rows, the oldest first
    List(ListArgs),
}

#[derive(Debug, Args)]
struct VerifyArgs {
    /// A head known from elsewhere, as heartbeats carry it (`audit` in a device's health); repeatable
    #[arg(long, value_name = "SEQ:HASH", value_parser = head)]
    head: Vec<Link>,
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Only rows of the last minutes
    #[arg(long, value_name = "MINUTES")]
    within: Option<u32>,
    /// Only rows from then on, in milliseconds since 1970
    #[arg(long, value_name = "MS")]
    since: Option<i64>,
    /// Only rows of this request; the beginning or the end of its id is enough
    #[arg(long, value_name = "ID")]
    request: Option<String>,
}

fn head(text: &str) -> Result<Link, String> {
    Head::parse(text).ok_or_else(|| "is not a number, a colon and 64 hexadecimal digits".to_owned())
}

/// Returns the paths of a home's audit.
pub fn places(home: &Home) -> Places {
    Places::within(&home.audit_dir())
}

/// Appends the owner's action durably. If this fails, the command goes on and prints a warning.
pub fn note(home: &Home, entry: Entry) {
    if let Err(error) = audit::append_now(places(home), entry) {
        print::complain(&format!("punie-runner: the audit could not be written: {error}"));
    }
}

/// Creates a row about an action of the owner now.
pub fn by_owner(event: Event) -> Entry {
    Entry::new(event, Who::Owner, Clock::system().now_ms())
}

/// Lists or verifies the audit.
pub fn audit(args: &AuditArgs, context: &Context) -> anyhow::Result<Exit> {
    let config = context.config(WorkspaceRule::NotNeeded)?;
    let home = Context::home(&config)?;
    match &args.word {
        Word::Verify(args) => verify(&home, args, context.json()),
        Word::List(args) => list(&home, args, context.json()),
    }
}

fn verify(home: &Home, args: &VerifyArgs, as_json: bool) -> anyhow::Result<Exit> {
    let public_key = if home.device_file().exists() {
        Some(DeviceIdentity::load_or_create(home)?.public_key_base64().to_owned())
    } else {
        None
    };
    let places = places(home);
    let report = audit::verify(&places, &args.head, public_key.as_deref())
        .map_err(|cause| Stop::with(Exit::CannotWrite, format!("{}: {cause}", places.rows.display())))?;
    if as_json {
        print::json(&report);
    } else {
        show(&report);
    }
    Ok(if report.sound { Exit::Done } else { Exit::Failed })
}

fn show(report: &Report) {
    if let Some(fault) = &report.fault {
        print::line(&format!("NOT SOUND: {}", fault.text));
        if fault.line > 0 {
            print::line(&format!("It is line {} of state/audit.jsonl in the home.", fault.line));
        }
        return;
    }
    print::line(&format!("Sound: {}.", figures::counted(report.rows, "row")));
    if let Some(first) = report.first_seq.filter(|first| *first > 1) {
        print::line(&format!("Older ones went with time; the first is row {first}."));
    }
    if report.torn_bytes > 0 {
        print::line(&format!(
            "Behind the last are {} bytes of a row that a crash cut off.",
            report.torn_bytes
        ));
    }
    print::line(&format!("Last: {}:{}", report.last.seq, report.last.hash));
    print::line(match report.head_signed {
        Signed::ByThisDevice => "The head kept beside it is this device's word.",
        Signed::NoHead => "No head is kept beside it, so that nobody would notice rows cut off at the end.",
        Signed::No | Signed::Unchecked => "The head kept beside it was not checked: no device's key is here.",
    });
}

fn list(home: &Home, args: &ListArgs, as_json: bool) -> anyhow::Result<Exit> {
    let now_ms = Clock::system().now_ms();
    let within = args.within.map(|minutes| now_ms - i64::from(minutes) * 60_000);
    let since = args.since.max(within);
    let mut rows = Vec::new();
    audit::walk(&places(home), |line| {
        let Ok(row) = serde_json::from_slice::<Value>(line) else { return true };
        let is_late = since.is_none_or(|since| row["atMs"].as_i64().is_some_and(|at| at >= since));
        let is_its = args.request.as_ref().is_none_or(|id| {
            row["requestId"].as_str().is_some_and(|known| known.starts_with(id) || known.ends_with(id))
        });
        if is_late && is_its {
            if as_json {
                print::json(&row);
            } else {
                rows.push(cells(&row));
            }
        }
        true
    })?;
    if as_json {
        return Ok(Exit::Done);
    }
    if rows.is_empty() {
        print::line("No such row.");
    } else {
        print::table(&["SEQ", "WHEN", "WHAT", "WHO", "TOOL", "DECISION", "REQUEST", "MORE"], &rows);
    }
    Ok(Exit::Done)
}

fn cells(row: &Value) -> Vec<String> {
    let text = |key: &str| match &row[key] {
        Value::Null => String::new(),
        Value::String(text) => print::cell(text, 40),
        other => other.to_string(),
    };
    let more =
        ["by", "code", "rule", "outcome", "exitCode", "signal", "confinement", "bytes", "count", "detail"];
    let more = more.iter().map(|key| (*key, text(key))).filter(|(_, value)| !value.is_empty());
    let more: Vec<String> = more.map(|(key, value)| format!("{key}={value}")).collect();
    vec![
        text("seq"),
        moments::utc(row["atMs"].as_i64().unwrap_or_default()),
        text("event"),
        text("who"),
        text("toolName"),
        text("decision"),
        text("requestId"),
        more.join(" "),
    ]
}
