//! The answers that people gave since the runner started: for the rest of a conversation, and to single calls.

use std::collections::HashMap;

use parking_lot::Mutex;

use super::verdicts::PersonAnswer;
use punie_core::clock::ExpiryClock;
use punie_core::ids::{ConversationId, ToolName};
use punie_home::ApprovalQuestions;
use punie_tool::AllowedCalls;

/// The scope of a remembered answer: a tool in a conversation, and the topic that the owner's rule asks about.
pub(in crate::runner) type AnswerScope = (ConversationId, ToolName, Option<String>);

/// The answers to the questions of one runner.
pub(in crate::runner) struct ApprovalMemory {
    pub(in crate::runner) open: ApprovalQuestions,
    remembered: Mutex<HashMap<AnswerScope, PersonAnswer>>,
    /// The calls that people were asked about and allowed.
    pub(in crate::runner) allowed: AllowedCalls,
}

impl ApprovalMemory {
    pub fn new(open: ApprovalQuestions, clock: &ExpiryClock) -> Self {
        // This process asks the questions of an earlier one again when their calls come up.
        open.close_earlier(clock);
        Self {
            open,
            remembered: Mutex::default(),
            allowed: AllowedCalls::default(),
        }
    }

    pub(super) fn find_remembered(&self, scope: &AnswerScope) -> Option<PersonAnswer> {
        self.remembered.lock().get(scope).copied()
    }

    pub(super) fn remember_answer(&self, scope: AnswerScope, answer: PersonAnswer) {
        self.remembered.lock().insert(scope, answer);
    }
}
