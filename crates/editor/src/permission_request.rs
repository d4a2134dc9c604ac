//! The question to the person whether a shown call may run, and the decision that follows from the answer. Not here:
//! the options and the meaning of an answer (permission_prompt), and the display of the call (tool_call_view).

use std::time::Duration;

use super::change_preview;
use super::output_preview::fence_text;
use super::permission_prompt::{self, PermissionReply};
use super::tool_call_view::ShownCall;
use crate::protocol::{
    ContentBlock, Error, PermissionOption, RequestPermissionRequest, ToolCallContent,
    ToolCallStatus, ToolCallUpdate, ToolCallUpdateFields, is_connection_terminated,
    is_incoming_transport_closed,
};
use punie_tool::{ObservedCall as _, ObserverDecision, advice_when_stopped, format_call_arguments};

/// The time after a dismissed question in which the whole turn may turn out to be stopped: the two messages come in
/// either order.
const STOP_GRACE: Duration = Duration::from_secs(1);
/// The advice after a refusal.
const ASK_AGAIN: &str = "Do without it, or say why it is needed and ask again.";

impl ShownCall {
    /// Asks the person, unless an earlier answer covers the call.
    pub(super) async fn ask_person(&self) -> ObserverDecision {
        if let Some(decision) = self.remembered_decision() {
            return decision;
        }
        let session = &self.turn.session;
        let offered = permission_prompt::build_permission_options(&self.scope);
        let request = self.build_permission_request(offered.clone()).await;
        tokio::select! {
            biased;
            why = self.wait_until_abandoned() => self.refuse_and_stop(why).await,
            answered = session.client.request_permission(request) => match answered {
                Ok(answer) => {
                    let reply = permission_prompt::interpret_outcome(&answer.outcome, &offered);
                    self.decide_by_reply(reply).await
                }
                Err(error) => self.decide_unanswered(&error).await,
            },
        }
    }

    async fn build_permission_request(
        &self,
        offered: Vec<PermissionOption>,
    ) -> RequestPermissionRequest {
        let fields = ToolCallUpdateFields::new()
            .title(self.title.clone())
            .kind(self.kind)
            .status(ToolCallStatus::Pending)
            .content(self.question_content().await)
            .raw_input(self.args.clone());
        let call = ToolCallUpdate::new(self.id.clone(), fields);
        RequestPermissionRequest::new(self.turn.session.id.clone(), call, offered)
    }

    /// Returns the content of the question: the diffs of an edit, else all arguments whole, because a yes is
    /// for all of them.
    async fn question_content(&self) -> Vec<ToolCallContent> {
        let changes = self.changes.clone();
        let workspace = self.workspace.clone();
        let reading = tokio::task::spawn_blocking(move || {
            change_preview::preview_diffs(&changes, workspace.as_ref()?)
        });
        match reading.await {
            Ok(Some(diffs)) => diffs.into_iter().map(ToolCallContent::Diff).collect(),
            _ => vec![ToolCallContent::from(ContentBlock::from(fence_text(
                &format_call_arguments(&self.args),
            )))],
        }
    }

    /// Completes with the reason when the person stops the turn or the editor is closed.
    async fn wait_until_abandoned(&self) -> String {
        tokio::select! {
            biased;
            () = self.turn.stop.cancelled() => format!("{} stopped the turn", self.turn.session.person_phrase()),
            () = self.turn.over.cancelled() => self.closed_editor_message(),
        }
    }

    fn closed_editor_message(&self) -> String {
        format!(
            "{} was closed before anybody answered",
            self.turn.session.editor
        )
    }

    async fn decide_by_reply(&self, reply: PermissionReply) -> ObserverDecision {
        let session = &self.turn.session;
        let person = session.person_phrase();
        match reply {
            PermissionReply::Once => self.allow("this once"),
            PermissionReply::Always => {
                session.permissions.scopes.lock().insert(self.scope.clone());
                self.allow_for_session()
            }
            PermissionReply::No => refuse_call(format!("{person} rejected it"), ASK_AGAIN),
            PermissionReply::Dismissed => {
                match tokio::time::timeout(STOP_GRACE, self.wait_until_abandoned()).await {
                    Ok(why) => self.refuse_and_stop(why).await,
                    Err(_) => refuse_call(
                        format!("{person} put the question away without an answer"),
                        ASK_AGAIN,
                    ),
                }
            }
            PermissionReply::Unclear => refuse_call(
                format!(
                    "{} answered with none of the offered options",
                    session.editor
                ),
                ASK_AGAIN,
            ),
        }
    }

    async fn decide_unanswered(&self, error: &Error) -> ObserverDecision {
        // The connection may end before the turn does.
        if is_incoming_transport_closed(error) || is_connection_terminated(error) {
            return self.refuse_and_stop(self.closed_editor_message()).await;
        }
        tracing::warn!(%error, "the editor could not be asked");
        let person = self.turn.session.person_phrase();
        refuse_call(
            format!("{person} could not be asked"),
            "Ask again when the editor answers.",
        )
    }

    /// Stops the call's conversation and refuses the call, because its question will not be answered any more.
    async fn refuse_and_stop(&self, why: String) -> ObserverDecision {
        self.turn
            .stop_conversations([self.conversation.clone()], why.clone())
            .await;
        refuse_call(why, advice_when_stopped(&self.conversation))
    }

    /// Allows the call because of a permission for the whole session.
    pub(super) fn allow_for_session(&self) -> ObserverDecision {
        self.allow("for this session")
    }

    fn allow(&self, extent: &str) -> ObserverDecision {
        let session = &self.turn.session;
        session.permissions.calls.record(&self.request);
        ObserverDecision {
            allowed: true,
            by: session.person_phrase(),
            then: extent.into(),
        }
    }
}

fn refuse_call(by: String, advice: impl Into<String>) -> ObserverDecision {
    ObserverDecision {
        allowed: false,
        by,
        then: advice.into(),
    }
}
