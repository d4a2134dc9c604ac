//! `approvals`: the calls that wait for approval, and the answer of the person at this device.

#[cfg(target_os = "linux")]
mod desktop_notifier;
mod given_answer;
mod open_questions;
mod question_view;
mod terminal_asker;
mod terminal_input;
mod terminal_question;

use std::collections::HashSet;
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, Subcommand};
use serde::Serialize;

use super::context::CliContext;
use super::exit::{CommandError, Exit};
use super::{console, display_time};
use crate::config::{Config, WorkspaceRule};
pub(super) use given_answer::{AnswerEffect, GivenAnswer};
use open_questions::list_open_or_stored;
pub(super) use open_questions::{find_question, list_interrupted_questions, list_open_questions};
use punie_core::approval_answer::{AnswerPlace, ApprovalOption};
use punie_engine::runner::{Clock, ShutdownSignal};
use punie_home::{
    AnswerResult, ApprovalQuestions, ApproverPresence, Home, OpenQuestion, PersonReply,
    QuestionInput, command_to_type,
};
pub(super) use question_view::{call_summary, short_id};
use question_view::{is_shown_whole, list_text, no_question_text, question_text};
use terminal_asker::TerminalAsker;

/// The interval of checks for new questions.
const WATCH_INTERVAL: Duration = Duration::from_millis(500);

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ApprovalsArgs {
    /// Ask about each call as it comes, until Ctrl-C; without a terminal, print each call
    #[arg(long)]
    watch: bool,
    #[command(subcommand)]
    word: Option<ApprovalsCommand>,
}

#[derive(Debug, Subcommand)]
enum ApprovalsCommand {
    /// Show all of a call: the whole command, every argument
    Show(ShowArgs),
    /// Let a call run
    Allow(QuestionArgs),
    /// Refuse a call
    Deny(QuestionArgs),
}

#[derive(Debug, Args)]
struct ShowArgs {
    /// The request that waits: its id, its end (4 characters or more), its beginning, or @last if no other waits
    id: String,
}

#[derive(Debug, Args)]
struct QuestionArgs {
    /// The request that waits: its id, its end (4 characters or more), its beginning, or @last if no other waits
    id: String,
    /// Also for every later call of this tool in the conversation, until the runner ends
    #[arg(long)]
    conversation: bool,
}

/// An open question in the list.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ListedQuestion<'q> {
    id: &'q str,
    request_id: &'q str,
    tool: &'q str,
    title: &'q str,
    is_cut: bool,
    /// The host and port that it is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<&'q str>,
    folder: Option<&'q str>,
    why: Option<&'q str>,
    asked_at_ms: i64,
    asked_at: String,
    expires_at_ms: i64,
    expires_at: String,
    /// The answer that is wanted, if it is more than yes or no.
    #[serde(skip_serializing_if = "Option::is_none")]
    input: Option<&'q QuestionInput>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct AnswerOutput {
    id: String,
    option_id: &'static str,
    /// False if it was answered here before.
    accepted: bool,
    /// True if this answer counts, false if another was earlier, null if that is not known yet.
    counts: Option<bool>,
}

/// Lists the open questions, shows one, or answers one.
pub fn run_approvals(args: &ApprovalsArgs, context: &CliContext) -> anyhow::Result<Exit> {
    let (config, home) = context.config_beside_runner(WorkspaceRule::NotNeeded)?;
    if args.watch {
        return watch_questions(&home, &config.workspaces, context.is_json());
    }
    let approvals = ApprovalQuestions::in_home(&home);
    let is_call = |question: &OpenQuestion| question.input.is_none();
    let (which, allow) = match &args.word {
        None => return list_calls(&home, context.is_json()),
        Some(ApprovalsCommand::Show(which)) => {
            let question = find_question(&home, &which.id, is_call)?;
            return show_question(&approvals, &question, context.is_json());
        }
        Some(ApprovalsCommand::Allow(which)) => (which, true),
        Some(ApprovalsCommand::Deny(which)) => (which, false),
    };
    let question = &find_question(&home, &which.id, is_call)?;
    let option = ApprovalOption::new(allow, which.conversation);
    let answer = GivenAnswer(PersonReply::without_text(option, AnswerPlace::Command));
    // A script reads the whole title.
    let is_seen =
        context.is_json() || is_shown_whole(question) || approvals.was_shown(&question.id);
    if allow && !is_seen {
        return Err(seen_in_part(question));
    }
    let effect = match answer.store(&home, &approvals, question)? {
        AnswerResult::Accepted => Some(answer.wait_for_effect(&home, &approvals, question)),
        AnswerResult::TooLate => None,
        AnswerResult::SeenInPart => return Err(seen_in_part(question)),
    };
    if context.is_json() {
        console::print_json(&AnswerOutput {
            id: question.id.to_string(),
            option_id: option.as_str(),
            accepted: effect.is_some(),
            counts: AnswerEffect::counts(effect.as_ref()),
        });
    } else if let Some(effect) = &effect {
        console::print_line(&answer.confirm(question, effect));
    } else {
        console::print_line("The call was answered here before.");
    }
    Ok(AnswerEffect::exit(effect.as_ref()))
}

