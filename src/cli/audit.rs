//! `audit`: lists the requests, decisions and outcomes of this device, and verifies that all rows are present and
//! unchanged.

use std::collections::BTreeSet;

use clap::{Args, Subcommand};
use serde_json::Value;

use super::context::CliContext;
use super::exit::{CommandError, Exit};
use super::table::Column;
use super::time_period::PeriodArgs;
use super::traffic_text::describe_traffic;
use super::{console, display_time, request_ids};
use punie_core::host_traffic::HostTraffic;
use punie_engine::audit::{
    self, AuditActor, AuditEntry, AuditEvent, AuditHead, AuditPaths, AuditReport, ChainLink,
    HeadSignature,
};
use punie_engine::runner::Clock;
use punie_home::{DeviceIdentity, Home};
use punie_text::output::number_format;

#[derive(Debug, Args)]
pub struct AuditArgs {
    #[command(subcommand)]
    word: Option<AuditCommand>,
}

#[derive(Debug, Subcommand)]
enum AuditCommand {
    /// Check all rows; exits with 1 and names the first that was changed, moved or removed
    Verify(VerifyArgs),
    /// List the rows, the oldest first (the default)
    List(AuditListArgs),
}

#[derive(Debug, Args)]
struct VerifyArgs {
    /// Also check against this head, as the backend has it (`audit` in a device's health); repeatable
    #[arg(long, value_name = "SEQ:HASH", value_parser = parse_head)]
    head: Vec<ChainLink>,
}

#[derive(Debug, Default, Args)]
struct AuditListArgs {
    #[command(flatten)]
    period: PeriodArgs,
    /// Only rows of this request: its id, its end (4 characters or more), its beginning, or @last
    #[arg(long, value_name = "ID")]
    request: Option<String>,
}

fn parse_head(text: &str) -> Result<ChainLink, String> {
    AuditHead::parse_link(text)
        .ok_or_else(|| "is not a number, a colon and 64 hexadecimal digits".to_owned())
}

/// Returns the paths of a home's audit.
pub fn audit_paths(home: &Home) -> AuditPaths {
    AuditPaths::within_folder(&home.audit_dir())
}

/// Appends the owner's action durably. If this fails, the command goes on and prints a warning.
pub fn record_owner_action(home: &Home, entry: AuditEntry) {
    if let Err(error) = audit::append_entry_durably(audit_paths(home), entry) {
        console::print_error(&format!(
            "punie-runner: the audit could not be written: {error}"
        ));
    }
}

/// Creates a row about an action of the owner now.
pub fn owner_entry(event: AuditEvent) -> AuditEntry {
    AuditEntry::new(event, AuditActor::Owner, Clock::system().now_ms())
}

/// Lists or verifies the audit.
pub fn run_audit(args: &AuditArgs, context: &CliContext) -> anyhow::Result<Exit> {
    let home = context.open_home()?;
    match &args.word {
        Some(AuditCommand::Verify(args)) => verify_audit(&home, args, context.is_json()),
        Some(AuditCommand::List(args)) => list_audit_rows(&home, args, context.is_json()),
        None => list_audit_rows(&home, &AuditListArgs::default(), context.is_json()),
    }
}

fn verify_audit(home: &Home, args: &VerifyArgs, as_json: bool) -> anyhow::Result<Exit> {
    let public_key = if home.device_file().exists() {
        Some(
            DeviceIdentity::load_or_create(home)?
                .public_key_base64()
                .to_owned(),
        )
    } else {
        None
    };
    let places = audit_paths(home);
    let report =
        audit::verify_chain(&places, &args.head, public_key.as_deref()).map_err(|cause| {
            CommandError::with_exit(
                Exit::CannotWrite,
                format!("{}: {cause}", places.rows.display()),
            )
        })?;
    if as_json {
        console::print_json(&report);
    } else {
        show_report(&report);
    }
    Ok(if report.sound {
        Exit::Done
    } else {
        Exit::Failed
    })
}

fn show_report(report: &AuditReport) {
    if let Some(fault) = &report.fault {
        console::print_line(&format!("NOT SOUND: {}", fault.text));
        if fault.line > 0 {
            console::print_line(&format!(
                "It is line {} of state/audit.jsonl in the home.",
                fault.line
            ));
        }
        return;
    }
    console::print_line(&format!(
        "Sound: {}.",
        number_format::format_count(report.rows, "row")
    ));
    if let Some(first) = report.first_seq.filter(|first| *first > 1) {
        console::print_line(&format!(
            "Older rows were deleted with time; the first is row {first}."
        ));
    }
    if report.torn_bytes > 0 {
        console::print_line(&format!(
            "After the last row are {} bytes of a row that a crash cut off.",
            report.torn_bytes
        ));
    }
    console::print_line(&format!("Last: {}:{}", report.last.seq, report.last.hash));
    console::print_line(match report.head_signed {
        HeadSignature::ByThisDevice => {
            "The stored head (state/audit.head) is signed by this device."
        }
        HeadSignature::NoHead => {
            "There is no stored head (state/audit.head), so rows missing at the end cannot be noticed."
        }
        HeadSignature::No | HeadSignature::Unchecked => {
            "The stored head was not checked: the device's key is not in this home."
        }
    });
}

