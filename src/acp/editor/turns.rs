//! Which open turn of which session a call belongs to. A person opens a turn by attaching a session; until it ends,
//! calls are shown in it and the editor may serve them. Not here: how the wire says that (`acp::agent`).

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::session::EditorSession;
use super::shown::ShownCall;
use super::unattended::UnattendedCall;
use crate::acp::Workspace;
use crate::home::Supervision;
use crate::ids::{ConversationId, RequestId};
use crate::tool::{CallView, Effect, ObservedCall, Observer};

/// The sessions that are attached now, and the calls that they are shown.
#[derive(Clone, Default)]
pub struct Editors(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// How many turns are open.
    open: watch::Sender<usize>,
    /// Where paths are, once it is known.
    workspace: OnceLock<Workspace>,
    /// What persons decided about conversations, and the effects that they are asked about; once it is known.
    supervision: OnceLock<(Supervision, Vec<Effect>)>,
}

#[derive(Default)]
struct State {
    turns: Vec<Arc<Open>>,
    /// The sessions that are open, attached or not.
    threads: Vec<Arc<EditorSession>>,
    calls: HashMap<RequestId, Weak<ShownCall>>,
}

/// A turn that is open.
pub(super) struct Open {
    pub(super) session: Arc<EditorSession>,
    /// The one conversation that it is for; all, where none is named.
    of: Option<ConversationId>,
    /// The conversations of the calls that it was shown.
    conversations: Mutex<HashSet<ConversationId>>,
    /// What persons decided about conversations.
    supervision: Option<Supervision>,
    /// Cancelled when it is over: nothing is shown in it any more.
    pub(super) over: CancellationToken,
    /// Cancelled when the person wants its calls to stop.
    pub(super) stop: CancellationToken,
    /// How many of its calls have not ended.
    pub(super) live: watch::Sender<usize>,
}

/// A session that is open. Dropping this closes it.
pub struct OpenThread {
    editors: Editors,
    session: Arc<EditorSession>,
}

impl Drop for OpenThread {
    fn drop(&mut self) {
        self.editors.state().threads.retain(|session| !Arc::ptr_eq(session, &self.session));
    }
}

/// An open turn, as whoever opened it holds it. Dropping it ends it.
pub struct Turn {
    editors: Editors,
    open: Arc<Open>,
}

impl Editors {
    /// What paths in calls mean.
    pub fn work_in(&self, workspace: Workspace) {
        // There is one machine to a set of editors.
        let _ = self.0.workspace.set(workspace);
    }

    /// Where it is stored what persons decided about conversations, and the effects that they are asked about.
    pub fn supervise(&self, supervision: Supervision, ask: Vec<Effect>) {
        // There is one home to a set of editors.
        let _ = self.0.supervision.set((supervision, ask));
    }

    /// Adds a session that is open, until what this returns is dropped.
    pub fn open_thread(&self, session: &Arc<EditorSession>) -> OpenThread {
        self.state().threads.push(Arc::clone(session));
        OpenThread { editors: self.clone(), session: Arc::clone(session) }
    }

    /// The sessions that are open, attached or not.
    pub(super) fn open_sessions(&self) -> Vec<Arc<EditorSession>> {
        self.state().threads.clone()
    }

    /// Opens a turn of this session: for one conversation, or for all. What the person is asked about there is asked
    /// about from now on, with or without an editor.
    pub fn attach(&self, session: Arc<EditorSession>, of: Option<ConversationId>) -> Turn {
        let supervision = self.0.supervision.get().map(|(supervision, _)| supervision.clone());
        if let Some(supervision) = supervision.as_ref().filter(|_| !session.settings.ask.is_empty())
            && let Err(error) = supervision.ask_about(of.as_ref())
        {
            tracing::error!(%error, "calls are asked about only while an editor is attached");
        }
        let open = Arc::new(Open {
            session,
            conversations: Mutex::default(),
            supervision,
            of,
            over: CancellationToken::new(),
            stop: CancellationToken::new(),
            live: watch::Sender::default(),
        });
        let mut state = self.state();
        state.turns.push(Arc::clone(&open));
        self.0.open.send_replace(state.turns.len());
        drop(state);
        Turn { editors: self.clone(), open }
    }

    /// Lets a conversation go on that a person has stopped; every one, where none is named.
    pub fn resume(&self, of: Option<&ConversationId>) {
        let Some((supervision, _)) = self.0.supervision.get() else { return };
        let resumed = match of {
            Some(conversation) => supervision.resume(conversation).map(usize::from),
            None => supervision.resume_all(),
        };
        match resumed {
            Ok(0) => {}
            Ok(conversations) => {
                tracing::info!(conversations, "stopped conversations go on: they are attached again");
            }
            Err(error) => tracing::error!(%error, "a conversation stays stopped"),
        }
    }

