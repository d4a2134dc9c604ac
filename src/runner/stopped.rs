//! Conversations that a person has stopped: calls that would write or run something are refused until the person lets
//! the conversation go on. Not here: who stops one (the editor's side) and where that is stored (home).

use super::engine::Engine;
use crate::ids::{ConversationId, RequestId};
use crate::journal::Accepted;
use crate::request::{Effect, ErrorCode, Failure, Meta};
use crate::tool::advice_when_stopped;

/// The rule that a refusal names.
const RULE: &str = "editor.stop";

impl Engine {
    /// The refusal of a call with effects whose conversation is stopped. Calls that only end something go on.
    pub(super) fn refuse_if_stopped(&self, call: &Accepted) -> Option<Failure> {
        let request = call.request();
        if !matches!(call.effect(), Effect::Writes | Effect::Executes) {
            return None;
        }
        let reason = self.supervision.why_stopped(&request.conversation)?;
        if self.registry.find(request.tool.as_str()).is_ok_and(|tool| tool.spec().only_ends) {
            return None;
        }
        let advice = advice_when_stopped(&request.conversation);
        Some(Failure {
            code: ErrorCode::PolicyDenied,
            text: format!("{} was not run: {reason}. {advice}", request.tool),
            meta: Meta { rule: Some(RULE.to_owned()), ..Meta::default() },
        })
    }

    /// Lets a conversation go on when the person at this device has allowed a call of it.
    pub(super) fn resume_if_allowed_here(&self, conversation: &ConversationId, question: &RequestId) {
        if self.desk.is_allowed_here(question) {
            self.resume_conversation(conversation);
        }
    }

    /// Lets a conversation go on.
    pub(super) fn resume_conversation(&self, conversation: &ConversationId) {
        match self.supervision.resume(conversation) {
            Ok(true) => {
                tracing::info!(%conversation, "a stopped conversation goes on: a person allowed a call of it");
            }
            Ok(false) => {}
            Err(error) => tracing::error!(%error, %conversation, "a conversation stays stopped"),
        }
    }
}
