//! `questions`: what the agent asks the person at this device, and their answers. Not here: calls that wait for approval
//! (approvals), and the prompt on a terminal (approvals).

use std::io::IsTerminal as _;

use clap::{Args, Subcommand};

use super::approvals::{
    self, AnswerEffect, GivenAnswer, find_question, list_open_questions, short_id,
};
use super::context::CliContext;
use super::exit::{CommandError, Exit};
use super::{asked_secret, console, display_time, secrets};
use crate::config::WorkspaceRule;
use punie_core::approval_answer::{AnswerPlace, ApprovalOption};
use punie_engine::runner::Clock;
use punie_home::{
    AnswerResult, ApprovalQuestions, Home, OpenQuestion, PersonReply, QuestionInput, RunnerLock,
    command_to_type, read_own_words,
};

#[derive(Debug, Args)]
pub struct QuestionsArgs {
    #[command(subcommand)]
    word: Option<QuestionsCommand>,
}

#[derive(Debug, Subcommand)]
enum QuestionsCommand {
    /// List the open questions (the default)
    List,
    /// Answer one: by numbers of options, in your own words, or with a secret that is typed unseen
    Answer {
        /// The question: the id in the list
        id: String,
        /// The numbers or labels of options; for a sign-in: done
        #[arg(value_name = "CHOICE")]
        choices: Vec<String>,
        /// An answer in your own words
        #[arg(long, conflicts_with = "choices")]
        text: Option<String>,
    },
    /// Refuse to answer one
    Refuse {
        /// The question: the id in the list
        id: String,
    },
}

/// Lists the open questions, or answers one.
pub fn run_questions(args: &QuestionsArgs, context: &CliContext) -> anyhow::Result<Exit> {
    let (_, home) = context.config_beside_runner(WorkspaceRule::NotNeeded)?;
    let find = |id: &str| find_question(&home, id, |question| question.input.is_some());
    let (question, reply) = match &args.word {
        None | Some(QuestionsCommand::List) => return list_questions(&home, context.is_json()),
        Some(QuestionsCommand::Answer { id, choices, text }) => {
            let question = find(id)?;
            let typed = text.clone().unwrap_or_else(|| choices.join(","));
            let reply = read_answer(&home, &question, &typed, text.is_some())?;
            (question, reply)
        }
        Some(QuestionsCommand::Refuse { id }) => {
            let option = ApprovalOption::RejectOnce;
            let reply = PersonReply::without_text(option, AnswerPlace::Command);
            (find(id)?, reply)
        }
    };
    give_answer(&home, &question, reply, context.is_json())
}

/// Reads what was typed as the answer that the question wants. A secret is read from the terminal or stdin, and stored.
fn read_answer(
    home: &Home,
    question: &OpenQuestion,
    typed: &str,
    is_own_words: bool,
) -> anyhow::Result<PersonReply> {
    let usage = |text: String| CommandError::with_exit(Exit::Usage, text);
    let yes = PersonReply::without_text(ApprovalOption::AllowOnce, AnswerPlace::Command);
    match &question.input {
        Some(QuestionInput::Secret { name }) => {
            if !typed.is_empty() {
                let text = "a secret is never part of a command line; leave it out, and type it when you are asked";
                return Err(usage(text.to_owned()));
            }
            if std::io::stdin().is_terminal() {
                console::print_stderr(&format!("{}\n", question.arguments));
            }
            let value = secrets::read_value(name)?;
            asked_secret::store_for_question(home, question, name, &value)?;
            Ok(yes)
        }
        Some(QuestionInput::Confirmation) if typed.is_empty() || typed == "done" => Ok(yes),
        // The questions of one request have one id, so the subject says which of them is meant.
        Some(QuestionInput::Consent { subject }) if typed == format!("yes,{subject}") => Ok(yes),
        Some(QuestionInput::Consent { subject }) => Err(usage(format!(
            "it takes the words yes {subject}, or `questions refuse`"
        ))),
        Some(QuestionInput::Confirmation) | None => Err(usage(
            "it takes no text: `done`, or `questions refuse`".to_owned(),
        )),
        Some(input @ QuestionInput::Choice { .. }) => {
            let read = if is_own_words {
                read_own_words(typed)
            } else {
                input.read_typed_answer(typed)
            };
            let text = read.map_err(|why| {
                let all = format!("{}\n", question.arguments);
                usage(format!(
                    "{why}. Give the number of an option, or --text\n{all}"
                ))
            })?;
            Ok(PersonReply {
                text: Some(text),
                ..yes
            })
        }
    }
}

fn give_answer(
    home: &Home,
    question: &OpenQuestion,
    reply: PersonReply,
    as_json: bool,
) -> anyhow::Result<Exit> {
    let approvals = ApprovalQuestions::in_home(home);
    let answer = GivenAnswer(reply);
    let effect = match answer.store(home, &approvals, question)? {
        AnswerResult::Accepted => Some(answer.wait_for_effect(home, &approvals, question)),
        AnswerResult::TooLate | AnswerResult::SeenInPart => None,
    };
    if as_json {
        console::print_json(&serde_json::json!({
            "id": question.id, "answer": answer.0.text, "refused": !answer.0.option.is_allowed(),
            "accepted": effect.is_some(), "counts": AnswerEffect::counts(effect.as_ref()),
        }));
    } else if let Some(effect) = &effect {
        console::print_line(&answer.confirm(question, effect));
    } else {
        console::print_line("The question was answered here before.");
    }
    Ok(AnswerEffect::exit(effect.as_ref()))
}

fn list_questions(home: &Home, as_json: bool) -> anyhow::Result<Exit> {
    let mut open = list_open_questions(home)?;
    open.retain(|question| question.input.is_some());
    if as_json {
        for question in &open {
            let _ = approvals::print_question_json(question);
        }
        return Ok(Exit::Done);
    }
    if open.is_empty() {
        console::print_line("The agent asks nothing now.");
        return Ok(Exit::Done);
    }
    let is_running = RunnerLock::find_holder(home)?.is_some();
    let now_ms = Clock::system().now_ms();
    for question in &open {
        let time = if is_running {
            let left = display_time::format_time_left(question.expires_at_ms, now_ms);
            format!("{left} left")
        } else {
            "asked again when the runner starts".to_owned()
        };
        let id = short_id(question);
        let answer = match &question.input {
            Some(QuestionInput::Choice { options, .. }) if options.is_empty() => {
                format!("questions answer {id} --text \"...\"")
            }
            Some(QuestionInput::Choice { .. }) => format!("questions answer {id} NUMBER"),
            Some(QuestionInput::Confirmation) => format!("questions answer {id} done"),
            Some(QuestionInput::Consent { subject }) => {
                format!("questions answer {id} yes {subject}")
            }
            Some(QuestionInput::Secret { .. }) | None => format!("questions answer {id}"),
        };
        console::print_line(&format!(
            "{id}  {} ({time})\n  {}\n  Answer: {}\n",
            question.tool,
            question.arguments.replace('\n', "\n  "),
            command_to_type(&answer)
        ));
    }
    Ok(Exit::Done)
}
