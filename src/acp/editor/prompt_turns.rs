//! The open turns of sessions, and the calls that belong to them. A person opens a turn by attaching a session. Until
//! it ends, calls are shown in it and the editor may serve them. Not here: the protocol (`acp::agent`).

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::session::EditorSession;
use super::tool_call_view::ShownCall;
use super::unattended_calls::UnattendedCall;
use crate::acp::Workspace;
use crate::home::SupervisionStore;
use crate::ids::{ConversationId, RequestId};
use crate::tool::{CallObserver, CallView, ObservedCall, ToolEffect};

/// The sessions that are attached now, and the calls that they show.
#[derive(Clone, Default)]
pub struct AttachedEditors(Arc<AttachedEditorsShared>);

#[derive(Default)]
struct AttachedEditorsShared {
    state: Mutex<AttachedEditorsState>,
    /// The number of open turns.
    open: watch::Sender<usize>,
    /// The workspace, once it is known.
    workspace: OnceLock<Workspace>,
    /// The store of persons' decisions about conversations, and the effects that are asked about; once known.
    supervision: OnceLock<(SupervisionStore, Vec<ToolEffect>)>,
}

#[derive(Default)]
struct AttachedEditorsState {
    turns: Vec<Arc<PromptTurn>>,
    /// The open sessions, attached or not.
    threads: Vec<Arc<EditorSession>>,
    calls: HashMap<RequestId, Weak<ShownCall>>,
}

/// An open turn.
pub(super) struct PromptTurn {
    pub(super) session: Arc<EditorSession>,
    /// The conversation that the turn is for; `None` for all.
    of: Option<ConversationId>,
    /// The conversations of the calls that were shown in it.
    conversations: Mutex<HashSet<ConversationId>>,
    /// The store of persons' decisions about conversations.
    supervision: Option<SupervisionStore>,
    /// Cancelled when the turn ends; nothing is shown in it afterwards.
    pub(super) over: CancellationToken,
    /// Cancelled when the person stops the turn's calls.
    pub(super) stop: CancellationToken,
    /// The number of its calls that have not ended.
    pub(super) live: watch::Sender<usize>,
}

/// An open session. Dropping this closes it.
pub struct OpenThread {
    editors: AttachedEditors,
    session: Arc<EditorSession>,
}

impl Drop for OpenThread {
    fn drop(&mut self) {
        self.editors
            .lock_editors_state()
            .threads
            .retain(|session| !Arc::ptr_eq(session, &self.session));
    }
}

/// The owner's handle of an open turn. Dropping it ends the turn.
pub struct TurnHandle {
    editors: AttachedEditors,
    open: Arc<PromptTurn>,
}

impl AttachedEditors {
    /// Sets the workspace that paths in calls refer to.
    pub fn set_workspace(&self, workspace: Workspace) {
        // A set of editors has one workspace.
        let _ = self.0.workspace.set(workspace);
    }

    /// Sets the store of persons' decisions about conversations, and the effects that are asked about.
    pub fn set_supervision(&self, supervision: SupervisionStore, ask: Vec<ToolEffect>) {
        // A set of editors has one home.
        let _ = self.0.supervision.set((supervision, ask));
    }

    /// Adds an open session, until the returned value is dropped.
    pub fn register_thread(&self, session: &Arc<EditorSession>) -> OpenThread {
        self.lock_editors_state().threads.push(Arc::clone(session));
        OpenThread {
            editors: self.clone(),
            session: Arc::clone(session),
        }
    }

    /// Returns the open sessions, attached or not.
    pub(super) fn open_sessions(&self) -> Vec<Arc<EditorSession>> {
        self.lock_editors_state().threads.clone()
    }

    /// Opens a turn of this session, for one conversation or for all. From now on the person is asked about its calls,
    /// with or without an editor.
    pub fn open_turn(&self, session: Arc<EditorSession>, of: Option<ConversationId>) -> TurnHandle {
        let supervision = self
            .0
            .supervision
            .get()
            .map(|(supervision, _)| supervision.clone());
        if let Some(supervision) = supervision
            .as_ref()
            .filter(|_| !session.settings.ask.is_empty())
            && let Err(error) = supervision.start_asking(of.as_ref())
        {
            tracing::error!(%error, "calls are asked about only while an editor is attached");
        }
        let open = Arc::new(PromptTurn {
            session,
            conversations: Mutex::default(),
            supervision,
            of,
            over: CancellationToken::new(),
            stop: CancellationToken::new(),
            live: watch::Sender::default(),
        });
        let mut state = self.lock_editors_state();
        state.turns.push(Arc::clone(&open));
        self.0.open.send_replace(state.turns.len());
        drop(state);
        TurnHandle {
            editors: self.clone(),
            open,
        }
    }

    /// Resumes a conversation that a person stopped; every one if none is named.
    pub fn resume_conversations(&self, of: Option<&ConversationId>) {
        let Some((supervision, _)) = self.0.supervision.get() else {
            return;
        };
        let resumed = match of {
            Some(conversation) => supervision.remove_stop(conversation).map(usize::from),
            None => supervision.remove_all_stops(),
        };
        match resumed {
            Ok(0) => {}
            Ok(conversations) => {
                tracing::info!(
                    conversations,
                    "stopped conversations go on: they are attached again"
                );
            }
            Err(error) => tracing::error!(%error, "a conversation stays stopped"),
        }
    }

