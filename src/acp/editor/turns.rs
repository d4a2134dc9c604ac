//! The open turns of sessions, and the calls that belong to them. A person opens a turn by attaching a session. Until
//! it ends, calls are shown in it and the editor may serve them. Not here: the protocol (`acp::agent`).

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

/// The sessions that are attached now, and the calls that they show.
#[derive(Clone, Default)]
pub struct Editors(Arc<Shared>);

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    /// The number of open turns.
    open: watch::Sender<usize>,
    /// The workspace, once it is known.
    workspace: OnceLock<Workspace>,
    /// The store of persons' decisions about conversations, and the effects that are asked about; once known.
    supervision: OnceLock<(Supervision, Vec<Effect>)>,
}

#[derive(Default)]
struct State {
    turns: Vec<Arc<Open>>,
    /// The open sessions, attached or not.
    threads: Vec<Arc<EditorSession>>,
    calls: HashMap<RequestId, Weak<ShownCall>>,
}

/// An open turn.
pub(super) struct Open {
    pub(super) session: Arc<EditorSession>,
    /// The conversation that the turn is for; `None` for all.
    of: Option<ConversationId>,
    /// The conversations of the calls that were shown in it.
    conversations: Mutex<HashSet<ConversationId>>,
    /// The store of persons' decisions about conversations.
    supervision: Option<Supervision>,
    /// Cancelled when the turn ends; nothing is shown in it afterwards.
    pub(super) over: CancellationToken,
    /// Cancelled when the person stops the turn's calls.
    pub(super) stop: CancellationToken,
    /// The number of its calls that have not ended.
    pub(super) live: watch::Sender<usize>,
}

/// An open session. Dropping this closes it.
pub struct OpenThread {
    editors: Editors,
    session: Arc<EditorSession>,
}

impl Drop for OpenThread {
    fn drop(&mut self) {
        self.editors.state().threads.retain(|session| !Arc::ptr_eq(session, &self.session));
    }
}

/// The owner's handle of an open turn. Dropping it ends the turn.
pub struct Turn {
    editors: Editors,
    open: Arc<Open>,
}

impl Editors {
    /// Sets the workspace that paths in calls refer to.
    pub fn work_in(&self, workspace: Workspace) {
        // A set of editors has one workspace.
        let _ = self.0.workspace.set(workspace);
    }

    /// Sets the store of persons' decisions about conversations, and the effects that are asked about.
    pub fn supervise(&self, supervision: Supervision, ask: Vec<Effect>) {
        // A set of editors has one home.
        let _ = self.0.supervision.set((supervision, ask));
    }

    /// Adds an open session, until the returned value is dropped.
    pub fn open_thread(&self, session: &Arc<EditorSession>) -> OpenThread {
        self.state().threads.push(Arc::clone(session));
        OpenThread { editors: self.clone(), session: Arc::clone(session) }
    }

    /// Returns the open sessions, attached or not.
    pub(super) fn open_sessions(&self) -> Vec<Arc<EditorSession>> {
        self.state().threads.clone()
    }

    /// Opens a turn of this session, for one conversation or for all. From now on the person is asked about its calls,
    /// with or without an editor.
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

    /// Resumes a conversation that a person stopped; every one if none is named.
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

    /// Returns the shown call of a request, whose session may serve it; `None` if no open turn shows it.
    pub fn call(&self, request: &RequestId) -> Option<Arc<ShownCall>> {
        let call = self.state().calls.get(request)?.upgrade()?;
        (!call.is_over()).then_some(call)
    }

    /// Returns a receiver of the number of open turns.
    pub fn open(&self) -> watch::Receiver<usize> {
        self.0.open.subscribe()
    }

    /// Returns the sessions that have an open turn, the newest last.
    pub fn sessions(&self) -> Vec<Arc<EditorSession>> {
        self.state().turns.iter().map(|turn| Arc::clone(&turn.session)).collect()
    }

    /// Finds the turn for a conversation: one that names it before those for all, newer ones before older ones.
    fn turn_for(&self, conversation: &ConversationId) -> Option<Arc<Open>> {
        let state = self.state();
        let open = || state.turns.iter().rev().filter(|turn| !turn.stop.is_cancelled());
        let named = open().find(|turn| turn.of.as_ref() == Some(conversation));
        named.or_else(|| open().find(|turn| turn.of.is_none())).cloned()
    }

    /// Shows a call in the open turn of its conversation, if there is one.
    pub(super) fn show(&self, call: CallView<'_>) -> Option<Arc<ShownCall>> {
        let turn = self.turn_for(call.conversation)?;
        turn.note_conversation(&call);
        let shown = Arc::new(ShownCall::begin(&turn, call, self.0.workspace.get()));
        let mut state = self.state();
        state.calls.retain(|_, call| call.strong_count() > 0);
        state.calls.insert(call.request.clone(), Arc::downgrade(&shown));
        Some(shown)
    }

    /// Returns whether a person must be asked about a call that no turn shows. That is so if a thread is open or an
    /// editor was attached to its conversation.
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
    /// Records the conversation of a shown call. A request without a conversation is its own, and has no later calls.
    fn note_conversation(&self, call: &CallView<'_>) {
        if call.conversation.as_str() != call.request.as_str() {
            self.conversations().insert(call.conversation.clone());
        }
    }

    fn conversations(&self) -> MutexGuard<'_, HashSet<ConversationId>> {
        self.conversations.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses writes and commands of these conversations until a person resumes them.
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
        // The task also ends if it is not awaited.
        let _ = stopping.await;
    }
}

impl Turn {
    /// Returns the session of the turn.
    pub fn session(&self) -> &Arc<EditorSession> {
        &self.open.session
    }

    /// Stops the turn for the person. Its conversations write and run nothing more, calls shown in it are told to stop,
    /// and later ones are not shown. If the turn is only dropped, because the editor was closed, its calls go on.
    pub async fn stop(&self) {
        let mut conversations = self.open.conversations().clone();
        conversations.extend(self.open.of.clone());
        let reason = format!("{} stopped the turn", self.open.session.person());
        self.open.stop_conversations(conversations, reason).await;
        self.open.stop.cancel();
    }

    /// Waits until every call that is shown in it has ended.
    pub async fn quiet(&self) {
        // `self` holds the sender.
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
