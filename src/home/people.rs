//! The people who are asked about what a running call wants: without a runner the person at this device; a runner also
//! asks the caller's side. Not here: the question itself (approvals).

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use super::approvals::OpenQuestion;
use crate::approval_answer::ApprovalOption;

/// Nobody can be asked now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NobodyToAsk;

/// Completes with the answer; with `None` if nobody answered in time.
pub type PeopleAnswer<'a> =
    Pin<Box<dyn Future<Output = Result<Option<ApprovalOption>, NobodyToAsk>> + Send + 'a>>;

/// Asks people.
pub trait AskPeople: Send + Sync + 'static {
    /// Asks a question, and waits for the first answer. Dropping the future withdraws the question from this device.
    fn ask_people(&self, question: OpenQuestion) -> PeopleAnswer<'_>;
}

/// The runner's way to ask people, once there is a runner. Clones share it.
#[derive(Clone, Default)]
pub struct RunnerPeople(Arc<OnceLock<Arc<dyn AskPeople>>>);

impl RunnerPeople {
    /// Sets the way of this runner.
    pub fn set_people(&self, people: Arc<dyn AskPeople>) {
        // A process has one runner.
        let _ = self.0.set(people);
    }

    /// Returns the way of the runner, if there is one.
    pub fn find_people(&self) -> Option<&dyn AskPeople> {
        self.0.get().map(AsRef::as_ref)
    }
}

impl fmt::Debug for RunnerPeople {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunnerPeople").finish_non_exhaustive()
    }
}
