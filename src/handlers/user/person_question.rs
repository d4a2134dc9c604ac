//! One question to a person: to the editor that follows the call, to this device and to the caller's side at once. The
//! first answer counts.

use std::time::Duration;

use tokio::time::Instant;

use super::UserDeps;
use punie_core::ids::RequestId;
use punie_home::{NobodyToAsk, OpenQuestion, PersonReply, QuestionInput};
use punie_text::output::hidden_characters::{escape_hidden_characters, escape_to_one_line};
use punie_tool::{FollowerChoice, ToolContext, ToolError};

/// The longest wait for answers: less than the longest call.
pub(super) const MAX_WAIT_SECONDS: u32 = 3_000;
/// The time between the end of the wait and the deadline of the call.
const DEADLINE_MARGIN: Duration = Duration::from_secs(5);

pub(super) struct PersonQuestion {
    /// The tool that asks.
    pub tool: &'static str,
    /// Its number in the call.
    pub number: usize,
    /// The question in one line.
    pub title: String,
    /// All of it, as people read it.
    pub details: String,
    /// The answer that is wanted.
    pub input: QuestionInput,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum QuestionEnd {
    /// A person answered; in words where the question wants them.
    Answered(Option<String>),
    /// A person refused.
    Refused,
    /// Nobody answered in time.
    Unanswered,
    /// Nobody can be asked.
    NobodyToAsk,
}

impl UserDeps {
    /// Returns the time at which the wait for answers ends.
    pub(super) fn end_of_wait(&self, cx: &ToolContext, seconds: Option<u32>) -> Instant {
        let wanted = seconds.map_or(self.patience, |seconds| {
            Duration::from_secs(seconds.clamp(1, MAX_WAIT_SECONDS).into())
        });
        let limit = cx.time_until_deadline(wanted + DEADLINE_MARGIN);
        Instant::now() + limit.saturating_sub(DEADLINE_MARGIN)
    }

    /// Returns a text in one line, with secrets masked and hidden characters escaped.
    pub(super) fn plain_line(&self, text: &str) -> String {
        escape_to_one_line(&self.redactor.mask(text.trim()).0)
    }

    /// Returns a text with secrets masked and hidden characters escaped.
    pub(super) fn plain_text(&self, text: &str) -> String {
        escape_hidden_characters(&self.redactor.mask(text.trim()).0).into_owned()
    }

    /// Asks, and waits for the first answer until this time.
    ///
    /// # Errors
    /// The call was cancelled; then the question is withdrawn.
    pub(super) async fn ask_person(
        &self,
        cx: &ToolContext,
        question: PersonQuestion,
        until: Instant,
    ) -> Result<QuestionEnd, ToolError> {
        let choices = editor_choices(&question.input);
        let observed = cx.follower.observed();
        let asked_in_editor = observed.zip(choices.as_ref());
        let title = question.title.clone();
        let in_editor = async {
            match asked_in_editor {
                Some((observed, labels)) => match observed.ask_choice(&title, labels).await {
                    FollowerChoice::Chosen(at) => QuestionEnd::Answered(labels.get(at).cloned()),
                    FollowerChoice::Refused => QuestionEnd::Refused,
                },
                None => std::future::pending().await,
            }
        };
        let open = open_question(cx, question, until);
        let by_people = async {
            match self
                .people
                .ask_question(open, asked_in_editor.is_some())
                .await
            {
                Ok(Some(reply)) => end_by_reply(reply),
                Ok(None) => QuestionEnd::Unanswered,
                // The person at the editor can still answer.
                Err(NobodyToAsk) if asked_in_editor.is_some() => {
                    tokio::time::sleep_until(until).await;
                    QuestionEnd::Unanswered
                }
                Err(NobodyToAsk) => QuestionEnd::NobodyToAsk,
            }
        };
        tokio::select! {
            biased;
            () = cx.wait_for_cancel() => Err(cancelled_error()),
            end = in_editor => Ok(end),
            end = by_people => Ok(end),
        }
    }
}

pub(super) fn cancelled_error() -> ToolError {
    ToolError::call_cancelled("The question was withdrawn.")
}

/// Returns the options that an editor can show: those of a single choice.
fn editor_choices(input: &QuestionInput) -> Option<Vec<String>> {
    match input {
        QuestionInput::Choice {
            options,
            is_multiple: false,
        } if !options.is_empty() => {
            Some(options.iter().map(|option| option.label.clone()).collect())
        }
        _ => None,
    }
}

fn end_by_reply(reply: PersonReply) -> QuestionEnd {
    if reply.option.is_allowed() {
        QuestionEnd::Answered(reply.text)
    } else {
        QuestionEnd::Refused
    }
}

fn open_question(cx: &ToolContext, question: PersonQuestion, until: Instant) -> OpenQuestion {
    let number = question.number.to_string();
    let left = until.saturating_duration_since(Instant::now());
    let title = question.title;
    let details = question.details;
    OpenQuestion {
        // After a crash the same question has the same id, so that an answer to it counts.
        id: RequestId::derive(&cx.request, &[question.tool, &details, &number]),
        input: Some(question.input),
        ..OpenQuestion::new(&cx.request, question.tool, title, details, left)
    }
}
