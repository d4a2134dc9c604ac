//! The sessions that are attached now, their open turns, and the calls that they show. A person opens a turn by
//! attaching a session. Until it ends, calls are shown in it and the editor may serve them.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;
use tokio::sync::watch;

use super::prompt_turn::PromptTurn;
use super::session::EditorSession;
use super::tool_call_view::ShownCall;
use punie_core::ids::{ConversationId, RequestId};
use punie_home::SupervisionStore;
use punie_host::Workspace;
use punie_tool::{CallView, ToolEffect};

/// The sessions that are attached now, and the calls that they show.
#[derive(Clone, Default)]
pub struct AttachedEditors(Arc<AttachedEditorsShared>);

#[derive(Default)]
struct AttachedEditorsShared {
    state: Mutex<AttachedEditorsState>,
    /// The number of open turns.
    open_turns: watch::Sender<usize>,
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

/// An open session. Dropping this closes it.
pub struct OpenThread {
    editors: AttachedEditors,
    session: Arc<EditorSession>,
}

impl Drop for OpenThread {
    fn drop(&mut self) {
        let mut state = self.editors.0.state.lock();
        state
            .threads
            .retain(|session| !Arc::ptr_eq(session, &self.session));
    }
}

/// The owner's handle of an open turn. Dropping it ends the turn.
pub struct TurnHandle {
    editors: AttachedEditors,
    turn: Arc<PromptTurn>,
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

    /// Returns the store of persons' decisions and the effects that are asked about, once known.
    pub(super) fn supervision(&self) -> Option<&(SupervisionStore, Vec<ToolEffect>)> {
        self.0.supervision.get()
    }

    /// Adds an open session, until the returned value is dropped.
    pub fn register_thread(&self, session: &Arc<EditorSession>) -> OpenThread {
        self.0.state.lock().threads.push(Arc::clone(session));
        OpenThread {
            editors: self.clone(),
            session: Arc::clone(session),
        }
    }

    pub(super) fn has_open_session(&self) -> bool {
        !self.0.state.lock().threads.is_empty()
    }

    pub(super) fn open_sessions(&self) -> Vec<Arc<EditorSession>> {
        self.0.state.lock().threads.clone()
    }

    /// Opens a turn of this session, for one conversation or for all. From now on the person is asked about its calls,
    /// with or without an editor.
    pub fn open_turn(&self, session: Arc<EditorSession>, of: Option<ConversationId>) -> TurnHandle {
        let supervision = self
            .supervision()
            .map(|(supervision, _)| supervision.clone());
        if !session.settings.ask.is_empty()
            && let Some(supervision) = &supervision
            && let Err(error) = supervision.start_asking(of.as_ref())
        {
            tracing::error!(%error, "calls are asked about only while an editor is attached");
        }
        let turn = Arc::new(PromptTurn::new(session, of, supervision));
        let mut state = self.0.state.lock();
        state.turns.push(Arc::clone(&turn));
        self.0.open_turns.send_replace(state.turns.len());
        drop(state);
        TurnHandle {
            editors: self.clone(),
            turn,
        }
    }

    /// Resumes a conversation that a person stopped; every one if none is named.
    pub fn resume_conversations(&self, of: Option<&ConversationId>) {
        let Some((supervision, _)) = self.supervision() else {
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
        let call = self.0.state.lock().calls.get(request)?.upgrade()?;
        (!call.is_over()).then_some(call)
    }

    /// Returns a receiver of the number of open turns.
    pub fn subscribe_open_turns(&self) -> watch::Receiver<usize> {
        self.0.open_turns.subscribe()
    }

    /// Finds the turn for a conversation: one that names it before those for all, newer ones before older ones.
    pub(super) fn find_turn(&self, conversation: &ConversationId) -> Option<Arc<PromptTurn>> {
        let state = self.0.state.lock();
        let find = |name: Option<&ConversationId>| {
            let mut newest_first = state.turns.iter().rev();
            newest_first
                .find(|turn| !turn.stop.is_cancelled() && turn.named_conversation() == name)
                .cloned()
        };
        find(Some(conversation)).or_else(|| find(None))
    }

    /// Shows a call in the open turn of its conversation, if there is one.
    pub(super) fn show_call(&self, call: CallView<'_>) -> Option<Arc<ShownCall>> {
        let turn = self.find_turn(call.conversation)?;
        turn.record_conversation(&call);
        let shown = Arc::new(ShownCall::show_pending(&turn, call, self.0.workspace.get()));
        let mut state = self.0.state.lock();
        state.calls.retain(|_, call| call.strong_count() > 0);
        state
            .calls
            .insert(call.request.clone(), Arc::downgrade(&shown));
        Some(shown)
    }
}

impl TurnHandle {
    /// Stops the turn for the person. Its conversations write and run nothing more, calls shown in it are told to stop,
    /// and later ones are not shown. If the turn is only dropped, because the editor was closed, its calls go on.
    pub async fn stop(&self) {
        self.turn.stop_by_person().await;
    }

    /// Waits until every call that is shown in it has ended.
    pub async fn wait_for_calls(&self) {
        let mut live_calls = self.turn.live_calls.subscribe();
        // `self` holds the sender.
        let _ = live_calls.wait_for(|live| *live == 0).await;
    }
}

impl Drop for TurnHandle {
    fn drop(&mut self) {
        self.turn.over.cancel();
        let mut state = self.editors.0.state.lock();
        state.turns.retain(|turn| !Arc::ptr_eq(turn, &self.turn));
        self.editors.0.open_turns.send_replace(state.turns.len());
    }
}
