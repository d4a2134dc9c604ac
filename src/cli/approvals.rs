//! `approvals`: the calls that wait for approval, and the answer of the person at this device.

use clap::{Args, Subcommand};
use serde::Serialize;

use super::context::Context;
use super::exit::{Exit, Stop};
use super::{audit, print};
use crate::approval_answer::ApprovalOption;
use crate::audit::{Entry, Event};
use crate::config::WorkspaceRule;
use crate::home::{Approvals, OpenQuestion};

#[derive(Debug, Args)]
pub struct ApprovalsArgs {
    #[command(subcommand)]
    word: Option<Word>,
}

#[derive(Debug, Subcommand)]
enum Word {
    /// Let a call run
    Allow(Which),
    /// Refuse a call
    Deny(Which),
}

#[derive(Debug, Args)]
struct Which {
    /// The question's id, or the end of it
    id: String,
    /// Also for every later call of this tool in the conversation, until the runner ends
    #[arg(long)]
    always: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Given {
    id: String,
    option_id: &'static str,
    /// False if it was answered here before.
    accepted: bool,
}

/// Lists the open questions, or answers one.
pub fn approvals(args: &ApprovalsArgs, context: &Context) -> anyhow::Result<Exit> {
    let config = context.config(WorkspaceRule::NotNeeded)?;
    let home = Context::home(&config)?;
    let approvals = Approvals::of(&home);
    let open = approvals.list();
    let (which, allow) = match &args.word {
        None => return Ok(list(&open, context.json())),
        Some(Word::Allow(which)) => (which, true),
        Some(Word::Deny(which)) => (which, false),
    };
    let question = pick(&open, &which.id)?;
    let option = ApprovalOption::new(allow, which.always);
    let accepted = approvals.choose(&question.id, option)?;
    let option_id = option.as_str();
    if accepted {
        let row = audit::by_owner(Event::Approval).about(&question.request_id).saying(option_id);
        audit::note(&home, Entry { tool_name: Some(question.tool.clone()), ..row });
    }
    if context.json() {
        print::json(&Given { id: question.id.to_string(), option_id, accepted });
    } else if accepted {
        let verb = if allow { "Allowed" } else { "Refused" };
        print::line(&format!(
            "{verb}, unless the caller's side was quicker: {}",
            print::cell(&question.title, usize::MAX)
        ));
    } else {
        print::line("It was answered here before.");
    }
    Ok(if accepted { Exit::Done } else { Exit::Failed })
}

fn list(open: &[OpenQuestion], as_json: bool) -> Exit {
    if as_json {
        for question in open {
            print::json(question);
        }
    } else if open.is_empty() {
        print::line("Nothing waits for a word.");
    } else {
        for question in open {
            print::line(&format!("{}\n  {}\n", question.id, print::cell(&question.title, usize::MAX)));
        }
        print::line("`punie-runner approvals allow QUESTION` lets it run, `deny` refuses it.");
    }
    Exit::Done
}

/// Finds the question by the end of its id, because the beginnings are alike.
fn pick<'q>(open: &'q [OpenQuestion], id: &str) -> anyhow::Result<&'q OpenQuestion> {
    let mut found = open.iter().filter(|question| question.id.as_str().ends_with(id));
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one),
        (None, _) => {
            Err(Stop::with(Exit::Failed, "no such question waits; it may have been answered or run out"))
        }
        (Some(_), Some(_)) => Err(Stop::with(Exit::Usage, "several questions end so: give more of the id")),
    }
}
