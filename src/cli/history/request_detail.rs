//! Every step of one request, as text or JSON.

use serde::Serialize;

use super::history_line::{
    HistoryLine, KnownBeside, describe_outcome, describe_progress, execution_duration,
};
use super::request_content::RequestContent;
use crate::cli::table::Column;
use crate::cli::{console, display_time};
use punie_core::host_traffic::HostTraffic;
use punie_engine::journal::{FullHistory, HistoryEntry, RequestIncident, RequestState};
use punie_host::local::process_identity::ProcessIdentity;
use punie_tool::request::ErrorCode;

/// One step of a request's history.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct HistoryStep {
    at_ms: i64,
    what: String,
    detail: Option<String>,
    times: u32,
    last_at_ms: Option<i64>,
}

/// A request with its steps, as `--json` shows it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct HistoryDetail<'a> {
    request: Option<HistoryLine<'a>>,
    declared_effects: u32,
    processes: Vec<&'a str>,
    steps: Vec<HistoryStep>,
    /// The masked arguments, one under the other; null if they are not kept.
    arguments: Option<&'a str>,
    /// The head and the tail of the answer; null if it is not kept.
    output: Option<&'a str>,
    /// What its command sent to other hosts and received from them.
    network: &'a [HostTraffic],
    changed_files: &'a [String],
    /// True if `undo` can put something back.
    can_undo: bool,
}

/// Shows a request with its steps.
pub(super) fn show_request_detail(
    id: &str,
    history: &FullHistory,
    content: &RequestContent,
    known: &KnownBeside,
    as_json: bool,
) {
    let steps = request_steps(history, known.undone.get(id).copied());
    let entry = history.entry.as_ref();
    if as_json {
        console::print_json(&HistoryDetail {
            request: entry.map(|entry| HistoryLine::from_journal_row(entry, known)),
            declared_effects: history.declared,
            processes: live_processes(history).collect(),
            steps,
            arguments: content.record.as_ref().map(|record| &*record.arguments),
            output: content.record.as_ref().map(|record| &*record.output),
            network: &content.network,
            changed_files: &content.changed_files,
            can_undo: content.can_undo,
        });
    } else {
        show_request_facts(id, history, known);
        if let Some(entry) = entry {
            content.show_content(entry);
        }
        console::print_line("");
        show_steps(&steps);
    }
}

impl HistoryStep {
    fn new(at_ms: i64, what: &str, detail: Option<String>) -> Self {
        Self {
            at_ms,
            what: what.to_owned(),
            detail,
            times: 1,
            last_at_ms: None,
        }
    }
}

/// Collects all steps of a request in order.
fn request_steps(history: &FullHistory, undone: Option<i64>) -> Vec<HistoryStep> {
    let entry = history.entry.as_ref();
    let mut steps: Vec<HistoryStep> = entry.map(entry_steps).unwrap_or_default();
    steps.extend(history.incidents.iter().map(incident_step));
    steps.sort_by_key(|step| step.at_ms);
    // This time is by the backend's clock, the others by the device's: always put it last.
    if let Some(entry) = entry
        && let Some(at) = entry.closed_at_ms
    {
        let error = entry.last_error.clone();
        let detail = error.filter(|_| entry.state == RequestState::Undeliverable);
        steps.push(HistoryStep::new(at, entry.state.as_str(), detail));
    }
    if let Some(at) = undone {
        let detail = "what it had changed was put back".to_owned();
        steps.push(HistoryStep::new(at, "undone", Some(detail)));
    }
    steps
}