fn list_audit_rows(home: &Home, args: &AuditListArgs, as_json: bool) -> anyhow::Result<Exit> {
    let now_ms = Clock::system().now_ms();
    let since = args.period.begin_ms(now_ms);
    let until = args.period.end_ms();
    let request = args
        .request
        .as_ref()
        .map(|typed| find_audited_request(home, typed))
        .transpose()?;
    let mut rows = Vec::new();
    audit::for_each_row(&audit_paths(home), |line| {
        let Ok(row) = serde_json::from_slice::<Value>(line) else {
            return true;
        };
        let at_ms = row["atMs"].as_i64();
        let is_in_period = since.is_none_or(|since| at_ms.is_some_and(|at| at >= since))
            && until.is_none_or(|until| at_ms.is_some_and(|at| at < until));
        let is_its = request
            .as_ref()
            .is_none_or(|id| row["requestId"].as_str() == Some(id));
        if is_in_period && is_its {
            if as_json {
                console::print_json(&row);
            } else {
                rows.push(audit_cells(&row, now_ms));
            }
        }
        true
    })?;
    if as_json {
        return Ok(Exit::Done);
    }
    let columns = [
        Column::number("SEQ"),
        Column::text("WHEN"),
        Column::text("WHAT"),
        Column::text("WHO"),
        Column::text("TOOL"),
        Column::outcome("DECISION"),
        Column::id("REQUEST"),
        Column::flexible("MORE"),
    ];
    console::print_list(&columns, &rows, "No such row.");
    Ok(Exit::Done)
}

/// Finds the traffic of a request's command after its answer; `None` if there was none.
///
/// # Errors
/// The file cannot be read.
pub fn find_later_traffic(home: &Home, request: &str) -> anyhow::Result<Option<Vec<HostTraffic>>> {
    let mut last = None;
    let id = memchr::memmem::Finder::new(request);
    audit::for_each_row(&audit_paths(home), |line| {
        // Few rows are about the request.
        if id.find(line).is_none() {
            return true;
        }
        let row = serde_json::from_slice::<Value>(line).unwrap_or_default();
        if row["event"] == "traffic" && row["requestId"] == request {
            last = Some(row["network"].clone());
        }
        true
    })?;
    Ok(last.map(serde_json::from_value).transpose()?)
}

/// Finds the request that is meant in the journal, or among the rows.
fn find_audited_request(home: &Home, typed: &str) -> anyhow::Result<String> {
    let mut ids = BTreeSet::new();
    audit::for_each_row(&audit_paths(home), |line| {
        let row = serde_json::from_slice::<Value>(line).unwrap_or_default();
        ids.extend(row["requestId"].as_str().map(str::to_owned));
        true
    })?;
    request_ids::find_request(home, typed, ids.iter().map(String::as_str))
}

fn audit_cells(row: &Value, now_ms: i64) -> Vec<String> {
    let text = |key: &str| match &row[key] {
        Value::Null => String::new(),
        Value::String(text) => console::cell_text(text, usize::MAX),
        other => other.to_string(),
    };
    let more = [
        "by",
        "code",
        "rule",
        "outcome",
        "exitCode",
        "signal",
        "confinement",
        "bytes",
        "count",
        "detail",
    ];
    let more = more
        .iter()
        .map(|key| (*key, text(key)))
        .filter(|(_, value)| !value.is_empty());
    let network: Vec<HostTraffic> =
        serde_json::from_value(row["network"].clone()).unwrap_or_default();
    let network = network
        .iter()
        .map(|host| console::cell_text(&describe_traffic(host), usize::MAX));
    let more: Vec<String> = more
        .map(|(key, value)| format!("{key}={value}"))
        .chain(network)
        .collect();
    vec![
        text("seq"),
        display_time::format_when(row["atMs"].as_i64().unwrap_or_default(), now_ms),
        text("event"),
        text("who"),
        text("toolName"),
        text("decision"),
        text("requestId"),
        more.join(" "),
    ]
}
