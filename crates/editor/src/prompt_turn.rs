//! One open turn of a session, in which calls are shown and the editor may serve them.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::session::EditorSession;
use punie_core::ids::ConversationId;
use punie_home::SupervisionStore;
use punie_tool::CallView;

/// An open turn.
pub(super) struct PromptTurn {
    pub(super) session: Arc<EditorSession>,
    /// The conversation that the turn is for; `None` for all.
    conversation: Option<ConversationId>,
    /// The conversations of the calls that were shown in it.
    shown_conversations: Mutex<HashSet<ConversationId>>,
    /// The store of persons' decisions about conversations.
    supervision: Option<SupervisionStore>,
    /// Cancelled when the turn ends; nothing is shown in it afterwards.
    pub(super) over: CancellationToken,
    /// Cancelled when the person stops the turn's calls.
    pub(super) stop: CancellationToken,
    /// The number of its calls that have not ended.
    pub(super) live_calls: watch::Sender<usize>,
}

impl PromptTurn {
    /// Opens a turn for one conversation or for all.
    pub(super) fn new(
        session: Arc<EditorSession>,
        conversation: Option<ConversationId>,
        supervision: Option<SupervisionStore>,
    ) -> Self {
        Self {
            session,
            conversation,
            shown_conversations: Mutex::default(),
            supervision,
            over: CancellationToken::new(),
            stop: CancellationToken::new(),
            live_calls: watch::Sender::default(),
        }
    }

    /// Returns the conversation that the turn is for; `None` for all.
    pub(super) fn named_conversation(&self) -> Option<&ConversationId> {
        self.conversation.as_ref()
    }

    /// Records the conversation of a shown call.
    pub(super) fn record_conversation(&self, call: &CallView<'_>) {
        self.shown_conversations
            .lock()
            .insert(call.conversation.clone());
    }

    /// Stops the turn for the person: refuses writes and commands of its conversations, and tells its calls to stop.
    pub(super) async fn stop_by_person(&self) {
        let mut conversations = self.shown_conversations.lock().clone();
        conversations.extend(self.conversation.clone());
        let reason = format!("{} stopped the turn", self.session.person_phrase());
        self.stop_conversations(conversations, reason).await;
        self.stop.cancel();
    }

    /// Refuses writes and commands of these conversations until a person resumes them. A call's own conversation has no
    /// later calls.
    pub(super) async fn stop_conversations(
        &self,
        conversations: impl IntoIterator<Item = ConversationId> + Send + 'static,
        reason: String,
    ) {
        let Some(supervision) = self.supervision.clone() else {
            return;
        };
        let stopping = tokio::task::spawn_blocking(move || {
            for conversation in conversations.into_iter().filter(ConversationId::is_named) {
                if let Err(error) = supervision.stop_conversation(&conversation, &reason) {
                    tracing::error!(%error, %conversation, "a stopped conversation is not held");
                }
            }
        });
        // The task also ends if it is not awaited.
        let _ = stopping.await;
    }
}
