//! One request of the history: its line for `--json`, and its state in words.

use std::collections::HashMap;

use serde::Serialize;

use crate::cli::call_line::describe_result;
use crate::cli::console;
use punie_core::approval_answer::ApprovalDenial;
use punie_engine::journal::{HistoryEntry, RequestOrigin, RequestState};
use punie_tool::request::OutcomeKind;

/// One request, as `--json` shows it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct HistoryLine<'a> {
    request_id: &'a str,
    tool_name: &'a str,
    origin: &'static str,
    conversation_id: &'a str,
    effect: &'a str,
    state: &'static str,
    /// The runner that had begun it ended before it was answered.
    cut_off: bool,
    outcome: Option<&'static str>,
    code: Option<&'a str>,
    /// The command, paths or query; null if none is kept.
    title: Option<&'a str>,
    exit_code: Option<i32>,
    signal: Option<&'a str>,
    rule: Option<&'a str>,
    /// Who denied a call that needed approval, or why nobody did; null otherwise.
    denial: Option<&'static str>,
    offers: u32,
    attempts: u32,
    epoch: Option<u32>,
    received_at_ms: i64,
    started_at_ms: Option<i64>,
    finished_at_ms: Option<i64>,
    closed_at_ms: Option<i64>,
    duration_ms: Option<i64>,
    deadline_ms: Option<f64>,
    cancel_requested: bool,
    cancel_requested_at_ms: Option<i64>,
    failed_posts: u32,
    last_error: Option<&'a str>,
    undone_at_ms: Option<i64>,
    /// The address of the backend that sent it; null if unknown.
    backend: Option<&'a str>,
}

/// What other files than the journal tell about requests.
#[derive(Debug, Default)]
pub(super) struct KnownBeside {
    /// The requests that were undone, with the time.
    pub undone: HashMap<String, i64>,
    /// The number of the run of the runner that lives.
    pub run: Option<u32>,
}

impl KnownBeside {
    /// Returns whether the runner that had begun a request ended before it was answered.
    pub fn is_cut_off(&self, entry: &HistoryEntry) -> bool {
        entry.state == RequestState::Started && (self.run.is_none() || entry.epoch != self.run)
    }
}

impl<'a> HistoryLine<'a> {
    pub fn from_journal_row(entry: &'a HistoryEntry, known: &KnownBeside) -> Self {
        Self {
            request_id: &entry.id,
            tool_name: &entry.tool,
            origin: match entry.origin {
                RequestOrigin::Backend => "backend",
                RequestOrigin::Task => "task",
            },
            conversation_id: &entry.conversation,
            effect: &entry.effect,
            state: entry.state.as_str(),
            cut_off: known.is_cut_off(entry),
            outcome: entry.outcome.map(OutcomeKind::as_str),
            code: entry.code.as_deref(),
            title: entry.title.as_deref(),
            exit_code: entry.end.exit_code,
            signal: entry.end.signal.as_deref(),
            rule: entry.end.rule.as_deref(),
            denial: entry.end.denial.map(ApprovalDenial::as_str),
            offers: entry.offers,
            attempts: entry.attempts,
            epoch: entry.epoch,
            received_at_ms: entry.received_at_ms,
            started_at_ms: entry.started_at_ms,
            finished_at_ms: entry.finished_at_ms,
            closed_at_ms: entry.closed_at_ms,
            duration_ms: execution_duration(entry),
            deadline_ms: entry.deadline_ms,
            cancel_requested: entry.cancel_requested,
            cancel_requested_at_ms: entry.cancel_requested_at_ms,
            failed_posts: entry.failed_posts,
            last_error: entry.last_error.as_deref(),
            undone_at_ms: known.undone.get(&entry.id).copied(),
            backend: entry.backend.as_deref(),
        }
    }
}

/// Returns the time for which the last execution ran, without waits before its start. A row of an older version has
/// only its start and its end.
pub(super) fn execution_duration(entry: &HistoryEntry) -> Option<i64> {
    if entry.end.run_ms.is_some() {
        return entry.end.run_ms;
    }
    Some(entry.finished_at_ms? - entry.started_at_ms?)
}

/// Describes the outcome of a request that has ended.
pub(super) fn describe_outcome(entry: &HistoryEntry) -> String {
    match entry.outcome {
        Some(kind) => describe_result(kind, entry.code.as_deref(), &entry.end),
        None => "closed".to_owned(),
    }
}

/// Describes the state for people.
pub(super) fn describe_progress(entry: &HistoryEntry, known: &KnownBeside) -> String {
    match entry.state {
        RequestState::Started if known.is_cut_off(entry) => {
            "cut off; the next start answers it".to_owned()
        }
        RequestState::Accepted => "waiting".to_owned(),
        RequestState::Started => "running".to_owned(),
        RequestState::Finished => format!("{}, not delivered", describe_outcome(entry)),
        RequestState::Delivered => describe_outcome(entry),
        RequestState::Undeliverable => format!("{}, undeliverable", describe_outcome(entry)),
    }
}

/// Describes the state in a cell of the list.
pub(super) fn describe_state(entry: &HistoryEntry, known: &KnownBeside) -> String {
    let state = describe_progress(entry, known);
    let state = if known.undone.contains_key(&entry.id) {
        format!("{state}, undone")
    } else {
        state
    };
    console::cell_text(&state, usize::MAX)
}
