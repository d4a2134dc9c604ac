//! `pause` and `resume`: the owner's pause switch, and resuming conversations that a person stopped in an editor. Both
//! are files of the home: they survive restarts and can be changed without a runner; a running one reacts at once.

use clap::Args;
use serde::Serialize;

use super::context::CliContext;
use super::exit::{CommandError, Exit};
use super::status::journal_facts::find_live_run;
use super::stop::{self, StopAnswer};
use super::{audit, console, display_time};
use punie_core::ids::ConversationId;
use punie_engine::audit::{AuditEntry, AuditEvent};
use punie_engine::journal::JournalReader;
use punie_engine::runner::Clock;
use punie_home::{
    Home, HomeError, OwnerSwitch, OwnerSwitches, RunnerLock, StopOutcome, StopTarget,
    StoppedConversation, SupervisionStore, SwitchState, command_to_type,
};

/// The reason of the pause for a restart, by which it differs from the owner's own.
pub(super) const RESTART_REASON: &str = "for the restart of an update";

#[derive(Debug, Args)]
pub struct PauseArgs {
    /// The reason, shown by `status`
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    /// Also end all running calls, background shells and terminals, within a second
    #[arg(long)]
    now: bool,
}

#[derive(Debug, Args)]
pub struct ResumeArgs {
    /// The conversation to continue, which a person stopped in an editor
    conversation: Option<String>,
    /// Also let the device's policy decide again, in place of the editor that was attached: for this conversation, or
    /// for all if none is given
    #[arg(long)]
    without_editor: bool,
}

/// The output of `resume CONVERSATION --json`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ResumedConversation {
    conversation_id: String,
    /// The conversation was stopped, or was asked about because of an attached editor.
    changed: bool,
}

/// The output with `--json`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PauseState {
    paused: bool,
    /// The command changed something.
    changed: bool,
    running: bool,
    waiting: u32,
    in_flight: u32,
    /// The conversations that a person stopped in an editor.
    stopped: Vec<StoppedConversation>,
    /// What `--now` ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    ended: Option<StopOutcome>,
}

/// Returns whether this is the pause for a restart, and not one of the owner's.
pub(super) fn is_restart_pause(state: &SwitchState) -> bool {
    state.reason.as_deref() == Some(RESTART_REASON)
}

/// Turns the pause for a restart off, and leaves one of the owner's.
pub(super) fn end_restart_pause(switches: &OwnerSwitches) -> Result<(), HomeError> {
    let state = switches.read_switch(OwnerSwitch::Paused);
    if state.as_ref().is_some_and(is_restart_pause) {
        switches.switch_off(OwnerSwitch::Paused)?;
    }
    Ok(())
}

/// Stops starting new calls.
pub fn run_pause(args: &PauseArgs, context: &CliContext) -> anyhow::Result<Exit> {
    let home = context.open_home()?;
    let on = SwitchState {
        since_ms: Clock::system().now_ms(),
        reason: args.reason.clone(),
    };
    let switches = OwnerSwitches::in_home(&home);
    // The owner's pause takes its place and lasts.
    end_restart_pause(&switches)?;
    let changed = switches.switch_on(OwnerSwitch::Paused, &on)?;
    if changed {
        audit::record_owner_action(&home, audit::owner_entry(AuditEvent::Pause));
    }
    // Said before the end of calls, which may fail.
    if !context.is_json() {
        console::print_line(if changed {
            "Paused: no new calls start."
        } else {
            "It was paused already."
        });
    }
    let ended = args.now.then(|| end_everything(&home)).transpose()?;
    let exit = ended.as_ref().map_or(Exit::Done, stop::exit_for_outcome);
    let answer = PauseState {
        ended,
        ..pause_state(&home, true, changed)?
    };
    if context.is_json() {
        console::print_json(&answer);
        return Ok(exit);
    }
    if let Some(ended) = &answer.ended {
        stop::show_stopped(ended);
    }
    show_work(&answer);
    Ok(exit)
}

/// Ends all calls and commands, also those that a killed runner left.
fn end_everything(home: &Home) -> anyhow::Result<StopOutcome> {
    let outcome = match stop::order_stop(home, &StopTarget::Everything)? {
        StopAnswer::Done(outcome) => outcome,
        StopAnswer::NoRunner => stop::end_leftovers(home)?,
    };
    let row = audit::owner_entry(AuditEvent::Stop);
    audit::record_owner_action(home, row.with_detail("everything"));
    Ok(outcome)
}

/// Prints what becomes of calls that run and wait.
fn show_work(answer: &PauseState) {
    match (answer.running, answer.in_flight) {
        (false, _) => {
            console::print_line("No runner is running; the next one starts paused.");
        }
        (true, calls) if calls == 0 || answer.ended.is_some() => {
            console::print_line(&format!(
                "New requests are accepted and wait until `{}`.",
                command_to_type("resume")
            ));
        }
        (true, calls) => console::print_line(&format!(
            "{calls} running {}, and results are delivered. New requests wait until `{}`.",
            if calls == 1 {
                "call finishes"
            } else {
                "calls finish"
            },
            command_to_type("resume")
        )),
    }
}