/// Returns the refusal of a yes to a call that the list does not show whole.
fn seen_in_part(question: &OpenQuestion) -> anyhow::Error {
    let text = format!(
        "the list shows only a part of this call, and your yes would let all of it run. Read it first: `{}`. Then \
         allow it",
        command_to_type(&format!("approvals show {}", short_id(question)))
    );
    CommandError::with_exit(Exit::Failed, text)
}

/// Asks people about calls beside a runner: on its terminal, if it has one and its output is for people, and by desktop
/// notifications.
pub(super) fn ask_people(
    context: &CliContext,
    config: &Config,
    home: &Home,
    stop: &ShutdownSignal,
) {
    let terminal = TerminalAsker::from_process(home, &config.workspaces, stop);
    if let Some(terminal) = terminal.filter(|_| !context.is_json()) {
        terminal.ask_beside_runner();
    }
    #[cfg(target_os = "linux")]
    if config.policy.notify {
        desktop_notifier::notify_beside_runner(home, stop);
    }
}

/// Lists the calls that wait.
fn list_calls(home: &Home, as_json: bool) -> anyhow::Result<Exit> {
    let (open, questions): (Vec<_>, Vec<_>) = list_open_questions(home)?
        .into_iter()
        .partition(|question| question.input.is_none());
    let interrupted = list_interrupted_questions(home)?;
    if as_json {
        for question in &open {
            let _ = print_question_json(question);
        }
    } else if open.is_empty() || !interrupted.is_empty() {
        console::print_line(&no_question_text(&interrupted));
    } else if let Some(width) = console::terminal_width() {
        let now_ms = Clock::system().now_ms();
        console::print_unwrapped(&format!("{}\n", list_text(&open, width, now_ms)));
    } else {
        for question in &open {
            console::print_line(&question_lines(question));
        }
    }
    if !open.is_empty() && !as_json {
        console::print_line(&format!(
            "To answer: {} (or deny ID; show ID prints it all).",
            command_to_type("approvals allow ID")
        ));
    }
    if !questions.is_empty() && !as_json {
        let command = command_to_type("questions");
        console::print_line(&format!("The agent also asks you something: {command}"));
    }
    Ok(Exit::Done)
}

/// Returns a question for a text that no terminal shows.
fn question_lines(question: &OpenQuestion) -> String {
    let title = console::cell_text(&question.title, usize::MAX);
    format!("{}\n  {title}\n", question.request_id)
}

pub(super) fn print_question_json(question: &OpenQuestion) -> std::io::Result<()> {
    console::try_print_line(&console::json_line(&ListedQuestion {
        id: question.id.as_str(),
        request_id: question.request_id.as_str(),
        tool: &question.tool,
        title: &question.title,
        is_cut: question.is_cut,
        host: question.host.as_deref(),
        folder: question.folder.as_deref(),
        why: question.why.as_deref(),
        asked_at_ms: question.asked_at_ms,
        asked_at: display_time::format_rfc3339(question.asked_at_ms),
        expires_at_ms: question.expires_at_ms,
        expires_at: display_time::format_rfc3339(question.expires_at_ms),
        input: question.input.as_ref(),
    }))
}

/// Asks about each call as it comes, or prints it where nobody can answer here. Until the process is stopped, or its
/// output is gone.
fn watch_questions(
    home: &Home,
    workspaces: &[std::path::PathBuf],
    as_json: bool,
) -> anyhow::Result<Exit> {
    let never = ShutdownSignal::new();
    let terminal = TerminalAsker::from_process(home, workspaces, &never);
    if let Some(terminal) = terminal.filter(|_| !as_json) {
        console::print_line("Waiting for calls that need approval. Ctrl-C stops.");
        terminal.ask_until_stopped(None);
        return Ok(Exit::Done);
    }
    let _presence = ApproverPresence::announce(home)?;
    let mut printed = HashSet::new();
    loop {
        let open = list_open_or_stored(home);
        printed.retain(|id| open.iter().any(|question| question.id == *id));
        for question in &open {
            if printed.insert(question.id.clone()) {
                let written = if as_json {
                    print_question_json(question)
                } else {
                    console::try_print_line(&question_lines(question))
                };
                written.context("the call could not be printed")?;
            }
        }
        thread::park_timeout(WATCH_INTERVAL);
    }
}

/// Shows all of a question's call, and records that it was shown once all of it is written.
fn show_question(
    approvals: &ApprovalQuestions,
    question: &OpenQuestion,
    as_json: bool,
) -> anyhow::Result<Exit> {
    let text = if as_json {
        console::json_line(question)
    } else {
        question_text(question)
    };
    console::try_print_line(&text).context("the call could not be shown whole")?;
    approvals.record_shown(&question.id)?;
    Ok(Exit::Done)
}