/// Returns the steps whose times the journal's row holds.
fn entry_steps(entry: &HistoryEntry) -> Vec<HistoryStep> {
    let offered = (entry.offers > 1).then(|| format!("offered {} times", entry.offers));
    let started = || match entry.attempts {
        1 => "first attempt".to_owned(),
        attempts => format!("attempt {attempts}"),
    };
    let finished = || {
        let took = execution_duration(entry)
            .map(|ms| format!(" after {}", display_time::format_elapsed(ms)))
            .unwrap_or_default();
        format!("{}{took}", describe_outcome(entry))
    };
    let step = |at: Option<i64>, what: &str, detail: Option<String>| {
        at.map(|at| HistoryStep::new(at, what, detail))
    };
    let cancelled = "the caller cancelled it".to_owned();
    [
        step(Some(entry.received_at_ms), "accepted", offered),
        step(entry.started_at_ms, "started", Some(started())),
        step(entry.cancel_requested_at_ms, "taken back", Some(cancelled)),
        step(entry.finished_at_ms, "finished", Some(finished())),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn incident_step(incident: &RequestIncident) -> HistoryStep {
    HistoryStep {
        at_ms: incident.at_ms,
        what: incident.kind.clone(),
        detail: incident.detail.clone(),
        times: incident.times,
        last_at_ms: incident.last_at_ms,
    }
}

/// Prints the facts about a request that have no time.
fn show_request_facts(id: &str, history: &FullHistory, known: &KnownBeside) {
    console::print_row("Request", id);
    match &history.entry {
        Some(entry) => show_entry_facts(entry, known),
        None => {
            console::print_line(
                "This device never accepted the request. What the backend offered:",
            );
        }
    }
    for command in live_processes(history) {
        console::print_row("Process", &console::cell_text(command, 100));
    }
}

/// The commands of the request's processes that still run. Another process with the same number is none of them.
fn live_processes(history: &FullHistory) -> impl Iterator<Item = &str> {
    let is_alive = |identity: &str| {
        let identity = identity.parse::<ProcessIdentity>();
        identity.is_ok_and(|process| process.may_be_alive())
    };
    let all = history.processes.iter();
    all.filter(move |(identity, _)| is_alive(identity))
        .map(|(_, command)| command.as_str())
}

fn show_entry_facts(entry: &HistoryEntry, known: &KnownBeside) {
    let tool = console::cell_text(&entry.tool, 100);
    // The effect of a tool that this device does not have is not known.
    if entry.code.as_deref() == Some(ErrorCode::UnknownTool.as_str()) {
        console::print_row("Tool", &tool);
    } else {
        console::print_row("Tool", &format!("{tool} ({})", entry.effect));
    }
    if let Some(title) = entry.title.as_ref().filter(|title| !title.is_empty()) {
        console::print_row("What", &console::cell_text(title, usize::MAX));
    }
    console::print_row(
        "Conversation",
        &console::cell_text(&entry.conversation, 100),
    );
    if let Some(backend) = &entry.backend {
        console::print_row("Backend", backend);
    }
    console::print_row("Result", &describe_progress(entry, known));
    if let Some(deadline) = entry.deadline_ms {
        #[expect(clippy::cast_possible_truncation, reason = "milliseconds since 1970")]
        let deadline = deadline as i64;
        console::print_row("Wanted until", &display_time::format_moment(deadline));
    }
    if entry.failed_posts > 0 {
        let error = entry.last_error.as_deref().unwrap_or("no reason was noted");
        let error = console::cell_text(error, 200);
        let text = format!("{}, the last: {error}", entry.failed_posts);
        console::print_row("Failed posts", &text);
    }
}

fn show_steps(steps: &[HistoryStep]) {
    let row = |step: &HistoryStep| {
        let detail = step.detail.as_deref().unwrap_or_default();
        let mut detail = console::cell_text(detail, 300);
        if step.times > 1 {
            let last = step.last_at_ms.map(display_time::format_moment);
            let last = last.unwrap_or_default();
            detail = format!("{} times, the last {last}: {detail}", step.times);
        }
        vec![
            display_time::format_moment(step.at_ms),
            console::cell_text(&step.what, 30),
            detail,
        ]
    };
    let rows: Vec<Vec<String>> = steps.iter().map(row).collect();
    let time = if console::is_terminal() {
        "TIME"
    } else {
        "TIME (UTC)"
    };
    let columns = [
        Column::text(time),
        Column::text("STEP"),
        Column::wrapped("DETAIL"),
    ];
    console::print_table(&columns, &rows);
}
