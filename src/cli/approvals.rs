//! `approvals`: the calls that wait for approval, and the answer of the person at this device.

use clap::{Args, Subcommand};
use serde::Serialize;

use super::context::CliContext;
use super::exit::{CommandError, Exit};
use super::{audit, console};
use crate::approval_answer::ApprovalOption;
use crate::audit::{AuditEntry, AuditEvent};
use crate::home::{ApprovalQuestions, OpenQuestion};

#[derive(Debug, Args)]
pub struct ApprovalsArgs {
    #[command(subcommand)]
    word: Option<ApprovalsCommand>,
}

#[derive(Debug, Subcommand)]
enum ApprovalsCommand {
    /// Let a call run
    Allow(QuestionArgs),
    /// Refuse a call
    Deny(QuestionArgs),
}

#[derive(Debug, Args)]
struct QuestionArgs {
    /// The question's id, or the end of it
    id: String,
    /// Also for every later call of this tool in the conversation, until the runner ends
    #[arg(long)]
    always: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GivenAnswer {
    id: String,
    option_id: &'static str,
    /// False if it was answered here before.
    accepted: bool,
}

/// Lists the open questions, or answers one.
pub fn run_approvals(args: &ApprovalsArgs, context: &CliContext) -> anyhow::Result<Exit> {
    let home = context.open_home()?;
    let approvals = ApprovalQuestions::in_home(&home);
    let open = approvals.open_questions();
    let (which, allow) = match &args.word {
        None => return Ok(list_questions(&open, context.is_json())),
        Some(ApprovalsCommand::Allow(which)) => (which, true),
        Some(ApprovalsCommand::Deny(which)) => (which, false),
    };
    let question = find_question(&open, &which.id)?;
    let option = ApprovalOption::new(allow, which.always);
    let accepted = approvals.answer_question(&question.id, option)?;
    let option_id = option.as_str();
    if accepted {
        let row = audit::owner_entry(AuditEvent::Approval)
            .with_request(&question.request_id)
            .with_detail(option_id);
        audit::record_owner_action(
            &home,
            AuditEntry {
                tool_name: Some(question.tool.clone()),
                ..row
            },
        );
    }
    if context.is_json() {
        console::print_json(&GivenAnswer {
            id: question.id.to_string(),
            option_id,
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

fn list_questions(open: &[OpenQuestion], as_json: bool) -> Exit {
    if as_json {
        for question in open {
            console::print_json(question);
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
            "`punie-runner approvals allow QUESTION` lets it run, `deny` refuses it.",
        );
    }
    Exit::Done
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
