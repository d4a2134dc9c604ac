//! `history`: lists requests and their outcomes, or every step of one request. Reads the journal with or without a
//! running runner. Not here: the current activity (status).

use std::collections::HashMap;

use clap::Args;
use serde::Serialize;

use super::context::CliContext;
use super::exit::{CommandError, Exit};
use super::{console, display_time, wiring};
use crate::config::WorkspaceRule;
use crate::journal::{
    FullHistory, HistoryEntry, HistoryQuery, JournalReader, RequestIncident, RequestOrigin,
    RequestState,
};
use crate::request::OutcomeKind;
use crate::runner::Clock;

#[derive(Debug, Args)]
pub struct HistoryArgs {
    /// The request to show every step of; the beginning of its id is enough
    request: Option<String>,
    /// How many at most, the latest first; 0 for all
    #[arg(
        long,
        default_value_t = 20,
        value_name = "N",
        conflicts_with = "request"
    )]
    limit: u32,
    /// Only what failed, or could not be delivered
    #[arg(long, conflicts_with = "request")]
    failed: bool,
    /// Only what waits, runs, or is not delivered yet
    #[arg(long, conflicts_with = "request")]
    open: bool,
    /// Only requests for this tool
    #[arg(long, value_name = "NAME", conflicts_with = "request")]
    tool: Option<String>,
    /// Only requests of this conversation
    #[arg(long, value_name = "ID", conflicts_with = "request")]
    conversation: Option<String>,
    /// Only requests received within so many minutes
    #[arg(long, value_name = "MINUTES", conflicts_with = "request")]
    within: Option<u32>,
}

/// One request, as `--json` shows it.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct HistoryLine<'a> {
    request_id: &'a str,
    tool_name: &'a str,
    origin: &'static str,
    conversation_id: &'a str,
    effect: &'a str,
    state: &'static str,
    outcome: Option<&'static str>,
    code: Option<&'a str>,
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
}

/// Lists the history, or shows one request.
pub fn run_history(args: &HistoryArgs, context: &CliContext) -> anyhow::Result<Exit> {
    let config = context.effective_config(WorkspaceRule::NotNeeded)?;
    let home = CliContext::config_home(&config)?;
    let path = home.journal_file();
    let undone: HashMap<String, i64> = wiring::open_trash(&config, &home)
        .list_undone()?
        .into_iter()
        .map(|(id, at)| (id.into(), at))
        .collect();
    let reader = JournalReader::find_journal(&path)?;
    if let Some(request) = &args.request {
        let (id, whole) = find_request(reader.as_ref(), request)?;
        let steps = request_steps(&whole, undone.get(&id).copied());
        if context.is_json() {
            console::print_json(&HistoryDetail {
                request: whole
                    .entry
                    .as_ref()
                    .map(|life| HistoryLine::from_journal_row(life, &undone)),
                declared_effects: whole.declared,
                processes: whole
                    .processes
                    .iter()
                    .map(|(_, command)| command.as_str())
                    .collect(),
                steps,
            });
        } else {
            show_request(&id, &whole, &steps);
        }
        return Ok(Exit::Done);
    }
    let now_ms = Clock::system_clock().now_ms();
    let question = HistoryQuery {
        limit: args.limit,
        failed: args.failed,
        open: args.open,
        tool: args.tool.clone(),
        conversation: args.conversation.clone(),
        since_ms: args
            .within
            .map(|minutes| now_ms - i64::from(minutes) * 60_000),
    };
    let (lives, several) = match reader {
        Some(reader) => (reader.list_history(&question)?, reader.backend_count()? > 1),
        None => (Vec::new(), false),
    };
    if context.is_json() {
        for life in &lives {
            console::print_json(&HistoryLine::from_journal_row(life, &undone));
        }
    } else {
        show_history(&lives, now_ms, &undone, several);
    }
    Ok(Exit::Done)
}