    /// Returns the shown call of a request, whose session may serve it; `None` if no open turn shows it.
    pub fn find_shown_call(&self, request: &RequestId) -> Option<Arc<ShownCall>> {
        let call = self.lock_editors_state().calls.get(request)?.upgrade()?;
        (!call.is_over()).then_some(call)
    }

    /// Returns a receiver of the number of open turns.
    pub fn subscribe_open_turns(&self) -> watch::Receiver<usize> {
        self.0.open.subscribe()
    }

    /// Returns the sessions that have an open turn, the newest last.
    pub fn attached_sessions(&self) -> Vec<Arc<EditorSession>> {
        self.lock_editors_state()
            .turns
            .iter()
            .map(|turn| Arc::clone(&turn.session))
            .collect()
    }

    /// Finds the turn for a conversation: one that names it before those for all, newer ones before older ones.
    fn find_turn(&self, conversation: &ConversationId) -> Option<Arc<PromptTurn>> {
        let state = self.lock_editors_state();
        let open = || {
            state
                .turns
                .iter()
                .rev()
                .filter(|turn| !turn.stop.is_cancelled())
        };
        let named = open().find(|turn| turn.of.as_ref() == Some(conversation));
        named
            .or_else(|| open().find(|turn| turn.of.is_none()))
            .cloned()
    }

    /// Shows a call in the open turn of its conversation, if there is one.
    pub(super) fn show_call(&self, call: CallView<'_>) -> Option<Arc<ShownCall>> {
        let turn = self.find_turn(call.conversation)?;
        turn.record_conversation(&call);
        let shown = Arc::new(ShownCall::show_pending(&turn, call, self.0.workspace.get()));
        let mut state = self.lock_editors_state();
        state.calls.retain(|_, call| call.strong_count() > 0);
        state
            .calls
            .insert(call.request.clone(), Arc::downgrade(&shown));
        Some(shown)
    }

    /// Returns whether a person must be asked about a call that no turn shows. That is so if a thread is open or an
    /// editor was attached to its conversation.
    fn asks_unattended(&self, call: &CallView<'_>) -> bool {
        let Some((supervision, ask)) = self.0.supervision.get() else {
            return false;
        };
        let asked = ask.contains(&call.effect) && !call.tool.only_ends;
        asked
            && (!self.lock_editors_state().threads.is_empty()
                || supervision.requires_approval(call.conversation))
    }

    fn lock_editors_state(&self) -> MutexGuard<'_, AttachedEditorsState> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CallObserver for AttachedEditors {
    fn may_follow(&self, conversation: &ConversationId) -> bool {
        let is_supervised = || {
            self.0
                .supervision
                .get()
                .is_some_and(|(by, _)| by.requires_approval(conversation))
        };
        self.find_turn(conversation).is_some()
            || !self.lock_editors_state().threads.is_empty()
            || is_supervised()
    }

    fn observe_call(&self, call: CallView<'_>) -> Option<Arc<dyn ObservedCall>> {
        if let Some(shown) = self.show_call(call) {
            return Some(shown);
        }
        let unattended = self
            .asks_unattended(&call)
            .then(|| UnattendedCall::new(self.clone(), call));
        unattended.map(|call| Arc::new(call) as Arc<dyn ObservedCall>)
    }
}

impl PromptTurn {
    /// Records the conversation of a shown call. A request without a conversation is its own, and has no later calls.
    fn record_conversation(&self, call: &CallView<'_>) {
        if call.conversation.as_str() != call.request.as_str() {
            self.lock_conversations().insert(call.conversation.clone());
        }
    }

    fn lock_conversations(&self) -> MutexGuard<'_, HashSet<ConversationId>> {
        self.conversations
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses writes and commands of these conversations until a person resumes them.
    pub(super) async fn stop_conversations(
        &self,
        conversations: impl IntoIterator<Item = ConversationId> + Send + 'static,
        reason: String,
    ) {
        let Some(supervision) = self.supervision.clone() else {
            return;
        };
        let stopping = tokio::task::spawn_blocking(move || {
            for conversation in conversations {
                if let Err(error) = supervision.stop_conversation(&conversation, &reason) {
                    tracing::error!(%error, %conversation, "a stopped conversation is not held");
                }
            }
        });
        // The task also ends if it is not awaited.
        let _ = stopping.await;
    }
}

impl TurnHandle {
    /// Returns the session of the turn.
    pub fn turn_session(&self) -> &Arc<EditorSession> {
        &self.open.session
    }

    /// Stops the turn for the person. Its conversations write and run nothing more, calls shown in it are told to stop,
    /// and later ones are not shown. If the turn is only dropped, because the editor was closed, its calls go on.
    pub async fn stop_turn(&self) {
        let mut conversations = self.open.lock_conversations().clone();
        conversations.extend(self.open.of.clone());
        let reason = format!("{} stopped the turn", self.open.session.person_phrase());
        self.open.stop_conversations(conversations, reason).await;
        self.open.stop.cancel();
    }

    /// Waits until every call that is shown in it has ended.
    pub async fn wait_for_calls(&self) {
        // `self` holds the sender.
        let _ = self.open.live.subscribe().wait_for(|live| *live == 0).await;
    }
}

impl Drop for TurnHandle {
    fn drop(&mut self) {
        self.open.over.cancel();
        let mut state = self.editors.lock_editors_state();
        state.turns.retain(|turn| !Arc::ptr_eq(turn, &self.open));
        self.editors.0.open.send_replace(state.turns.len());
    }
}
