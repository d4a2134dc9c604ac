//! `approvals`: the calls that wait for approval, and the answer of the person at this device.

use anyhow::Context as _;
use clap::{Args, Subcommand};
use serde::Serialize;

use super::context::CliContext;
use super::exit::{CommandError, Exit};
use super::{audit, console, display_time};
use crate::approval_answer::ApprovalOption;
use crate::audit::{AuditEntry, AuditEvent};
use crate::home::{AnswerResult, ApprovalQuestions, Home, OpenQuestion};

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
    /// The id in the list, or its end
    id: String,
}

#[derive(Debug, Args)]
struct QuestionArgs {
    /// The id in the list, or its end
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
    expires_at_ms: i64,
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
                expires_at_ms: question.expires_at_ms,
            });
        }
    } else if open.is_empty() {
        console::print_line("Nothing waits for a word.");
    } else {
        for question in open {
            console::print_line(&format!(
                "{}\n  {}\n",
                question.id,
                console::cell_text(&question.title, usize::MAX)
            ));
        }
        console::print_line(
            "`punie-runner approvals show QUESTION` shows all of it, `allow` lets it run, `deny` refuses it.",
        );
    }
    Exit::Done
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

/// Finds the question by the end of its id, because the beginnings are alike.
fn find_question<'q>(open: &'q [OpenQuestion], id: &str) -> anyhow::Result<&'q OpenQuestion> {
    let mut found = open
        .iter()
        .filter(|question| question.id.as_str().ends_with(id));
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one),
        (None, _) => Err(CommandError::with_exit(
            Exit::Failed,
            "no such question waits; it may have been answered or run out",
        )),
        (Some(_), Some(_)) => Err(CommandError::with_exit(
            Exit::Usage,
            "several questions end so: give more of the id",
        )),
    }
}
