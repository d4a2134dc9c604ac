//! Secrets that an agent asked for (RequestCredential): stored with the request, and its question answered.

use super::approvals::{GivenAnswer, list_open_questions};
use super::exit::{CommandError, Exit};
use punie_core::approval_answer::{AnswerPlace, ApprovalOption};
use punie_home::{
    ApprovalQuestions, Home, OpenQuestion, PersonReply, QuestionInput, SecretError, SecretRequest,
    SecretStore,
};
use punie_text::redact::Secret;

/// Stores a value as the answer to this question. Returns whether the name is new.
pub(super) fn store_for_question(
    home: &Home,
    question: &OpenQuestion,
    name: &str,
    value: &Secret<String>,
) -> anyhow::Result<bool> {
    let asked = SecretRequest {
        request: question.request_id.to_string(),
        // Behind the first line stands who can read it.
        purpose: question.title.lines().next().unwrap_or_default().to_owned(),
    };
    set_secret(home, name, value, Some(asked))
}

/// Stores a value, and answers the questions that wait for it. Returns whether the name is new.
pub(super) fn store_and_answer(
    home: &Home,
    name: &str,
    value: &Secret<String>,
) -> anyhow::Result<bool> {
    let mut waiting = list_open_questions(home)?;
    waiting.retain(|question| {
        matches!(&question.input, Some(QuestionInput::Secret { name: wanted }) if wanted == name)
    });
    let Some(first) = waiting.first() else {
        return set_secret(home, name, value, None);
    };
    let is_new = store_for_question(home, first, name, value)?;
    let reply = PersonReply::without_text(ApprovalOption::AllowOnce, AnswerPlace::Command);
    GivenAnswer(reply).store(home, &ApprovalQuestions::in_home(home), first)?;
    Ok(is_new)
}

fn set_secret(
    home: &Home,
    name: &str,
    value: &Secret<String>,
    asked: Option<SecretRequest>,
) -> anyhow::Result<bool> {
    SecretStore::in_home(home)
        .set_asked_secret(name, value, asked)
        .map_err(|error| match error {
            SecretError::Unusable(why) => CommandError::with_exit(Exit::Usage, why),
            SecretError::Home(error) => error.into(),
        })
}
