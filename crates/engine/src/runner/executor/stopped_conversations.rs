//! Conversations that a person has stopped: calls that would write or run something are refused until the person
//! resumes the conversation.

use std::sync::Arc;

use crate::journal::AcceptedRequest;
use punie_core::ids::ConversationId;
use punie_home::SupervisionStore;
use punie_tool::request::{CallFailure, ErrorCode, ResultMeta, ToolEffect};
use punie_tool::{ToolRegistry, advice_when_stopped};

/// The rule that a refusal names.
const STOP_RULE: &str = "editor.stop";

/// The conversations that a person has stopped.
pub(in crate::runner) struct StoppedConversations {
    pub supervision: SupervisionStore,
    pub registry: Arc<ToolRegistry>,
}

impl StoppedConversations {
    /// Refuses a call with effects whose conversation is stopped. Calls that only end something are not refused.
    pub fn refuse_if_stopped(&self, call: &AcceptedRequest) -> Option<CallFailure> {
        let request = call.tool_request();
        if !matches!(
            call.tool_effect(),
            ToolEffect::Writes | ToolEffect::Executes
        ) {
            return None;
        }
        let reason = self.supervision.stop_reason(&request.conversation)?;
        if self
            .registry
            .find(request.tool.as_str())
            .is_ok_and(|tool| tool.tool_spec().only_ends)
        {
            return None;
        }
        let advice = advice_when_stopped(&request.conversation);
        let text = format!("{} was not run: {reason}. {advice}", request.tool);
        let meta = ResultMeta {
            rule: Some(STOP_RULE.to_owned()),
            ..ResultMeta::default()
        };
        Some(CallFailure::new(ErrorCode::PolicyDenied, text).with_meta(meta))
    }

    pub fn resume(&self, conversation: &ConversationId) {
        match self.supervision.remove_stop(conversation) {
            Ok(true) => {
                tracing::info!(%conversation, "a stopped conversation goes on: a person allowed a call of it");
            }
            Ok(false) => {}
            Err(error) => tracing::error!(%error, %conversation, "a conversation stays stopped"),
        }
    }
}
