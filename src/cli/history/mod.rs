//! `history`: lists requests and their outcomes, or every step of one request. Reads the journal with or without a
//! running runner.

mod history_line;
mod request_content;
mod request_detail;

use std::collections::HashMap;

use clap::Args;

use super::context::CliContext;
use super::exit::{CommandError, Exit};
use super::status::journal_facts::find_live_run;
use super::table::Column;
use super::time_period::PeriodArgs;
use super::{console, display_time, request_ids, wiring};
use crate::config::WorkspaceRule;
use history_line::{HistoryLine, KnownBeside, describe_state, execution_duration};
use punie_engine::journal::{FullHistory, HistoryEntry, HistoryQuery, JournalReader};
use punie_engine::runner::Clock;
use punie_home::command_to_type;
use punie_text::output::number_format;
use request_content::RequestContent;
use request_detail::show_request_detail;

#[derive(Debug, Args)]
pub struct HistoryArgs {
    /// The request to show: its id, its end (4 characters or more), its beginning, or @last
    #[arg(conflicts_with_all = ["since", "until", "within"])]
    request: Option<String>,
    /// The most requests to list, the latest first; 0: all
    #[arg(
        long,
        default_value_t = 20,
        value_name = "N",
        conflicts_with = "request"
    )]
    limit: u32,
    /// Only errors, commands that exited with another code than 0, and results that could not be delivered
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
    /// Only requests of which something was refused: a rule, a person, or what commands may reach
    #[arg(long, conflicts_with = "request")]
    denied: bool,
    /// Only requests with this text in WHAT, in small or capital letters
    #[arg(long, value_name = "TEXT", conflicts_with = "request")]
    grep: Option<String>,
    #[command(flatten)]
    period: PeriodArgs,
}

/// Lists the history, or shows one request.
pub fn run_history(args: &HistoryArgs, context: &CliContext) -> anyhow::Result<Exit> {
    let (config, home) = context.config_beside_runner(WorkspaceRule::NotNeeded)?;
    let path = home.journal_file();
    let undone: HashMap<String, i64> = wiring::open_trash(&config, &home)
        .list_undone()?
        .into_iter()
        .map(|(id, at)| (id.into(), at))
        .collect();
    let reader = JournalReader::find(&path)?;
    let run = match &reader {
        Some(reader) => find_live_run(&home, reader)?,
        None => None,
    };
    let known = KnownBeside { undone, run };
    if let Some(request) = &args.request {
        let (id, history) = find_request(reader.as_ref(), request)?;
        let kept = RequestContent::load(&config, &home, &history)?;
        show_request_detail(&id, &history, &kept, &known, context.is_json());
        return Ok(Exit::Done);
    }
    let now_ms = Clock::system().now_ms();
    let query = HistoryQuery {
        limit: args.limit,
        failed: args.failed,
        open: args.open,
        tool: args.tool.clone(),
        conversation: args.conversation.clone(),
        denied: args.denied,
        text: args.grep.clone(),
        since_ms: args.period.begin_ms(now_ms),
        until_ms: args.period.end_ms(),
    };
    let entries = match &reader {
        Some(reader) => reader.list_history(&query)?,
        None => Vec::new(),
    };
    if context.is_json() {
        for entry in &entries {
            console::print_json(&HistoryLine::from_journal_row(entry, &known));
        }
    } else {
        show_history(&entries, now_ms, &known);
        if let Some(reader) = reader
            && entries.len() == args.limit as usize
        {
            show_rest(u64::from(args.limit), reader.count_history(&query)?.into());
        }
    }
    Ok(Exit::Done)
}

/// Finds the request by its id, the end or the beginning of it, or `@last`.
pub(super) fn find_request(
    reader: Option<&JournalReader>,
    typed: &str,
) -> anyhow::Result<(String, FullHistory)> {
    let unknown = || unknown_request(typed);
    let id = request_ids::find_in_journal(reader, typed)?.ok_or_else(unknown)?;
    let reader = reader.ok_or_else(unknown)?;
    let history = reader.read_full_history(&id)?.ok_or_else(unknown)?;
    Ok((id, history))
}

/// Returns the error for a request that nobody knows here.
pub(super) fn unknown_request(typed: &str) -> anyhow::Error {
    let text = format!(
        "the journal knows no request {typed:?}; it remembers requests for 30 days. `{}` lists them",
        command_to_type("history")
    );
    CommandError::with_exit(Exit::Failed, text)
}

/// Says how many requests the list leaves out, if any.
fn show_rest(shown: u64, count: u64) {
    if count > shown {
        console::print_line(&format!(
            "The newest {} of {}. Add `--limit 0` to see all.",
            number_format::group_digits(shown),
            number_format::format_count(count, "request")
        ));
    }
}

/// Prints the list. On a terminal, rows fit its width.
fn show_history(entries: &[HistoryEntry], now_ms: i64, known: &KnownBeside) {
    let columns = [
        Column::text("WHEN"),
        Column::text("TOOL"),
        Column::flexible("WHAT"),
        Column::outcome("RESULT"),
        Column::number("TOOK"),
        Column::id("ID"),
    ];
    let rows: Vec<Vec<String>> = entries
        .iter()
        .map(|entry| {
            vec![
                display_time::format_when(entry.received_at_ms, now_ms),
                console::cell_text(&entry.tool, 30),
                console::cell_text(entry.title.as_deref().unwrap_or_default(), usize::MAX),
                describe_state(entry, known),
                execution_duration(entry)
                    .map(display_time::format_elapsed)
                    .unwrap_or_default(),
                entry.id.clone(),
            ]
        })
        .collect();
    let empty = "No matching requests in the last 30 days.";
    console::print_list(&columns, &rows, empty);
}
