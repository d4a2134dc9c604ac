//! `pause` and `resume`: the owner's pause switch, and resuming conversations that a person stopped in an editor. Both
//! are files of the home: they survive restarts and can be changed without a runner; a running one reacts at once. Not
//! here: the runner's reaction (runner).

use clap::Args;
use serde::Serialize;

use super::context::Context;
use super::exit::{Exit, Stop};
use super::{audit, moments, print};
use crate::audit::{Entry, Event};
use crate::config::WorkspaceRule;
use crate::home::{Home, RunnerLock, StoppedConversation, Supervision, Switch, SwitchedOn, Switches};
use crate::ids::ConversationId;
use crate::journal::Reader;
use crate::runner::Clock;

#[derive(Debug, Args)]
pub struct PauseArgs {
    /// Why, for `status`
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

#[derive(Debug, Args)]
pub struct ResumeArgs {
    /// Let this conversation go on, which a person has stopped in an editor
    conversation: Option<String>,
    /// Also stop asking about its calls (about any calls, where none is named) because an editor was attached to it: the
    /// device's own policy decides again
    #[arg(long)]
    without_editor: bool,
}

/// The output of `resume CONVERSATION --json`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Resumed {
    conversation_id: String,
    /// The conversation was stopped, or was asked about because of an attached editor.
    changed: bool,
}

/// The output with `--json`.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Answer {
    paused: bool,
    /// The command changed something.
    changed: bool,
    running: bool,
    waiting: u32,
    in_flight: u32,
    /// The conversations that a person stopped in an editor.
    stopped: Vec<StoppedConversation>,
}

/// Stops starting new calls.
pub fn pause(args: &PauseArgs, context: &Context) -> anyhow::Result<Exit> {
    let home = home(context)?;
    let on = SwitchedOn { since_ms: Clock::system().now_ms(), reason: args.reason.clone() };
    let changed = Switches::of(&home).switch_on(Switch::Paused, &on)?;
    if changed {
        audit::note(&home, audit::by_owner(Event::Pause));
    }
    let answer = answer(&home, true, changed)?;
    if context.json() {
        print::json(&answer);
        return Ok(Exit::Done);
    }
    print::line(if changed { "Paused: nothing new begins." } else { "It was paused already." });
    match (answer.running, answer.in_flight) {
        (false, _) => print::line("No runner runs now; the next one will be paused from its start."),
        (true, 0) => print::line("New requests are accepted and wait until `punie-runner resume`."),
        (true, calls) => print::line(&format!(
            "{calls} running {} on to the end, and results are delivered. New requests wait until \
             `punie-runner resume`.",
            if calls == 1 { "call goes" } else { "calls go" }
        )),
    }
    Ok(Exit::Done)
}

/// Starts calls again.
pub fn resume(args: &ResumeArgs, context: &Context) -> anyhow::Result<Exit> {
    let home = home(context)?;
    if let Some(conversation) = &args.conversation {
        return resume_conversation(&home, conversation, args.without_editor, context);
    }
    if args.without_editor {
        return stop_asking(&home, context);
    }
    let switches = Switches::of(&home);
    // Count the waiting calls before they start.
    let before = answer(&home, false, false)?;
    // Both, whichever was on.
    let paused = switches.switch_off(Switch::Paused)?;
    let safe = switches.switch_off(Switch::SafeMode)?;
    if paused || safe {
        audit::note(&home, audit::by_owner(Event::Resume));
    }
    let answer = Answer { changed: paused || safe, ..before };
    if context.json() {
        print::json(&answer);
        return Ok(Exit::Done);
    }
    print::line(match (paused, safe) {
        (_, true) => "Safe mode is over: calls begin again.",
        (true, false) => "Resumed: calls begin again.",
        (false, false) => "It was not paused.",
    });
    if answer.waiting > 0 {
        let when = if answer.running { "begin now" } else { "wait for a runner" };
        print::line(&format!("{} requests {when}.", answer.waiting));
    }
    let now_ms = Clock::system().now_ms();
    for stop in &answer.stopped {
        print::line(&stop_in_words(stop, now_ms));
    }
    Ok(Exit::Done)
}

/// Stops asking about calls because of an attached editor; the device's own policy decides again.
fn stop_asking(home: &Home, context: &Context) -> anyhow::Result<Exit> {
    let changed = Supervision::of(home).stop_asking(None)?;
    if changed {
        audit::note(home, audit::by_owner(Event::Resume).saying("without editor"));
    }
    if context.json() {
        print::json(&answer(home, false, changed)?);
    } else if changed {
        print::line(
            "Calls are asked about as the device's own policy says, and while an editor is attached.",
        );
    } else {
        print::line("No calls were asked about because of an editor.");
    }
    Ok(Exit::Done)
}

/// Describes a stopped conversation, with the command that resumes it.
pub(super) fn stop_in_words(stop: &StoppedConversation, now_ms: i64) -> String {
    let since = moments::ago(stop.since_ms, now_ms);
    format!(
        "Conversation {} was stopped {since} ({}): `punie-runner resume {}` lets it write and run again.",
        stop.conversation_id,
        print::cell(&stop.reason, 100),
        stop.conversation_id
    )
}

/// Resumes one conversation.
fn resume_conversation(
    home: &Home,
    conversation: &str,
    without_editor: bool,
    context: &Context,
) -> anyhow::Result<Exit> {
    let conversation =
        ConversationId::parse(conversation).map_err(|bad| Stop::with(Exit::Usage, bad.to_string()))?;
    let supervision = Supervision::of(home);
    let resumed = supervision.resume(&conversation)?;
    let changed = (without_editor && supervision.stop_asking(Some(&conversation))?) || resumed;
    let asked_still = without_editor && supervision.asks_about(&conversation);
    if changed {
        audit::note(
            home,
            Entry { conversation_id: Some(conversation.to_string()), ..audit::by_owner(Event::Resume) },
        );
    }
    if context.json() {
        print::json(&Resumed { conversation_id: conversation.to_string(), changed });
    } else if changed {
        print::line(&format!("Conversation {conversation} may write and run again."));
    } else {
        print::line(&format!("Conversation {conversation} was not stopped."));
    }
    if asked_still && !context.json() {
        print::line(
            "Its calls are still asked about: an editor was attached to all conversations. \
             `punie-runner resume --without-editor` ends that.",
        );
    }
    Ok(Exit::Done)
}

fn home(context: &Context) -> anyhow::Result<Home> {
    Context::home(&context.config(WorkspaceRule::NotNeeded)?)
}

fn answer(home: &Home, paused: bool, changed: bool) -> anyhow::Result<Answer> {
    let reader = Reader::find(&home.journal_file())?;
    // Of the backend that a runner works for, or worked for last.
    let counts = reader.map(|reader| reader.of_last_backend()?.counts()).transpose()?.unwrap_or_default();
    let running = RunnerLock::peek(home)?.is_some();
    let stopped = Supervision::of(home).stopped();
    Ok(Answer { paused, changed, running, waiting: counts.accepted, in_flight: counts.started, stopped })
}
