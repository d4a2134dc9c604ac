//! Conversations that a person has stopped: calls that would write or run something are refused until the person
//! resumes the conversation. Not here: the stop itself (the editor's side) and its storage (home).

use std::sync::Arc;

use crate::home::Supervision;
use crate::ids::ConversationId;
use crate::journal::Accepted;
use crate::request::{Effect, ErrorCode, Failure, Meta};
use crate::tool::{Registry, advice_when_stopped};

/// The rule that a refusal names.
const RULE: &str = "editor.stop";

/// The conversations that a person has stopped.
pub(in crate::runner) struct StoppedConversations {
    pub supervision: Supervision,
    pub registry: Arc<Registry>,
}

impl StoppedConversations {
    /// Refuses a call with effects whose conversation is stopped. Calls that only end something are not refused.
    pub(in crate::runner) fn refuse_if_stopped(&self, call: &Accepted) -> Option<Failure> {
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

    /// Resumes a conversation.
    pub(in crate::runner) fn resume(&self, conversation: &ConversationId) {
        match self.supervision.resume(conversation) {
            Ok(true) => {
                tracing::info!(%conversation, "a stopped conversation goes on: a person allowed a call of it");
            }
            Ok(false) => {}
            Err(error) => tracing::error!(%error, %conversation, "a conversation stays stopped"),
        }
    }
}
