//! The sessions of one connection and their open turns. Not here: the display of calls in a turn.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::prompts::{Ask, HELP};
use super::{AgentSetup, Backlog};
use crate::acp::editor::EditorSession;
use crate::acp::protocol::{
    ClientCapabilities, ContentBlock, Error, InitializeRequest, PromptRequest, PromptResponse, Responder,
    SessionId, StopReason,
};
use crate::home::{Attachment, ThreadEvent};
use crate::ids::ConversationId;

/// The most sessions that one editor may have open.
const MOST_SESSIONS: usize = 256;
/// The time that the calls of a stopped turn have to end before the turn is answered anyway.
const LAST_WORDS: Duration = Duration::from_secs(20);

/// The sessions of one connection.
pub(super) struct Seats {
    pub(super) setup: AgentSetup,
    pub(super) tasks: TaskTracker,
    pub(super) backlog: Option<Arc<Backlog>>,
    state: Mutex<State>,
    /// Cancelled when the connection is closed.
    pub(super) gone: CancellationToken,
}

#[derive(Default)]
struct State {
    editor: String,
    capabilities: ClientCapabilities,
    seats: HashMap<SessionId, Arc<Seat>>,
}

/// One session.
pub(super) struct Seat {
    pub(super) session: Arc<EditorSession>,
    /// Set once the runner takes calls (a summary of the tools) or cannot (the reason).
    trouble: watch::Receiver<Option<Result<String, String>>>,
    /// The prompt that is open.
    prompt: Mutex<Option<OpenPrompt>>,
    /// The number of its open turns. It may be two, because an older turn may still be ending.
    attached: AtomicUsize,
}

/// A prompt that has not been answered.
#[derive(Clone, Default)]
pub(super) struct OpenPrompt {
    /// Cancelled to end the prompt.
    cancel: CancellationToken,
    /// Cancelled once its stop is stored, so that the stop does not affect a turn that begins later.
    stopped: CancellationToken,
    /// Cancelled when its turn has ended.
    ended: CancellationToken,
    /// The turn has no prompt: the thread was attached when it was loaded.
    is_loaded: bool,
}

/// The result of a prompt to attach.
pub(super) enum Begun {
    /// It opens a turn, after the earlier prompt has ended.
    First(OpenPrompt, Option<OpenPrompt>),
    /// It waits for the end of the turn that was opened when the thread was loaded.
    Joins(OpenPrompt),
    /// Another turn is open.
    Busy,
}

