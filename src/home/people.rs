//! The people who are asked about what a running call wants: without a runner the person at this device; a runner also
//! asks the caller's side.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::approvals::{ApprovalQuestions, OpenQuestion};
use super::question_input::PersonReply;

/// The interval of checks for an answer at this device.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// Nobody can be asked now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NobodyToAsk;

/// Completes with the answer; with `None` if nobody answered in time.
pub type PeopleAnswer<'a> =
    Pin<Box<dyn Future<Output = Result<Option<PersonReply>, NobodyToAsk>> + Send + 'a>>;

/// Asks people.
pub trait AskPeople: Send + Sync + 'static {
    /// Asks a question, and waits for the first answer. One that an editor shows, too, waits also if nobody else can be
    /// asked now. Dropping the future withdraws the question from this device.
    fn ask_people(&self, question: OpenQuestion, is_in_editor: bool) -> PeopleAnswer<'_>;
}

/// The runner's way to ask people, once there is a runner. Clones share it.
#[derive(Clone, Default)]
pub struct RunnerPeople(Arc<OnceLock<Arc<dyn AskPeople>>>);

impl RunnerPeople {
    /// Sets the way of this runner.
    pub fn set(&self, people: Arc<dyn AskPeople>) {
        // A process has one runner.
        let _ = self.0.set(people);
    }

    fn find_people(&self) -> Option<&dyn AskPeople> {
        self.0.get().map(AsRef::as_ref)
    }
}

impl fmt::Debug for RunnerPeople {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunnerPeople").finish_non_exhaustive()
    }
}

/// Asks people in the way of the runner, or at this device where there is no runner.
#[derive(Debug, Clone)]
pub struct PeopleAsker {
    /// The open questions of the home.
    pub questions: ApprovalQuestions,
    /// The runner's way, if there is a runner.
    pub runner: RunnerPeople,
}

impl PeopleAsker {
    /// Asks a question, and waits for the first answer. Dropping the future withdraws the question. Returns `None` if
    /// nobody answered in time.
    ///
    /// # Errors
    /// Nobody can be asked.
    pub async fn ask_question(
        &self,
        question: OpenQuestion,
        is_in_editor: bool,
    ) -> Result<Option<PersonReply>, NobodyToAsk> {
        match self.runner.find_people() {
            Some(people) => people.ask_people(question, is_in_editor).await,
            None => self.ask_here(question, is_in_editor).await,
        }
    }

    /// Asks the person at this device only, whether there is a runner or not. Dropping the future withdraws the question.
    ///
    /// # Errors
    /// Nobody asks here now.
    pub async fn ask_at_device(
        &self,
        question: OpenQuestion,
    ) -> Result<Option<PersonReply>, NobodyToAsk> {
        self.ask_here(question, false).await
    }

    async fn ask_here(
        &self,
        question: OpenQuestion,
        is_in_editor: bool,
    ) -> Result<Option<PersonReply>, NobodyToAsk> {
        let questions = self.questions.clone();
        let id = question.id.clone();
        let patience_ms = question.expires_at_ms.saturating_sub(question.asked_at_ms);
        let listed = tokio::task::spawn_blocking(move || {
            if !is_in_editor && !questions.has_approver() {
                return None;
            }
            let listed = questions.list_question(&question);
            listed
                .inspect_err(|error| {
                    tracing::warn!(%error, "the person at this device cannot be asked");
                })
                .ok()
        });
        let Ok(Some(_listed)) = listed.await else {
            return Err(NobodyToAsk);
        };
        let answer = async {
            loop {
                tokio::time::sleep(CHECK_INTERVAL).await;
                if let Some(reply) = self.questions.given_reply(&id) {
                    return reply;
                }
            }
        };
        let patience = Duration::from_millis(u64::try_from(patience_ms).unwrap_or_default());
        Ok(tokio::time::timeout(patience, answer).await.ok())
    }
}
