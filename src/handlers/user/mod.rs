//! Questions to a person: AskUserQuestion, RequestCredential. Not here: where a question is shown, and who may answer
//! (home, runner, command line).

mod ask_user_question;
mod person_question;
mod question_turns;
mod request_credential;

use std::time::Duration;

use crate::home::{PeopleAsker, SecretStore};
use crate::redact::Redactor;
use crate::tool::{ToolEntry, ToolSet};
pub use question_turns::QuestionTurns;

/// The dependencies of the tools that ask a person.
#[derive(Debug, Clone)]
pub struct UserDeps {
    /// Asks the person.
    pub people: PeopleAsker,
    /// Masks secrets in questions.
    pub redactor: Redactor,
    /// The owner's secrets.
    pub secrets: SecretStore,
    /// The time for which a question waits, unless the call names one.
    pub patience: Duration,
    /// The owner's answer where there is none.
    pub default_answer: Option<String>,
    /// The order of the questions of a conversation.
    pub turns: QuestionTurns,
}

/// Returns the tools that ask a person.
pub fn tools(deps: UserDeps) -> Vec<ToolEntry> {
    ToolSet::new("user", deps)
        .with_tool::<ask_user_question::AskUserQuestion>()
        .with_tool::<request_credential::RequestCredential>()
        .into_entries()
}
