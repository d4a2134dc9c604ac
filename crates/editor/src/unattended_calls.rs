//! Chooses how a call is observed: a turn shows it, or it is unattended. An unattended call needs a person although no
//! editor shows it. It waits on the device's list of approvals, and in an editor once one is attached to its
//! conversation.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::attached_editors::AttachedEditors;
use super::output_preview::fence_text;
use super::tool_call_title;
use super::tool_call_view::ShownCall;
use punie_core::ids::{ConversationId, RequestId};
use punie_home::SupervisionStore;
use punie_tool::{
    CallDescription, CallEnding, CallObserver, CallView, DecisionFuture, ObservedCall,
    ObserverDecision, ToolEffect, ToolSpec,
};

impl CallObserver for AttachedEditors {
    fn may_follow(&self, conversation: &ConversationId) -> bool {
        self.find_turn(conversation).is_some() || may_need_person(self, conversation)
    }

    fn observe_call(&self, call: CallView<'_>) -> Option<Arc<dyn ObservedCall>> {
        if let Some(shown) = self.show_call(call) {
            return Some(shown);
        }
        asks_unattended(self, &call)
            .then(|| Arc::new(UnattendedCall::new(self.clone(), call)) as Arc<dyn ObservedCall>)
    }
}

/// Returns whether a thread is open or an editor was attached to the conversation.
fn may_need_person(editors: &AttachedEditors, conversation: &ConversationId) -> bool {
    let is_supervised =
        |(supervision, _): &(SupervisionStore, _)| supervision.requires_approval(conversation);
    editors.has_open_session() || editors.supervision().is_some_and(is_supervised)
}

/// Returns whether a person must be asked about a call that no turn shows.
fn asks_unattended(editors: &AttachedEditors, call: &CallView<'_>) -> bool {
    editors.supervision().is_some_and(|(_, ask)| {
        ask.contains(&call.effect)
            && !call.tool.only_ends
            && may_need_person(editors, call.conversation)
    })
}

/// A call that waits for an editor, or for an approval.
pub(super) struct UnattendedCall {
    editors: AttachedEditors,
    request: RequestId,
    conversation: ConversationId,
    tool: ToolSpec,
    effect: ToolEffect,
    of_task: bool,
    args: Value,
    description: CallDescription,
    /// The call in the turn that was opened for it.
    shown: OnceLock<Arc<ShownCall>>,
}

impl UnattendedCall {
    /// Wraps a call that none of these editors shows.
    pub(super) fn new(editors: AttachedEditors, call: CallView<'_>) -> Self {
        Self {
            editors,
            request: call.request.clone(),
            conversation: call.conversation.clone(),
            tool: call.tool.clone(),
            effect: call.effect,
            of_task: call.of_task,
            args: call.args.clone(),
            description: call.description.clone(),
            shown: OnceLock::new(),
        }
    }

    fn view(&self) -> CallView<'_> {
        CallView {
            request: &self.request,
            conversation: &self.conversation,
            tool: &self.tool,
            effect: self.effect,
            of_task: self.of_task,
            args: &self.args,
            description: &self.description,
        }
    }

    /// Tells the open threads that are not attached that a call waits.
    fn notify_threads(&self) {
        for session in self.editors.open_sessions() {
            session.send_message(&format!(
                "A call waits for your approval:\n{}\nSay `attach` to be asked here, or answer it by `punie-runner \
                 approvals` on the device.\n\n",
                fence_text(&tool_call_title::call_title(self.view(), &session.roots))
            ));
        }
    }

    /// Waits until a turn is open for the conversation, and asks in it.
    async fn ask_once_attached(&self) -> ObserverDecision {
        self.notify_threads();
        let mut open = self.editors.subscribe_open_turns();
        loop {
            open.mark_unchanged();
            if let Some(shown) = self.editors.show_call(self.view()) {
                return self.shown.get_or_init(|| shown).ask_follower().await;
            }
            if open.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }
}

impl ObservedCall for UnattendedCall {
    fn wants_approval(&self) -> bool {
        true
    }

    fn remembered_decision(&self) -> Option<ObserverDecision> {
        None
    }

    fn ask_follower(&self) -> DecisionFuture<'_> {
        Box::pin(self.ask_once_attached())
    }

    fn on_started(&self) {
        if let Some(shown) = self.shown.get() {
            shown.on_started();
        }
    }

    fn on_output(&self, text: &str, omitted_bytes: u64) {
        if let Some(shown) = self.shown.get() {
            shown.on_output(text, omitted_bytes);
        }
    }

    fn ran_in_editor(&self) -> bool {
        self.shown.get().is_some_and(|shown| shown.ran_in_editor())
    }

    fn on_ended(&self, ending: CallEnding<'_>) {
        if let Some(shown) = self.shown.get() {
            shown.on_ended(ending);
        }
    }

    fn wait_for_stop(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        match self.shown.get() {
            Some(shown) => shown.wait_for_stop(),
            None => Box::pin(std::future::pending()),
        }
    }
}