    /// The call that is shown for a request, and with it the session that may serve it; none where nobody follows it,
    /// or its turn is over.
    pub fn call(&self, request: &RequestId) -> Option<Arc<ShownCall>> {
        let call = self.state().calls.get(request)?.upgrade()?;
        (!call.is_over()).then_some(call)
    }

    /// How many turns are open, and when that changes.
    pub fn open(&self) -> watch::Receiver<usize> {
        self.0.open.subscribe()
    }

    /// The sessions that have a turn open, the newest last.
    pub fn sessions(&self) -> Vec<Arc<EditorSession>> {
        self.state().turns.iter().map(|turn| Arc::clone(&turn.session)).collect()
    }

    /// The turn for a conversation: one that names it before those for all, the newest before older ones.
    fn turn_for(&self, conversation: &ConversationId) -> Option<Arc<Open>> {
        let state = self.state();
        let open = || state.turns.iter().rev().filter(|turn| !turn.stop.is_cancelled());
        let named = open().find(|turn| turn.of.as_ref() == Some(conversation));
        named.or_else(|| open().find(|turn| turn.of.is_none())).cloned()
    }

    /// Shows a call in the turn that is open for its conversation, if one is.
    pub(super) fn show(&self, call: CallView<'_>) -> Option<Arc<ShownCall>> {
        let turn = self.turn_for(call.conversation)?;
        turn.note_conversation(&call);
        let shown = Arc::new(ShownCall::begin(&turn, call, self.0.workspace.get()));
        let mut state = self.state();
        state.calls.retain(|_, call| call.strong_count() > 0);
        state.calls.insert(call.request.clone(), Arc::downgrade(&shown));
        Some(shown)
    }

    /// Whether a person wants to be asked about a call that no turn shows: a thread is open, or an editor was attached
    /// to its conversation.
    fn asks_unattended(&self, call: &CallView<'_>) -> bool {
        let Some((supervision, ask)) = self.0.supervision.get() else { return false };
        let asked = ask.contains(&call.effect) && !call.tool.only_ends;
        asked && (!self.state().threads.is_empty() || supervision.asks_about(call.conversation))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Editors {
    fn may_follow(&self, conversation: &ConversationId) -> bool {
        let is_supervised = || self.0.supervision.get().is_some_and(|(by, _)| by.asks_about(conversation));
        self.turn_for(conversation).is_some() || !self.state().threads.is_empty() || is_supervised()
    }

    fn observe(&self, call: CallView<'_>) -> Option<Arc<dyn ObservedCall>> {
        if let Some(shown) = self.show(call) {
            return Some(shown);
        }
        let unattended = self.asks_unattended(&call).then(|| UnattendedCall::new(self.clone(), call));
        unattended.map(|call| Arc::new(call) as Arc<dyn ObservedCall>)
    }
}

impl Open {
    /// Records which conversation a shown call belongs to. A request without one is its own, and has no later calls.
    fn note_conversation(&self, call: &CallView<'_>) {
        if call.conversation.as_str() != call.request.as_str() {
            self.conversations().insert(call.conversation.clone());
        }
    }

    fn conversations(&self) -> MutexGuard<'_, HashSet<ConversationId>> {
        self.conversations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses what these conversations would write or run until a person lets them go on.
    pub(super) async fn stop_conversations(
        &self,
        conversations: impl IntoIterator<Item = ConversationId> + Send + 'static,
        reason: String,
    ) {
        let Some(supervision) = self.supervision.clone() else { return };
        let stopping = tokio::task::spawn_blocking(move || {
            for conversation in conversations {
                if let Err(error) = supervision.stop(&conversation, &reason) {
                    tracing::error!(%error, %conversation, "a stopped conversation is not held");
                }
            }
        });
        // It ends by itself.
        let _ = stopping.await;
    }
}

impl Turn {
    /// The session whose turn it is.
    pub fn session(&self) -> &Arc<EditorSession> {
        &self.open.session
    }

    /// The person stops it: its conversations write and run nothing more, the calls that are shown in it are told to
    /// stop, and later ones are not shown. Where it is only dropped, as when the editor was closed, calls go on by
    /// themselves.
    pub async fn stop(&self) {
        let mut conversations = self.open.conversations().clone();
        conversations.extend(self.open.of.clone());
        let reason = format!("{} stopped the turn", self.open.session.person());
        self.open.stop_conversations(conversations, reason).await;
        self.open.stop.cancel();
    }

    /// Waits until every call that is shown in it has ended.
    pub async fn quiet(&self) {
        // The sender lives as long as this.
        let _ = self.open.live.subscribe().wait_for(|live| *live == 0).await;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.open.over.cancel();
        let mut state = self.editors.state();
        state.turns.retain(|turn| !Arc::ptr_eq(turn, &self.open));
        self.editors.0.open.send_replace(state.turns.len());
    }
}
