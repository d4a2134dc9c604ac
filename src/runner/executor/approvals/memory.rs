//! The answers that people gave since the runner started: for the rest of a conversation, and to single calls. Not here:
//! the asking.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::approval_answer::ApprovalOption;
use crate::backend::Answer;
use crate::home::Approvals;
use crate::ids::{ConversationId, RequestId, ToolName};
use crate::tool::AllowedCalls;

/// What the word for the rest of a conversation is about: a tool there, and what of it the owner wants to be asked
/// about.
pub(in crate::runner) type Place = (ConversationId, ToolName, Option<String>);

/// The questions of one runner.
pub(in crate::runner) struct ApprovalMemory {
    pub(in crate::runner) open: Approvals,
    remembered: Mutex<HashMap<Place, Answer>>,
    /// The calls that people were asked about and allowed.
    pub(in crate::runner) allowed: AllowedCalls,
}

impl ApprovalMemory {
    pub(in crate::runner) fn new(open: Approvals) -> Self {
        // What an earlier life asked, this one asks anew when it comes to it.
        open.close_all();
        Self { open, remembered: Mutex::default(), allowed: AllowedCalls::default() }
    }

    /// Whether the person at this device has answered this question with a yes.
    pub(in crate::runner) fn is_allowed_here(&self, question: &RequestId) -> bool {
        self.open.answered(question).is_some_and(ApprovalOption::is_allowed)
    }

    pub(in crate::runner) fn recall(&self, place: &Place) -> Option<Answer> {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner).get(place).copied()
    }

    pub(in crate::runner) fn remember(&self, place: Place, answer: Answer) {
        self.remembered.lock().unwrap_or_else(PoisonError::into_inner).insert(place, answer);
    }
}
