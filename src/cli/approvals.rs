//! `approvals`: the calls that wait for approval, and the answer of the person at this device.

use anyhow::Context as _;
use clap::{Args, Subcommand};
use serde::Serialize;

use super::context::CliContext;
use super::exit::{CommandError, Exit};
use super::table::Column;
use super::{audit, console, display_time, request_ids};
use crate::approval_answer::ApprovalOption;
use crate::audit::{AuditEntry, AuditEvent};
use crate::home::{AnswerResult, ApprovalQuestions, Home, OpenQuestion};
use crate::runner::Clock;

#[derive(Debug, Args)]
pub struct ApprovalsArgs {
    #[command(subcommand)]
    word: Option<ApprovalsCommand>,
}

#[derive(Debug, Subcommand)]
enum ApprovalsCommand {
    /// Show a call in full: the whole command, every argument
    Show(ShowArgs),
    /// Allow a call
    Allow(QuestionArgs),
    /// Deny a call
    Deny(QuestionArgs),
}

#[derive(Debug, Args)]
struct ShowArgs {
    /// The question: its id or its request's, the end of one, or @last if no other waits
    id: String,
}

#[derive(Debug, Args)]
struct QuestionArgs {
    /// The question: its id or its request's, the end of one, or @last if no other waits
    id: String,
    /// Also allow every later call of this tool in the conversation, until the runner ends
    #[arg(long)]
    always: bool,
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
    asked_at_ms: i64,
    asked_at: String,
    expires_at_ms: i64,
    expires_at: String,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GivenAnswer {
    id: String,
    option_id: &'static str,
    /// False if it was answered here before.
    accepted: bool,
}

/// Lists the open questions, shows one, or answers one.
pub fn run_approvals(args: &ApprovalsArgs, context: &CliContext) -> anyhow::Result<Exit> {
    let home = context.open_home()?;
    let approvals = ApprovalQuestions::in_home(&home);
    let open = approvals.open_questions();
    let (which, allow) = match &args.word {
        None => return Ok(list_questions(&open, context.is_json())),
        Some(ApprovalsCommand::Show(which)) => {
            let question = find_question(&open, &which.id)?;
            return show_question(&approvals, question, context.is_json());
        }
        Some(ApprovalsCommand::Allow(which)) => (which, true),
        Some(ApprovalsCommand::Deny(which)) => (which, false),
    };
    let question = find_question(&open, &which.id)?;
    let option = ApprovalOption::new(allow, which.always);
    let accepted = match approvals.answer_question(question, option)? {
        AnswerResult::Accepted => true,
        AnswerResult::TooLate => false,
        AnswerResult::SeenInPart => {
            let text = format!(
                "the list shows only a part of this call, and a yes lets all of it run. Read it first: `punie-runner \
                 approvals show {}`. Then allow it",
                question.id
            );
            return Err(CommandError::with_exit(Exit::Failed, text));
        }
    };
    if accepted {
        record_answer(&home, question, option);
    }
    if context.is_json() {
        console::print_json(&GivenAnswer {
            id: question.id.to_string(),
            option_id: option.as_str(),
            accepted,
        });
    } else if accepted {
        let verb = if allow { "Allowed" } else { "Refused" };
        console::print_line(&format!(
            "{verb}, unless the caller's side was quicker: {}",
            console::cell_text(&question.title, usize::MAX)
        ));
    } else {
        console::print_line("It was answered here before.");
    }
    Ok(if accepted { Exit::Done } else { Exit::Failed })
}

fn record_answer(home: &Home, question: &OpenQuestion, option: ApprovalOption) {
    let row = audit::owner_entry(AuditEvent::Approval)
        .with_request(&question.request_id)
        .with_detail(option.as_str());
    audit::record_owner_action(
        home,
        AuditEntry {
            tool_name: Some(question.tool.clone()),
            ..row
        },
    );
}

fn list_questions(open: &[OpenQuestion], as_json: bool) -> Exit {
    if as_json {
        for question in open {
            console::print_json(&ListedQuestion {
                id: question.id.as_str(),
                request_id: question.request_id.as_str(),
                tool: &question.tool,
                title: &question.title,
                is_cut: question.is_cut,
                asked_at_ms: question.asked_at_ms,
                asked_at: display_time::format_rfc3339(question.asked_at_ms),
                expires_at_ms: question.expires_at_ms,
                expires_at: display_time::format_rfc3339(question.expires_at_ms),
            });
        }
    } else if open.is_empty() {
        console::print_line("No calls are waiting for approval.");
    } else {
        print_questions(open);
    }
    Exit::Done
}

fn print_questions(open: &[OpenQuestion]) {
    let now_ms = Clock::system_clock().now_ms();
    let row = |question: &OpenQuestion| {
        let left = question.expires_at_ms.saturating_sub(now_ms);
        vec![
            question.id.to_string(),
            display_time::format_age(question.asked_at_ms, now_ms),
            display_time::format_coarse(left),
            console::cell_text(&question.title, usize::MAX),
        ]
    };
    let columns = [
        Column::id("ID"),
        Column::text("ASKED"),
        Column::number("LEFT"),
        Column::flexible("WHAT"),
    ];
    console::print_table(&columns, &open.iter().map(row).collect::<Vec<_>>());
    console::print_line(
        "\nRead it: punie-runner approvals show ID. Answer: approvals allow ID, or deny ID.",
    );
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

/// Returns everything about a question. The runner has escaped hidden characters in its texts already.
fn question_text(question: &OpenQuestion) -> String {
    let OpenQuestion { id, arguments, .. } = question;
    let row =
        |label: &str, text: &str| format!("{label:<14}{}", console::cell_text(text, usize::MAX));
    let mut lines = vec![
        row("Question", id.as_str()),
        row("Request", question.request_id.as_str()),
        row("Tool", &question.tool),
        row(
            "Expires at",
            &display_time::format_utc(question.expires_at_ms),
        ),
    ];
    lines.extend(question.why.as_deref().map(|why| row("Asked because", why)));
    lines.push(format!("\n{arguments}\n"));
    if question.runs_command {
        lines.push(
            "A yes is bound to the programs and scripts that the command names, as they are now. Other files that it \
             reads (imports, includes, a shell's input) may change after your yes."
                .to_owned(),
        );
    }
    lines.push(format!(
        "Answer by `punie-runner approvals allow {id}` or `punie-runner approvals deny {id}`."
    ));
    lines.join("\n")
}

/// Finds the question by its id or its request's, an end or a beginning of one of them, or `@last`. With
/// several questions open `@last` is refused: the one that a person has read need not be the newest.
fn find_question<'q>(open: &'q [OpenQuestion], typed: &str) -> anyhow::Result<&'q OpenQuestion> {
    let found = if typed == request_ids::LAST {
        if open.len() > 1 {
            let ids: Vec<&str> = open.iter().map(|question| question.id.as_str()).collect();
            let text = format!("several calls wait; name one of {}", ids.join(", "));
            return Err(CommandError::with_exit(Exit::Usage, text));
        }
        open.first()
    } else {
        match request_ids::find_among(open, typed, |question| question.id.as_str())? {
            Some(question) => Some(question),
            None => request_ids::find_among(open, typed, |question| question.request_id.as_str())?,
        }
    };
    found.ok_or_else(|| {
        CommandError::with_exit(
            Exit::Failed,
            "no such question waits; it may have been answered or run out",
        )
    })
}