impl Seats {
    pub(super) fn new(setup: AgentSetup, tasks: TaskTracker, backlog: Option<Arc<Backlog>>) -> Self {
        Self { setup, tasks, backlog, state: Mutex::default(), gone: CancellationToken::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the editor's name and capabilities.
    pub(super) fn introduce(&self, request: InitializeRequest) {
        let name = request.client_info.map(|info| {
            let name = info.title.unwrap_or(info.name);
            if info.version.is_empty() { name } else { format!("{name} {}", info.version) }
        });
        let name: String = name.unwrap_or_default().chars().filter(|c| !c.is_control()).take(80).collect();
        let capabilities = request.client_capabilities;
        tracing::info!(
            editor = name,
            reads = capabilities.fs.read_text_file,
            writes = capabilities.fs.write_text_file,
            terminals = capabilities.terminal,
            "an editor is connected"
        );
        let mut state = self.state();
        state.editor = if name.is_empty() { "the editor".to_owned() } else { name };
        state.capabilities = capabilities;
    }

    /// Returns the editor's name and capabilities, if it may open another session.
    pub(super) fn editor(&self) -> Option<(String, ClientCapabilities)> {
        let state = self.state();
        let has_room = state.seats.len() < MOST_SESSIONS;
        has_room.then(|| (state.editor.clone(), state.capabilities.clone()))
    }

    /// Returns whether a session of this id is open.
    pub(super) fn is_open(&self, id: &SessionId) -> bool {
        self.state().seats.contains_key(id)
    }

    /// Adds an open session.
    pub(super) fn add(&self, seat: &Arc<Seat>) {
        self.state().seats.insert(seat.session.id.clone(), Arc::clone(seat));
    }

    /// Answers a prompt in a task: the turn of `attach` lasts until the person, the editor or the runner ends it.
    pub(super) fn prompt(
        self: Arc<Self>,
        request: &PromptRequest,
        responder: Responder<PromptResponse>,
    ) -> Result<(), Error> {
        let Some(seat) = self.state().seats.get(&request.session_id).cloned() else {
            let unknown = crate::acp::protocol::session_not_found(&request.session_id);
            return responder.respond_with_error(unknown);
        };
        let words: Vec<&str> = request.prompt.iter().filter_map(text_of).collect();
        let ask = Ask::read(&words.join(" "));
        let seats = Arc::clone(&self);
        // Registered before the task starts, so that a cancel that comes at once finds it.
        let begun = matches!(ask, Ask::Attach(_)).then(|| seat.begin(false));
        self.tasks.spawn(async move {
            let reason = match ask {
                Ask::Attach(of) => match begun {
                    Some(Begun::First(prompt, before)) => {
                        if let Some(before) = before {
                            before.stopped.cancelled().await;
                        }
                        let withdrawn = responder.cancellation();
                        seats.attach(&seat, of, prompt, async move { withdrawn.cancelled().await }).await
                    }
                    Some(Begun::Joins(prompt)) => seats.join_turn(&seat, of.as_ref(), &prompt).await,
                    Some(Begun::Busy) | None => {
                        seat.session.say("This session is attached already; its turn is still open.");
                        StopReason::EndTurn
                    }
                },
                Ask::Status => {
                    let state = seats.status(&seat).await;
                    seat.session.say(&state);
                    StopReason::EndTurn
                }
                Ask::Revoke => {
                    let taken = seat.session.revoke();
                    seat.session.say(&format!("{taken} permissions of this session were taken back."));
                    StopReason::EndTurn
                }
                Ask::Help => {
                    seat.session.say(HELP);
                    StopReason::EndTurn
                }
            };
            if let Err(error) = responder.respond(PromptResponse::new(reason)) {
                tracing::debug!(%error, "the editor does not hear that its turn is over");
            }
        });
        Ok(())
    }

    /// Keeps a turn open until the person, the editor or the runner ends it.
    pub(super) async fn attach(
        &self,
        seat: &Seat,
        of: Option<ConversationId>,
        prompt: OpenPrompt,
        withdrawn: impl Future<Output = ()>,
    ) -> StopReason {
        let OpenPrompt { cancel, stopped, ended, is_loaded } = prompt;
        let (_over, stopped, _ended) =
            (cancel.clone().drop_guard(), stopped.drop_guard(), ended.drop_guard());
        let opened = tokio::select! {
            opened = seat.opened() => opened,
            () = cancel.cancelled() => return StopReason::Cancelled,
            () = self.gone.cancelled() => return StopReason::Cancelled,
        };
        if let Err(trouble) = opened {
            seat.session.say(&format!("No calls come in: {trouble}"));
            return StopReason::EndTurn;
        }
        let turn = self.setup.editors.attach(Arc::clone(&seat.session), of.clone());
        if !is_loaded {
            self.setup.editors.resume(of.as_ref());
        }
        seat.session.record(&ThreadEvent::Attached(Attachment { conversation_id: of.clone() }));
        let _attached = Attached::to(seat);
        seat.session.say(&seat.attached_words(of.as_ref()));
        let reason = tokio::select! {
            () = cancel.cancelled() => StopReason::Cancelled,
            () = withdrawn => StopReason::Cancelled,
            () = self.setup.stopping.cancelled() => {
                seat.session.say("The runner stops.");
                StopReason::EndTurn
            }
            () = self.gone.cancelled() => return StopReason::Cancelled,
        };
        if reason == StopReason::Cancelled {
            seat.session.record(&ThreadEvent::Stopped);
            turn.stop().await;
        }
        drop(stopped);
        // All updates of the turn must be sent before its end.
        tokio::select! {
            _ = tokio::time::timeout(LAST_WORDS, turn.quiet()) => {}
            () = self.gone.cancelled() => {}
        }
        drop(turn);
        reason
    }

    /// Answers a prompt to attach in a session that was attached when it was loaded. The answer comes at the end of
    /// that turn.
    async fn join_turn(&self, seat: &Seat, of: Option<&ConversationId>, loaded: &OpenPrompt) -> StopReason {
        self.setup.editors.resume(of);
        seat.session
            .say("Attached, as this thread was before; calls are shown here until you stop this turn.");
        loaded.ended.cancelled().await;
        StopReason::Cancelled
    }

    async fn status(&self, seat: &Seat) -> String {
        let opened = match seat.opened().await {
            Ok(words) => words,
            Err(trouble) => return format!("No calls come in: {trouble}"),
        };
        let runner = self.setup.host.status().await;
        let attached = if seat.attached.load(Ordering::Relaxed) > 0 { "yes" } else { "no" };
        format!("{runner}\n- attached: {attached}\n\n{}\n", opened.trim_end())
    }

    /// Ends the turn of this session because the person stopped it.
    pub(super) fn cancel(&self, id: &SessionId) {
        let seat = self.state().seats.get(id).cloned();
        if let Some(seat) = seat
            && let Some(prompt) = &*seat.prompt.lock().unwrap_or_else(PoisonError::into_inner)
        {
            prompt.cancel.cancel();
        }
    }

    /// Ends all turns because the connection closed. Returns whether a turn was open.
    pub(super) fn leave(&self) -> bool {
        let attached = |seat: &Arc<Seat>| seat.attached.load(Ordering::Relaxed) > 0;
        let was_attached = self.state().seats.values().any(attached);
        self.gone.cancel();
        was_attached
    }
}

/// Counts a turn of a session while it is held.
struct Attached<'a>(&'a Seat);

impl<'a> Attached<'a> {
    fn to(seat: &'a Seat) -> Self {
        seat.attached.fetch_add(1, Ordering::Relaxed);
        Self(seat)
    }
}

impl Drop for Attached<'_> {
    fn drop(&mut self) {
        self.0.attached.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Seat {
    /// Creates a session without an open turn. `trouble` is set once the runner takes calls, or cannot.
    pub(super) fn new(
        session: Arc<EditorSession>,
        trouble: watch::Receiver<Option<Result<String, String>>>,
    ) -> Self {
        Self { session, trouble, prompt: Mutex::default(), attached: AtomicUsize::new(0) }
    }

    /// Registers a prompt to attach, unless the session has one already.
    pub(super) fn begin(&self, is_loaded: bool) -> Begun {
        let mut prompt = self.prompt.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(standing) = prompt.as_ref().filter(|standing| !standing.cancel.is_cancelled()) {
            return if standing.is_loaded { Begun::Joins(standing.clone()) } else { Begun::Busy };
        }
        let begun = OpenPrompt { is_loaded, ..OpenPrompt::default() };
        let before = prompt.replace(begun.clone());
        Begun::First(begun, before)
    }

    /// Builds the message that is shown when the turn is open.
    fn attached_words(&self, of: Option<&ConversationId>) -> String {
        let whose = of.map_or_else(|| "the backend".to_owned(), |of| format!("conversation {of}"));
        let serves = self.words().unwrap_or_default();
        format!(
            "Attached: tool calls of {whose} are shown here until you stop this turn. What you are asked about here \
             waits for `punie-runner approvals` on the device when no editor is attached.\n\n{}\n",
            serves.trim_end()
        )
    }

    /// Waits until the runner takes calls, or cannot.
    async fn opened(&self) -> Result<String, String> {
        let mut trouble = self.trouble.clone();
        match trouble.wait_for(Option::is_some).await {
            Ok(opened) => opened.clone().unwrap_or_else(|| Ok(String::new())),
            Err(_) => Err("the session is over".to_owned()),
        }
    }

    /// Returns the summary of the editor's own tools, once they were discovered.
    fn words(&self) -> Option<String> {
        self.trouble.borrow().as_ref()?.as_ref().ok().cloned()
    }
}

fn text_of(block: &ContentBlock) -> Option<&str> {
    match block {
        ContentBlock::Text(text) => Some(&text.text),
        _ => None,
    }
}
