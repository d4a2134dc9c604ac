//! One session of a connection: its open prompt, its open turns, and whether the runner takes calls for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::EditorSession;
use punie_core::ids::ConversationId;

pub(super) struct AgentSession {
    pub(super) editor_session: Arc<EditorSession>,
    /// Set once the runner takes calls (a summary of the tools) or cannot (the reason).
    readiness: watch::Receiver<Option<Result<String, String>>>,
    prompt: Mutex<Option<OpenPrompt>>,
    /// The number of its open turns. It may be two, because an older turn may still be ending.
    open_turns: AtomicUsize,
}

/// A prompt that has not been answered.
#[derive(Clone, Default)]
pub(super) struct OpenPrompt {
    /// Cancelled to end the prompt.
    pub(super) cancel: CancellationToken,
    /// Cancelled once its stop is stored, so that the stop does not affect a turn that begins later.
    pub(super) stopped: CancellationToken,
    /// Cancelled when its turn has ended.
    pub(super) ended: CancellationToken,
    /// The turn has no prompt: the thread was attached when it was loaded.
    pub(super) is_loaded: bool,
}

/// The result of a prompt to attach.
pub(super) enum AttachStart {
    /// It opens a turn, after the earlier prompt has ended.
    NewTurn(OpenPrompt, Option<OpenPrompt>),
    /// It waits for the end of the turn that was opened when the thread was loaded.
    JoinLoaded(OpenPrompt),
    /// Another turn is open.
    Busy,
}

/// Counts a turn of a session while it is held.
pub(super) struct AttachedTurnGuard<'a>(&'a AgentSession);

impl<'a> AttachedTurnGuard<'a> {
    pub(super) fn for_session(session: &'a AgentSession) -> Self {
        session.open_turns.fetch_add(1, Ordering::Relaxed);
        Self(session)
    }
}

impl Drop for AttachedTurnGuard<'_> {
    fn drop(&mut self) {
        self.0.open_turns.fetch_sub(1, Ordering::Relaxed);
    }
}

impl AgentSession {
    /// Creates a session without an open turn. `readiness` is set once the runner takes calls, or cannot.
    pub(super) fn new(
        editor_session: Arc<EditorSession>,
        readiness: watch::Receiver<Option<Result<String, String>>>,
    ) -> Self {
        Self {
            editor_session,
            readiness,
            prompt: Mutex::default(),
            open_turns: AtomicUsize::new(0),
        }
    }

    /// Registers a prompt to attach, unless the session has one already.
    pub(super) fn begin_attach(&self, is_loaded: bool) -> AttachStart {
        let mut prompt = self.prompt.lock();
        if let Some(standing) = prompt
            .as_ref()
            .filter(|standing| !standing.cancel.is_cancelled())
        {
            return if standing.is_loaded {
                AttachStart::JoinLoaded(standing.clone())
            } else {
                AttachStart::Busy
            };
        }
        let begun = OpenPrompt {
            is_loaded,
            ..OpenPrompt::default()
        };
        let before = prompt.replace(begun.clone());
        AttachStart::NewTurn(begun, before)
    }

    /// Returns whether the session has an open turn.
    pub(super) fn is_attached(&self) -> bool {
        self.open_turns.load(Ordering::Relaxed) > 0
    }

    /// Cancels the open prompt, if there is one.
    pub(super) fn cancel_open_prompt(&self) {
        if let Some(prompt) = &*self.prompt.lock() {
            prompt.cancel.cancel();
        }
    }

    /// Builds the message that is shown when the turn is open.
    pub(super) fn attached_message(&self, of: Option<&ConversationId>) -> String {
        let whose = of.map_or_else(
            || "the backend".to_owned(),
            |of| format!("conversation {of}"),
        );
        let serves = self.tool_summary().unwrap_or_default();
        format!(
            "Attached: tool calls of {whose} are shown here until you stop this turn. What you are asked about here \
             waits for `punie-runner approvals` on the device when no editor is attached.\n\n{}\n",
            serves.trim_end()
        )
    }

    /// Waits until the runner takes calls, or cannot.
    pub(super) async fn wait_until_ready(&self) -> Result<String, String> {
        let mut readiness = self.readiness.clone();
        match readiness.wait_for(Option::is_some).await {
            Ok(opened) => opened.clone().unwrap_or_else(|| Ok(String::new())),
            Err(_) => Err("the session is over".to_owned()),
        }
    }

    /// Returns the summary of the editor's own tools, once they were discovered.
    fn tool_summary(&self) -> Option<String> {
        self.readiness.borrow().as_ref()?.as_ref().ok().cloned()
    }
}