/// Starts calls again.
pub fn run_resume(args: &ResumeArgs, context: &CliContext) -> anyhow::Result<Exit> {
    let home = context.open_home()?;
    if let Some(conversation) = &args.conversation {
        return resume_conversation(&home, conversation, args.without_editor, context);
    }
    if args.without_editor {
        return stop_editor_questions(&home, context);
    }
    let switches = OwnerSwitches::in_home(&home);
    // Count the waiting calls before they start.
    let before = pause_state(&home, false, false)?;
    // Both, whichever was on.
    let paused = switches.switch_off(OwnerSwitch::Paused)?;
    let safe = switches.switch_off(OwnerSwitch::SafeMode)?;
    if paused || safe {
        audit::record_owner_action(&home, audit::owner_entry(AuditEvent::Resume));
    }
    let answer = PauseState {
        changed: paused || safe,
        ..before
    };
    if context.is_json() {
        console::print_json(&answer);
        return Ok(Exit::Done);
    }
    console::print_line(match (paused, safe) {
        (_, true) => "Safe mode is over: calls start again.",
        (true, false) => "Resumed: calls start again.",
        (false, false) => "It was not paused.",
    });
    if answer.waiting > 0 {
        console::print_line(
            match (answer.running, answer.waiting) {
                (true, 1) => "1 request begins now.".to_owned(),
                (true, count) => format!("{count} requests begin now."),
                (false, 1) => "1 request waits for a runner.".to_owned(),
                (false, count) => format!("{count} requests wait for a runner."),
            }
            .as_str(),
        );
    }
    let now_ms = Clock::system().now_ms();
    for stop in &answer.stopped {
        console::print_line(&describe_stopped(stop, now_ms));
    }
    Ok(Exit::Done)
}

/// Stops asking about calls because of an attached editor; the device's own policy decides again.
fn stop_editor_questions(home: &Home, context: &CliContext) -> anyhow::Result<Exit> {
    let changed = SupervisionStore::in_home(home).stop_asking(None)?;
    if changed {
        audit::record_owner_action(
            home,
            audit::owner_entry(AuditEvent::Resume).with_detail("without editor"),
        );
    }
    if context.is_json() {
        console::print_json(&pause_state(home, false, changed)?);
    } else if changed {
        console::print_line(
            "Calls are asked about as the device's own policy says, and while an editor is attached.",
        );
    } else {
        console::print_line("No calls were asked about because of an editor.");
    }
    Ok(Exit::Done)
}

/// Describes a stopped conversation, with the command that resumes it.
pub(super) fn describe_stopped(stop: &StoppedConversation, now_ms: i64) -> String {
    let since = display_time::format_age(stop.since_ms, now_ms);
    format!(
        "Conversation {} was stopped {since} ({}): `{}` lets it write and run again.",
        stop.conversation_id,
        console::cell_text(&stop.reason, 100),
        command_to_type(&format!("resume {}", stop.conversation_id))
    )
}

/// Resumes one conversation.
fn resume_conversation(
    home: &Home,
    conversation: &str,
    without_editor: bool,
    context: &CliContext,
) -> anyhow::Result<Exit> {
    let conversation = ConversationId::parse(conversation)
        .map_err(|bad| CommandError::with_exit(Exit::Usage, bad.to_string()))?;
    let supervision = SupervisionStore::in_home(home);
    let resumed = supervision.remove_stop(&conversation)?;
    let changed = (without_editor && supervision.stop_asking(Some(&conversation))?) || resumed;
    let asked_still = without_editor && supervision.requires_approval(&conversation);
    if changed {
        audit::record_owner_action(
            home,
            AuditEntry {
                conversation_id: Some(conversation.to_string()),
                ..audit::owner_entry(AuditEvent::Resume)
            },
        );
    }
    if context.is_json() {
        console::print_json(&ResumedConversation {
            conversation_id: conversation.to_string(),
            changed,
        });
    } else if changed {
        console::print_line(&format!(
            "Conversation {conversation} may write and run again."
        ));
    } else {
        console::print_line(&format!("Conversation {conversation} was not stopped."));
    }
    if asked_still && !context.is_json() {
        console::print_line(&format!(
            "Its calls are still asked about: an editor was attached to all conversations. `{}` ends that.",
            command_to_type("resume --without-editor")
        ));
    }
    Ok(Exit::Done)
}

fn pause_state(home: &Home, paused: bool, changed: bool) -> anyhow::Result<PauseState> {
    let reader = JournalReader::find(&home.journal_file())?;
    // Of the backend that a runner works for, or worked for last.
    let counts = reader
        .map(|reader| {
            let run = find_live_run(home, &reader)?;
            anyhow::Ok(reader.for_last_backend()?.count_beside_runner(run)?)
        })
        .transpose()?
        .unwrap_or_default();
    let running = RunnerLock::find_holder(home)?.is_some();
    let stopped = SupervisionStore::in_home(home).stopped_conversations();
    Ok(PauseState {
        paused,
        changed,
        running,
        waiting: counts.accepted,
        in_flight: counts.started,
        stopped,
        ended: None,
    })
}