/// Finds the request by its id or a unique beginning of it.
fn find_request(
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
    if let Some(whole) = reader.read_full_history(typed)? {
        return Ok((typed.to_owned(), whole));
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

impl<'a> HistoryLine<'a> {
    fn from_journal_row(life: &'a HistoryEntry, undone: &HashMap<String, i64>) -> Self {
        Self {
            request_id: &life.id,
            tool_name: &life.tool,
            origin: match life.origin {
                RequestOrigin::Backend => "backend",
                RequestOrigin::Task => "task",
            },
            conversation_id: &life.conversation,
            effect: &life.effect,
            state: life.state.as_str(),
            outcome: life.outcome.map(OutcomeKind::as_str),
            code: life.code.as_deref(),
            offers: life.offers,
            attempts: life.attempts,
            epoch: life.epoch,
            received_at_ms: life.received_at_ms,
            started_at_ms: life.started_at_ms,
            finished_at_ms: life.finished_at_ms,
            closed_at_ms: life.closed_at_ms,
            duration_ms: execution_duration(life),
            deadline_ms: life.deadline_ms,
            cancel_requested: life.cancel_requested,
            cancel_requested_at_ms: life.cancel_requested_at_ms,
            failed_posts: life.failed_posts,
            last_error: life.last_error.as_deref(),
            undone_at_ms: undone.get(&life.id).copied(),
            backend: life.backend.as_deref(),
        }
    }
}

/// Returns the time from the start of the last execution to the answer.
fn execution_duration(life: &HistoryEntry) -> Option<i64> {
    Some(life.finished_at_ms? - life.started_at_ms?)
}

fn describe_outcome(life: &HistoryEntry) -> String {
    let ended = life.outcome.map_or("closed", OutcomeKind::as_str);
    match (&life.code, life.outcome) {
        (Some(code), Some(OutcomeKind::Error)) => format!("error {code}"),
        _ => ended.to_owned(),
    }
}

/// Describes the state for people.
fn describe_progress(life: &HistoryEntry) -> String {
    match life.state {
        RequestState::Accepted => "waiting".to_owned(),
        RequestState::Started => "running".to_owned(),
        RequestState::Finished => format!("{}, not delivered", describe_outcome(life)),
        RequestState::Delivered => describe_outcome(life),
        RequestState::Undeliverable => format!("{}, undeliverable", describe_outcome(life)),
    }
}

/// Lists remarkable facts besides the outcome.
fn request_notes(life: &HistoryEntry, undone: bool) -> String {
    let mut notes = Vec::new();
    if undone {
        notes.push("undone".to_owned());
    }
    if life.cancel_requested && life.outcome != Some(OutcomeKind::Cancelled) {
        notes.push("taken back".to_owned());
    }
    if life.attempts > 1 {
        notes.push(format!("begun {} times", life.attempts));
    }
    if life.offers > 1 {
        notes.push(format!("offered {} times", life.offers));
    }
    if life.failed_posts > 0 {
        notes.push(format!("{} posts failed", life.failed_posts));
    }
    if let Some(error) = life
        .last_error
        .as_ref()
        .filter(|_| life.state != RequestState::Delivered)
    {
        notes.push(console::cell_text(error, 200));
    }
    notes.join("; ")
}

/// Prints the list, with each request's backend if there are several.
fn show_history(lives: &[HistoryEntry], now_ms: i64, undone: &HashMap<String, i64>, several: bool) {
    if lives.is_empty() {
        return console::print_line(
            "Nothing that fits was asked of this device within the last 30 days.",
        );
    }
    let rows: Vec<Vec<String>> = lives
        .iter()
        .map(|life| {
            let mut row = vec![
                display_time::format_age(life.received_at_ms, now_ms),
                console::cell_text(&life.tool, 30),
                describe_progress(life),
                execution_duration(life)
                    .map(display_time::format_elapsed)
                    .unwrap_or_default(),
                life.id.clone(),
                request_notes(life, undone.contains_key(&life.id)),
            ];
            if several {
                row.insert(5, life.backend.clone().unwrap_or_default());
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

/// Collects all steps of a request in order.
fn request_steps(whole: &FullHistory, undone: Option<i64>) -> Vec<HistoryStep> {
    let step = |at_ms: i64, what: &str, detail: Option<String>| HistoryStep {
        at_ms,
        what: what.to_owned(),
        detail,
        times: 1,
        last_at_ms: None,
    };
    let mut steps: Vec<HistoryStep> = Vec::new();
    if let Some(life) = &whole.entry {
        let offered = (life.offers > 1).then(|| format!("offered {} times", life.offers));
        steps.push(step(life.received_at_ms, "accepted", offered));
        if let Some(at) = life.started_at_ms {
            let epoch = life.epoch.map_or_else(String::new, |epoch| {
                format!(" in life {epoch} of the runner")
            });
            steps.push(step(
                at,
                "started",
                Some(format!("attempt {}{epoch}", life.attempts)),
            ));
        }
        if let Some(at) = life.cancel_requested_at_ms {
            steps.push(step(
                at,
                "taken back",
                Some("the caller cancelled it".to_owned()),
            ));
        }
        if let Some(at) = life.finished_at_ms {
            let took = execution_duration(life)
                .map(|ms| format!(" after {}", display_time::format_elapsed(ms)))
                .unwrap_or_default();
            steps.push(step(
                at,
                "finished",
                Some(format!("{}{took}", describe_outcome(life))),
            ));
        }
    }
    steps.extend(whole.incidents.iter().map(incident_step));
    steps.sort_by_key(|step| step.at_ms);
    // This time is by the backend's clock, the others by the device's: always put it last.
    if let Some(life) = &whole.entry
        && let Some(at) = life.closed_at_ms
    {
        let detail = (life.state == RequestState::Undeliverable)
            .then(|| life.last_error.clone())
            .flatten();
        steps.push(step(at, life.state.as_str(), detail));
    }
    if let Some(at) = undone {
        steps.push(step(
            at,
            "undone",
            Some("what it had changed was put back".to_owned()),
        ));
    }
    steps
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

fn show_request(id: &str, whole: &FullHistory, steps: &[HistoryStep]) {
    console::print_line(&format!("Request       {id}"));
    if let Some(life) = &whole.entry {
        console::print_line(&format!(
            "Tool          {} ({})",
            console::cell_text(&life.tool, 100),
            life.effect
        ));
        console::print_line(&format!(
            "Conversation  {}",
            console::cell_text(&life.conversation, 100)
        ));
        if let Some(backend) = &life.backend {
            console::print_line(&format!("Backend       {backend}"));
        }
        console::print_line(&format!("Outcome       {}", describe_progress(life)));
        if let Some(deadline) = life.deadline_ms {
            #[expect(clippy::cast_possible_truncation, reason = "milliseconds since 1970")]
            console::print_line(&format!(
                "Wanted until  {}",
                display_time::format_utc(deadline as i64)
            ));
        }
        if life.failed_posts > 0 {
            let error = life.last_error.as_deref().unwrap_or("no reason was noted");
            console::print_line(&format!(
                "Failed posts  {}, the last: {}",
                life.failed_posts,
                console::cell_text(error, 200)
            ));
        }
    } else {
        console::print_line("It was never accepted; this is what happened to offers of it.");
    }
    if whole.declared > 0 {
        console::print_line(&format!(
            "Declared      {} effects before they were made",
            whole.declared
        ));
    }
    for (_, command) in &whole.processes {
        console::print_line(&format!(
            "Process       {}",
            console::cell_text(command, 100)
        ));
    }
    console::print_line("");
    let rows: Vec<Vec<String>> = steps
        .iter()
        .map(|step| {
            let mut detail = step
                .detail
                .as_deref()
                .map(|text| console::cell_text(text, 300))
                .unwrap_or_default();
            if step.times > 1 {
                let last = step
                    .last_at_ms
                    .map(display_time::format_utc)
                    .unwrap_or_default();
                detail = format!("{} times, the last {last}: {detail}", step.times);
            }
            vec![
                display_time::format_utc(step.at_ms),
                console::cell_text(&step.what, 30),
                detail,
            ]
        })
        .collect();
    console::print_table(&["TIME (UTC)", "STEP", "DETAIL"], &rows);
}
