//! One request of the history: its line for `--json`, and its state in words.

use std::collections::HashMap;

use serde::Serialize;

use crate::cli::call_line::describe_result;
use crate::cli::console;
use punie_engine::journal::{HistoryEntry, RequestState};

/// One request, as `--json` shows it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct HistoryLine<'a> {
    #[serde(flatten)]
    entry: &'a HistoryEntry,
    /// The runner that had begun it ended before it was answered.
    cut_off: bool,
    duration_ms: Option<i64>,
    undone_at_ms: Option<i64>,
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
            entry,
            cut_off: known.is_cut_off(entry),
            duration_ms: execution_duration(entry),
            undone_at_ms: known.undone.get(&entry.id).copied(),
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
