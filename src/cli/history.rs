//! `history`: lists requests and their outcomes, or every step of one request. Reads the journal with or without a
//! running runner. Not here: the current activity (status).

mod history_line;
mod request_detail;

use std::collections::HashMap;

use clap::Args;

use super::context::CliContext;
use super::exit::{CommandError, Exit};
use super::{console, display_time, wiring};
use crate::config::WorkspaceRule;
use crate::journal::{FullHistory, HistoryEntry, HistoryQuery, JournalReader};
use crate::runner::Clock;
use history_line::{HistoryLine, describe_progress, execution_duration, request_notes};
use request_detail::show_request_detail;

#[derive(Debug, Args)]
pub struct HistoryArgs {
    /// Show every step of this request; the beginning of its id is enough
    request: Option<String>,
    /// The most requests to list, the latest first; 0: all
    #[arg(
        long,
        default_value_t = 20,
        value_name = "N",
        conflicts_with = "request"
    )]
    limit: u32,
    /// Only requests that failed or could not be delivered
    #[arg(long, conflicts_with = "request")]
    failed: bool,
    /// Only requests that wait, run, or are not delivered yet
    #[arg(long, conflicts_with = "request")]
    open: bool,
    /// Only requests for this tool
    #[arg(long, value_name = "NAME", conflicts_with = "request")]
    tool: Option<String>,
    /// Only requests of this conversation
    #[arg(long, value_name = "ID", conflicts_with = "request")]
    conversation: Option<String>,
    /// Only requests received in the last MINUTES
    #[arg(long, value_name = "MINUTES", conflicts_with = "request")]
    within: Option<u32>,
}

/// Lists the history, or shows one request.
pub fn run_history(args: &HistoryArgs, context: &CliContext) -> anyhow::Result<Exit> {
    let (config, home) = context.config_and_home(WorkspaceRule::NotNeeded)?;
    let path = home.journal_file();
    let undone: HashMap<String, i64> = wiring::open_trash(&config, &home)
        .list_undone()?
        .into_iter()
        .map(|(id, at)| (id.into(), at))
        .collect();
    let reader = JournalReader::find_journal(&path)?;
    if let Some(request) = &args.request {
        let (id, history) = find_request(reader.as_ref(), request)?;
        show_request_detail(&id, &history, &undone, context.is_json());
        return Ok(Exit::Done);
    }
    let now_ms = Clock::system_clock().now_ms();
    let query = HistoryQuery {
        limit: args.limit,
        failed: args.failed,
        open: args.open,
        tool: args.tool.clone(),
        conversation: args.conversation.clone(),
        since_ms: args
            .within
            .map(|minutes| now_ms - i64::from(minutes) * 60_000),
    };
    let (entries, several) = match reader {
        Some(reader) => (reader.list_history(&query)?, reader.backend_count()? > 1),
        None => (Vec::new(), false),
    };
    if context.is_json() {
        for entry in &entries {
            console::print_json(&HistoryLine::from_journal_row(entry, &undone));
        }
    } else {
        show_history(&entries, now_ms, &undone, several);
    }
    Ok(Exit::Done)
}

/// Finds the request by its id or a unique beginning of it.
pub(super) fn find_request(
    reader: Option<&JournalReader>,
    typed: &str,
) -> anyhow::Result<(String, FullHistory)> {
    let unknown = || {
        let text = format!(
            "the journal knows no request {typed:?}; what is delivered is remembered for 30 days"
        );
        CommandError::with_exit(Exit::Failed, text)
    };
    let reader = reader.ok_or_else(unknown)?;
    if let Some(history) = reader.read_full_history(typed)? {
        return Ok((typed.to_owned(), history));
    }
    let alike = reader.ids_with_prefix(typed, 5)?;
    match alike.as_slice() {
        [] => Err(unknown()),
        [only] => Ok((
            only.clone(),
            reader.read_full_history(only)?.ok_or_else(unknown)?,
        )),
        several => {
            let text = format!(
                "several requests begin with {typed:?}, the latest: {}",
                several.join(", ")
            );
            Err(CommandError::with_exit(Exit::Usage, text))
        }
    }
}

/// Prints the list, with each request's backend if there are several.
fn show_history(
    entries: &[HistoryEntry],
    now_ms: i64,
    undone: &HashMap<String, i64>,
    several: bool,
) {
    if entries.is_empty() {
        return console::print_line(
            "Nothing that fits was asked of this device within the last 30 days.",
        );
    }
    let rows: Vec<Vec<String>> = entries
        .iter()
        .map(|entry| {
            let mut row = vec![
                display_time::format_age(entry.received_at_ms, now_ms),
                console::cell_text(&entry.tool, 30),
                describe_progress(entry),
                execution_duration(entry)
                    .map(display_time::format_elapsed)
                    .unwrap_or_default(),
                entry.id.clone(),
                request_notes(entry, undone.contains_key(&entry.id)),
            ];
            if several {
                row.insert(5, entry.backend.clone().unwrap_or_default());
            }
            row
        })
        .collect();
    let mut head = vec!["WHEN", "TOOL", "OUTCOME", "TOOK", "REQUEST", "NOTES"];
    if several {
        head.insert(5, "BACKEND");
    }
    console::print_table(&head, &rows);
}
