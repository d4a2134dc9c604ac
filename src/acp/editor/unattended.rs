//! A call that no editor shows although a person must be asked about it. It waits on the device's list of approvals,
//! and in an editor once one is attached to its conversation. Not here: the choice of these calls (turns), and the list
//! (the engine).

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use serde_json::Value;

use super::glance;
use super::output::fenced;
use super::shown::ShownCall;
use super::turns::Editors;
use crate::ids::{ConversationId, RequestId};
use crate::tool::{CallDescription, CallView, Effect, Ended, ObservedCall, ToolSpec, Verdict, Word};

/// A call that waits for an editor, or for an approval.
pub(super) struct UnattendedCall {
    editors: Editors,
    request: RequestId,
    conversation: ConversationId,
    tool: ToolSpec,
    effect: Effect,
    of_task: bool,
    args: Value,
    description: CallDescription,
    title: String,
    /// The call in the turn that was opened for it.
    shown: OnceLock<Arc<ShownCall>>,
}

impl UnattendedCall {
    /// Wraps a call that none of these editors shows.
    pub(super) fn new(editors: Editors, call: CallView<'_>) -> Self {
        Self {
            editors,
            request: call.request.clone(),
            conversation: call.conversation.clone(),
            tool: call.tool.clone(),
            effect: call.effect,
            of_task: call.of_task,
            args: call.args.clone(),
            description: call.description.clone(),
            title: call.title.to_owned(),
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
            title: &self.title,
        }
    }

    /// Tells the open threads that are not attached that a call waits.
    fn notify_threads(&self) {
        for session in self.editors.open_sessions() {
            session.say(&format!(
                "A call waits for your approval:\n{}\nSay `attach` to be asked here, or answer it by `punie-runner \
                 approvals` on the device.\n\n",
                fenced(&glance::title(self.view(), &session.roots))
            ));
        }
    }

    /// Waits until a turn is open for the conversation, and asks in it.
    async fn ask_once_attached(&self) -> Verdict {
        self.notify_threads();
        let mut open = self.editors.open();
        loop {
            open.mark_unchanged();
            if let Some(shown) = self.editors.show(self.view()) {
                return self.shown.get_or_init(|| shown).ask().await;
            }
            if open.changed().await.is_err() {
                return std::future::pending().await;
            }
        }
    }
}

impl ObservedCall for UnattendedCall {
    fn wants_a_say(&self) -> bool {
        true
    }

    fn known(&self) -> Option<Verdict> {
        None
    }

    fn ask(&self) -> Word<'_> {
        Box::pin(self.ask_once_attached())
    }

    fn started(&self) {
        if let Some(shown) = self.shown.get() {
            shown.started();
        }
    }

    fn printed(&self, text: &str, omitted_bytes: u64) {
        if let Some(shown) = self.shown.get() {
            shown.printed(text, omitted_bytes);
        }
    }

    fn ran_in_editor(&self) -> bool {
        self.shown.get().is_some_and(|shown| shown.ran_in_editor())
    }

    fn ended(&self, ending: Ended<'_>) {
        if let Some(shown) = self.shown.get() {
            shown.ended(ending);
        }
    }

    fn stopped(&self) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        match self.shown.get() {
            Some(shown) => shown.stopped(),
            None => Box::pin(std::future::pending()),
        }
    }
}
