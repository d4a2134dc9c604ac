//! `stop`, and the end of everything for `pause --now`: the owner ends calls and commands without a caller's token. A
//! running runner takes the order from a file in the home.

use std::collections::HashSet;
use std::time::Duration;

use clap::Args;
use serde::Serialize;
use tokio::time::Instant;

use super::context::{CliContext, command_runtime};
use super::exit::{CommandError, Exit};
use super::{audit, console, history};
use punie_core::ids::RequestId;
use punie_engine::audit::AuditEvent;
use punie_engine::journal::{JournalReader, JournalShellState, RequestState, ShellProcessTrace};
use punie_home::{Home, OwnerSwitches, RunnerLock, StopOutcome, StopTarget, command_to_type};
use punie_host::local::process_identity::ProcessIdentity;
use punie_host::local::process_kill::{end_request_processes, kill_survivor};
use punie_host::terminals::{StopSequence, list_processes};

/// The longest wait for the runner. It needs a second, and names what has not ended after a few.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(20);

#[derive(Debug, Args)]
pub struct StopArgs {
    /// The call: the id that `history --open` shows, its end (4 characters or more), its beginning, or @last; or a shell
    /// such as sh_1
    id: String,
}

/// The output with `--json`.
#[derive(Debug, Serialize)]
struct StopOutput<'a> {
    id: &'a str,
    #[serde(flatten)]
    outcome: &'a StopOutcome,
}

/// The result of an order.
pub(super) enum StopAnswer {
    /// The runner carried it out.
    Done(StopOutcome),
    /// No runner is running.
    NoRunner,
}

/// Ends one call, background shell or lasting terminal.
pub fn run_stop(args: &StopArgs, context: &CliContext) -> anyhow::Result<Exit> {
    let home = context.open_home()?;
    let id = if is_command_id(&args.id) {
        args.id.clone()
    } else {
        find_open_call(&home, &args.id)?
    };
    let outcome = match order_stop(&home, &StopTarget::One(id.clone()))? {
        StopAnswer::Done(outcome) => outcome,
        StopAnswer::NoRunner => {
            let text = format!(
                "no runner is running, so nothing was stopped. If an earlier one left {id} running, \
                 `{}` ends it",
                command_to_type("pause --now")
            );
            return Err(CommandError::with_exit(Exit::Failed, text));
        }
    };
    if outcome == StopOutcome::default() {
        return Err(CommandError::with_exit(
            Exit::Failed,
            describe_absence(&home, &id)?,
        ));
    }
    let row = audit::owner_entry(AuditEvent::Stop);
    audit::record_owner_action(&home, row.with_request(&id));
    if context.is_json() {
        console::print_json(&StopOutput {
            id: &id,
            outcome: &outcome,
        });
    } else {
        show_stopped(&outcome);
    }
    Ok(exit_for_outcome(&outcome))
}

/// Orders the running runner to end something, and waits until it has.
///
/// # Errors
/// The order cannot be written, or the runner does not answer.
pub(super) fn order_stop(home: &Home, target: &StopTarget) -> anyhow::Result<StopAnswer> {
    let switches = OwnerSwitches::in_home(home);
    if RunnerLock::find_holder(home)?.is_none() {
        return Ok(StopAnswer::NoRunner);
    }
    let order = switches.submit_stop_order(target)?;
    let answer = command_runtime()?.block_on(wait_for_answer(home, &switches, &order));
    switches.withdraw_stop_order(&order);
    answer
}

