//! The sessions of one connection, and the turns that are open in them. Not here: what is shown in a turn.

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

/// How many sessions one editor may have open.
const MOST_SESSIONS: usize = 256;
/// How long the calls of a turn that was stopped may take to end before the turn is answered all the same.
const LAST_WORDS: Duration = Duration::from_secs(20);

/// The sessions of one connection.
pub(super) struct Seats {
    pub(super) setup: AgentSetup,
    pub(super) tasks: TaskTracker,
    pub(super) backlog: Option<Arc<Backlog>>,
    state: Mutex<State>,
    /// Cancelled when the connection is over.
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
    /// The runner cannot take calls in, for this reason.
    trouble: watch::Receiver<Option<Result<String, String>>>,
    /// The prompt that is under way.
    prompt: Mutex<Option<OpenPrompt>>,
    /// How many of its turns are open: an older one may be ending.
    attached: AtomicUsize,
}

/// A prompt that has not been answered.
#[derive(Clone, Default)]
pub(super) struct OpenPrompt {
    /// Cancelled to end it.
    cancel: CancellationToken,
    /// Cancelled once a stop of it is stored: a turn that begins after it must not be stopped by it.
    stopped: CancellationToken,
    /// Cancelled when its turn has ended.
    ended: CancellationToken,
    /// There is none: the thread was attached when it was loaded.
    is_loaded: bool,
}

/// What becomes of a prompt to attach.
pub(super) enum Begun {
    /// It opens a turn, after this one.
    First(OpenPrompt, Option<OpenPrompt>),
    /// It waits for the end of the turn that was opened when the thread was loaded.
    Joins(OpenPrompt),
    /// A turn is open.
    Busy,
}

impl Seats {
    pub(super) fn new(setup: AgentSetup, tasks: TaskTracker, backlog: Option<Arc<Backlog>>) -> Self {
        Self { setup, tasks, backlog, state: Mutex::default(), gone: CancellationToken::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes who the editor is and what it serves.
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

    /// The editor's name and what it serves, if it may open another session.
    pub(super) fn editor(&self) -> Option<(String, ClientCapabilities)> {
        let state = self.state();
        let has_room = state.seats.len() < MOST_SESSIONS;
        has_room.then(|| (state.editor.clone(), state.capabilities.clone()))
    }

    /// Whether a session of this id is open.
    pub(super) fn is_open(&self, id: &SessionId) -> bool {
        self.state().seats.contains_key(id)
    }

    /// Adds a session that is open.
    pub(super) fn add(&self, seat: &Arc<Seat>) {
        self.state().seats.insert(seat.session.id.clone(), Arc::clone(seat));
    }

    /// Answers a prompt, some time: the turn of `attach` lasts until somebody ends it.
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
        // From here on a cancel finds it, however soon it comes.
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
        // All that is shown comes before the end of the turn.
        tokio::select! {
            _ = tokio::time::timeout(LAST_WORDS, turn.quiet()) => {}
            () = self.gone.cancelled() => {}
        }
        drop(turn);
        reason
    }

    /// Answers a prompt to attach where the session was attached when it was loaded: with the end of that turn.
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

    /// The person stopped the turn.
    pub(super) fn cancel(&self, id: &SessionId) {
        let seat = self.state().seats.get(id).cloned();
        if let Some(seat) = seat
            && let Some(prompt) = &*seat.prompt.lock().unwrap_or_else(PoisonError::into_inner)
        {
            prompt.cancel.cancel();
        }
    }

    /// The connection is over; whether a turn was open.
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
    /// This session, in which no turn is open; the other argument tells when the runner takes calls in, or cannot.
    pub(super) fn new(
        session: Arc<EditorSession>,
        trouble: watch::Receiver<Option<Result<String, String>>>,
    ) -> Self {
        Self { session, trouble, prompt: Mutex::default(), attached: AtomicUsize::new(0) }
    }

    /// Takes the place of the one prompt of a session that waits, unless one waits already.
    pub(super) fn begin(&self, is_loaded: bool) -> Begun {
        let mut prompt = self.prompt.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(standing) = prompt.as_ref().filter(|standing| !standing.cancel.is_cancelled()) {
            return if standing.is_loaded { Begun::Joins(standing.clone()) } else { Begun::Busy };
        }
        let begun = OpenPrompt { is_loaded, ..OpenPrompt::default() };
        let before = prompt.replace(begun.clone());
        Begun::First(begun, before)
    }

    /// What is said when the turn is open.
    fn attached_words(&self, of: Option<&ConversationId>) -> String {
        let whose = of.map_or_else(|| "the backend".to_owned(), |of| format!("conversation {of}"));
        let serves = self.words().unwrap_or_default();
        format!(
            "Attached: tool calls of {whose} are shown here until you stop this turn. What you are asked about here \
             waits for `punie-runner approvals` on the device when no editor is attached.\n\n{}\n",
            serves.trim_end()
        )
    }

    /// Waits until the runner takes calls in, or cannot.
    async fn opened(&self) -> Result<String, String> {
        let mut trouble = self.trouble.clone();
        match trouble.wait_for(Option::is_some).await {
            Ok(opened) => opened.clone().unwrap_or_else(|| Ok(String::new())),
            Err(_) => Err("the session is over".to_owned()),
        }
    }

    /// What came of asking the editor for its own tools.
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
