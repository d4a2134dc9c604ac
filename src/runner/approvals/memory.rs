//! What people said in this life: for the rest of a conversation, and to which Task. Not here: the asking.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use super::{Cleared, Stopped, Word, said_yes};
use crate::home::Approvals;
use crate::ids::{ConversationId, RequestId, ToolName};
use crate::request::ToolRequest;

/// What the word for the rest of a conversation is about: a tool there, and what of it the owner wants to be asked
/// about.
pub(super) type Place = (ConversationId, ToolName, Option<String>);

/// The tool whose calls make requests of their own.
const TASK: &str = "Task";
/// What the id of a Task's own request ends with, behind the id of the Task.
const OF_TASK: &str = "-task";

/// The questions of one runner.
pub(in crate::runner) struct Desk {
    pub(super) open: Approvals,
    remembered: Mutex<HashMap<Place, Word>>,
    tasks: Mutex<HashSet<RequestId>>,
}

impl Desk {
    pub(in crate::runner) fn new(open: Approvals) -> Self {
        // What an earlier life asked, this one asks anew when it comes to it.
        open.close_all();
        Self { open, remembered: Mutex::default(), tasks: Mutex::default() }
    }

    /// Whether the person at this device has answered this question with a yes.
    pub(in crate::runner) fn is_allowed_here(&self, question: &RequestId) -> bool {
        self.open.answered(question).is_some_and(|option| said_yes(&option))
    }

    pub(super) fn recall(&self, place: &Place) -> Option<Word> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner).get(place).cloned()
    }

    pub(super) fn remember(&self, place: Place, word: Word) {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner).insert(place, word);
    }

    /// Notes that a person saw this call and what they said to it.
    pub(super) fn seen(
        &self,
        request: &ToolRequest,
        said: Result<Cleared, Stopped>,
    ) -> Result<Cleared, Stopped> {
        if said.is_ok() && request.tool.as_str() == TASK {
            self.tasks.lock().unwrap_or_else(PoisonError::into_inner).insert(request.id.clone());
        }
        said
    }

    /// Whether a person was asked in this life about the very Task that made this request, and said yes.
    pub(super) fn saw_task_of(&self, request: &ToolRequest) -> bool {
        let Some(task) = request.id.as_str().strip_suffix(OF_TASK) else { return false };
        let tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        tasks.iter().any(|id| id.as_str() == task)
    }
}