async fn wait_for_answer(
    home: &Home,
    switches: &OwnerSwitches,
    order: &RequestId,
) -> anyhow::Result<StopAnswer> {
    let until = Instant::now() + ANSWER_TIMEOUT;
    loop {
        if let Some(outcome) = switches.take_stop_outcome(order) {
            return Ok(StopAnswer::Done(outcome));
        }
        let Some(holder) = RunnerLock::find_holder(home)? else {
            // It may have answered just before it ended.
            let outcome = switches.take_stop_outcome(order);
            return Ok(outcome.map_or(StopAnswer::NoRunner, StopAnswer::Done));
        };
        if Instant::now() >= until {
            let kill = holder.pid.map_or_else(String::new, |pid| {
                format!(" To end it with all its calls: `kill {pid}`")
            });
            let text = format!(
                "the runner did not answer within {} s, so what runs may still run.{kill}",
                ANSWER_TIMEOUT.as_secs()
            );
            return Err(CommandError::with_exit(Exit::TimedOut, text));
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

/// Ends the commands that a runner left running when it was killed.
///
/// # Errors
/// A runner has started meanwhile, or the journal cannot be read.
pub(super) fn end_leftovers(home: &Home) -> anyhow::Result<StopOutcome> {
    let _lock = RunnerLock::try_acquire(home)?;
    let mut outcome = StopOutcome::default();
    let Some(reader) = JournalReader::find(&home.journal_file())? else {
        return Ok(outcome);
    };
    let mut known = HashSet::new();
    for row in reader.list_shell_rows()? {
        let Some(trace) = row
            .trace
            .filter(|_| row.state == JournalShellState::Running)
        else {
            continue;
        };
        let name = format!("sh_{}", row.number);
        match end_leftover(&trace.request, &trace.identity) {
            Some(Ok(())) => outcome.shells.push(name),
            Some(Err(left)) => outcome.left.push(format!("{name}: {left}")),
            None => {}
        }
        known.insert(trace.identity);
    }
    for (request, identity) in reader.child_processes()? {
        if known.contains(&identity) {
            continue;
        }
        match end_leftover(request.as_str(), &identity) {
            Some(Ok(())) if outcome.calls.contains(&request) => {}
            Some(Ok(())) => outcome.calls.push(request),
            Some(Err(left)) => outcome.left.push(left),
            None => {}
        }
    }
    // The runner may have been killed before it recorded a process.
    for request in reader.started_requests()? {
        let stopped = end_request_processes(&request, &StopSequence::kill_at_once());
        if !stopped.survivors.is_empty() {
            outcome.left.push(list_processes(&stopped.survivors));
        } else if stopped.by.is_some() && !outcome.calls.contains(&request) {
            outcome.calls.push(request);
        }
    }
    Ok(outcome)
}

/// Ends a process of an earlier runner with its descendants. `None` if nothing of it ran.
fn end_leftover(request: &str, identity: &str) -> Option<Result<(), String>> {
    let request = RequestId::parse(request).ok()?;
    let stopped = kill_survivor(&identity.parse::<ProcessIdentity>().ok()?, &request);
    if !stopped.survivors.is_empty() {
        return Some(Err(list_processes(&stopped.survivors)));
    }
    stopped.by.map(|_| Ok(()))
}

/// Prints what ended, and what did not.
pub(super) fn show_stopped(outcome: &StopOutcome) {
    if *outcome == StopOutcome::default() {
        console::print_line("Nothing was running.");
        return;
    }
    console::print_line(&describe_ended(outcome));
    if !outcome.left.is_empty() {
        console::print_line(&format!(
            "Still running: {}. The same command again ends what has been started meanwhile. A process that stays waits \
             for the system, such as a disk that does not answer, and ends with that wait.",
            outcome.left.join(", ")
        ));
    }
}

pub(super) fn exit_for_outcome(outcome: &StopOutcome) -> Exit {
    if outcome.left.is_empty() {
        Exit::Done
    } else {
        Exit::Failed
    }
}

fn describe_ended(outcome: &StopOutcome) -> String {
    let mut sentences = Vec::new();
    let calls = count_of(outcome.calls.len(), "call");
    let shells = count_of(outcome.shells.len(), "shell in the background");
    match (&outcome.calls[..], &outcome.shells[..]) {
        ([], []) => {}
        ([call], []) => sentences.push(format!("Ended the call {call}.")),
        ([], [shell]) => sentences.push(format!("Ended {shell}.")),
        (_, []) => sentences.push(format!("Ended {calls}.")),
        ([], _) => sentences.push(format!("Ended {shells}: {}.", outcome.shells.join(", "))),
        _ => sentences.push(format!(
            "Ended {calls}, and {shells}: {}.",
            outcome.shells.join(", ")
        )),
    }
    if !outcome.withdrawn.is_empty() {
        let all: Vec<&str> = outcome.withdrawn.iter().map(RequestId::as_str).collect();
        sentences.push(format!("{} had not begun, and never will.", all.join(", ")));
    }
    if sentences.is_empty() {
        sentences.push("Nothing that ran has ended.".to_owned());
    }
    sentences.join(" ")
}

fn count_of(count: usize, what: &str) -> String {
    match (count, what.split_once(' ')) {
        (1, _) => format!("1 {what}"),
        (_, Some((noun, rest))) => format!("{count} {noun}s {rest}"),
        (_, None) => format!("{count} {what}s"),
    }
}

/// Returns whether this is the id of a background shell or a lasting terminal.
fn is_command_id(id: &str) -> bool {
    let numbers = ["sh_", "term-"].map(|prefix| id.strip_prefix(prefix));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    numbers.into_iter().flatten().any(is_number)
}

/// Finds the request that has no answer yet, as people name it.
fn find_open_call(home: &Home, typed: &str) -> anyhow::Result<String> {
    let reader = JournalReader::find(&home.journal_file())?;
    let (id, history) = history::find_request(reader.as_ref(), typed)?;
    let state = history.entry.map(|entry| entry.state);
    if matches!(state, Some(RequestState::Accepted | RequestState::Started)) {
        return Ok(id);
    }
    let shells = match &reader {
        Some(reader) => running_shells(reader, &id)?,
        None => Vec::new(),
    };
    let text = match shells.first() {
        Some(shell) => format!(
            "the call {id} had ended before, but {} still runs in the background; `{}` ends it",
            shells.join(" and "),
            command_to_type(&format!("stop {shell}"))
        ),
        None => format!(
            "the call {id} had ended before; `{}` shows how",
            command_to_type(&format!("history {id}"))
        ),
    };
    Err(CommandError::with_exit(Exit::Failed, text))
}

/// Returns the names of the shells that this request started and that still run.
///
/// # Errors
/// The journal cannot be read.
pub(super) fn running_shells(reader: &JournalReader, request: &str) -> anyhow::Result<Vec<String>> {
    let rows = reader.list_shell_rows()?;
    let running = rows.iter().filter(|row| {
        let is_of_request = |trace: &ShellProcessTrace| trace.request.as_str() == request;
        row.state == JournalShellState::Running && row.trace.as_ref().is_some_and(is_of_request)
    });
    Ok(running.map(|row| format!("sh_{}", row.number)).collect())
}

/// Describes why the runner had nothing of this id to end.
fn describe_absence(home: &Home, id: &str) -> anyhow::Result<String> {
    if !is_command_id(id) {
        return Ok(format!(
            "the call {id} does not run: it has just ended, or waits far behind others. \
             `{}` shows which; `{}` keeps it from beginning",
            command_to_type(&format!("history {id}")),
            command_to_type("pause")
        ));
    }
    let reader = JournalReader::find(&home.journal_file())?;
    let rows = reader.map(|reader| reader.list_shell_rows()).transpose()?;
    let is_known = |number: u32| format!("sh_{number}") == id;
    let had_ended = rows.iter().flatten().any(|row| is_known(row.number));
    Ok(if had_ended {
        format!("{id} had ended before")
    } else {
        format!(
            "no shell or terminal {id} is running; `{}` lists the shells",
            command_to_type("status")
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_outcome_is_told_in_full() {
        let id = |text: &str| RequestId::parse(text).expect("an id");
        let told = |calls: &[&str], shells: &[&str]| {
            describe_ended(&StopOutcome {
                calls: calls.iter().copied().map(id).collect(),
                shells: shells.iter().map(ToString::to_string).collect(),
                ..StopOutcome::default()
            })
        };
        assert_eq!(told(&["a"], &[]), "Ended the call a.");
        assert_eq!(told(&[], &["sh_1"]), "Ended sh_1.");
        assert_eq!(told(&["a", "b"], &[]), "Ended 2 calls.");
        assert_eq!(
            told(&["a"], &["sh_1", "term-0"]),
            "Ended 1 call, and 2 shells in the background: sh_1, term-0."
        );
        assert!(is_command_id("sh_12") && is_command_id("term-0"));
        assert!(!is_command_id("sh_") && !is_command_id("sh_x") && !is_command_id("0199"));
    }
}
