//! The sessions of one connection and their open turns. Not here: the display of calls in a turn.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::prompts::{HELP, PromptCommand};
use super::{AgentSetup, UpdateBacklog};
use crate::acp::editor::EditorSession;
use crate::acp::protocol::{
    ClientCapabilities, ContentBlock, Error, InitializeRequest, PromptRequest, PromptResponse,
    Responder, SessionId, StopReason,
};
use crate::home::{ThreadAttachment, ThreadEvent};
use crate::ids::ConversationId;

/// The most sessions that one editor may have open.
const MAX_AGENT_SESSIONS: usize = 256;
/// The time that the calls of a stopped turn have to end before the turn is answered anyway.
const ENDING_TIMEOUT: Duration = Duration::from_secs(20);

/// The sessions of one connection.
pub(super) struct AgentSessions {
    pub(super) setup: AgentSetup,
    pub(super) tasks: TaskTracker,
    pub(super) backlog: Option<Arc<UpdateBacklog>>,
    state: Mutex<AgentConnectionState>,
    /// Cancelled when the connection is closed.
    pub(super) gone: CancellationToken,
}

#[derive(Default)]
struct AgentConnectionState {
    editor: String,
    capabilities: ClientCapabilities,
    sessions: HashMap<SessionId, Arc<AgentSession>>,
}

/// One session.
pub(super) struct AgentSession {
    pub(super) session: Arc<EditorSession>,
    /// Set once the runner takes calls (a summary of the tools) or cannot (the reason).
    readiness: watch::Receiver<Option<Result<String, String>>>,
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
pub(super) enum AttachStart {
    /// It opens a turn, after the earlier prompt has ended.
    NewTurn(OpenPrompt, Option<OpenPrompt>),
    /// It waits for the end of the turn that was opened when the thread was loaded.
    JoinLoaded(OpenPrompt),
    /// Another turn is open.
    Busy,
}

impl AgentSessions {
    pub(super) fn new(
        setup: AgentSetup,
        tasks: TaskTracker,
        backlog: Option<Arc<UpdateBacklog>>,
    ) -> Self {
        Self {
            setup,
            tasks,
            backlog,
            state: Mutex::default(),
            gone: CancellationToken::new(),
        }
    }

    /// Stores the editor's name and capabilities.
    pub(super) fn record_editor(&self, request: InitializeRequest) {
        let name = request.client_info.map(|info| {
            let name = info.title.unwrap_or(info.name);
            if info.version.is_empty() {
                name
            } else {
                format!("{name} {}", info.version)
            }
        });
        let name: String = name
            .unwrap_or_default()
            .chars()
            .filter(|c| !c.is_control())
            .take(80)
            .collect();
        let capabilities = request.client_capabilities;
        tracing::info!(
            editor = name,
            reads = capabilities.fs.read_text_file,
            writes = capabilities.fs.write_text_file,
            terminals = capabilities.terminal,
            "an editor is connected"
        );
        let mut state = self.state.lock();
        state.editor = if name.is_empty() {
            "the editor".to_owned()
        } else {
            name
        };
        state.capabilities = capabilities;
    }

    /// Returns the editor's name and capabilities, if it may open another session.
    pub(super) fn editor_for_new_session(&self) -> Option<(String, ClientCapabilities)> {
        let state = self.state.lock();
        let has_room = state.sessions.len() < MAX_AGENT_SESSIONS;
        has_room.then(|| (state.editor.clone(), state.capabilities.clone()))
    }

    /// Returns whether a session of this id is open.
    pub(super) fn has_session(&self, id: &SessionId) -> bool {
        self.state.lock().sessions.contains_key(id)
    }

    /// Adds an open session.
    pub(super) fn insert_session(&self, seat: &Arc<AgentSession>) {
        self.state
            .lock()
            .sessions
            .insert(seat.session.id.clone(), Arc::clone(seat));
    }

    /// Answers a prompt in a task: the turn of `attach` lasts until the person, the editor or the runner ends it.
    pub(super) fn handle_prompt(
        self: Arc<Self>,
        request: &PromptRequest,
        responder: Responder<PromptResponse>,
    ) -> Result<(), Error> {
        let Some(seat) = self.state.lock().sessions.get(&request.session_id).cloned() else {
            let unknown = crate::acp::protocol::session_not_found(&request.session_id);
            return responder.respond_with_error(unknown);
        };
        let words: Vec<&str> = request.prompt.iter().filter_map(prompt_text).collect();
        let ask = PromptCommand::parse_prompt(&words.join(" "));
        let seats = Arc::clone(&self);
        // Registered before the task starts, so that a cancel that comes at once finds it.
        let begun = matches!(ask, PromptCommand::Attach(_)).then(|| seat.begin_attach(false));
        self.tasks.spawn(async move {
            let reason = match ask {
                PromptCommand::Attach(of) => match begun {
                    Some(AttachStart::NewTurn(prompt, before)) => {
                        if let Some(before) = before {
                            before.stopped.cancelled().await;
                        }
                        let withdrawn = responder.cancellation();
                        seats
                            .run_attached_turn(&seat, of, prompt, async move {
                                withdrawn.cancelled().await
                            })
                            .await
                    }
                    Some(AttachStart::JoinLoaded(prompt)) => {
                        seats.join_loaded_turn(&seat, of.as_ref(), &prompt).await
                    }
                    Some(AttachStart::Busy) | None => {
                        seat.session.send_message(
                            "This session is attached already; its turn is still open.",
                        );
                        StopReason::EndTurn
                    }
                },
                PromptCommand::Status => {
                    let state = seats.describe_status(&seat).await;
                    seat.session.send_message(&state);
                    StopReason::EndTurn
                }
                PromptCommand::Revoke => {
                    let taken = seat.session.revoke_permissions();
                    seat.session.send_message(&format!(
                        "{taken} permissions of this session were taken back."
                    ));
                    StopReason::EndTurn
                }
                PromptCommand::Help => {
                    seat.session.send_message(HELP);
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
    pub(super) async fn run_attached_turn(
        &self,
        seat: &AgentSession,
        of: Option<ConversationId>,
        prompt: OpenPrompt,
        withdrawn: impl Future<Output = ()>,
    ) -> StopReason {
        let OpenPrompt {
            cancel,
            stopped,
            ended,
            is_loaded,
        } = prompt;
        let (_over, stopped, _ended) = (
            cancel.clone().drop_guard(),
            stopped.drop_guard(),
            ended.drop_guard(),
        );
        let opened = tokio::select! {
            opened = seat.wait_until_ready() => opened,
            () = cancel.cancelled() => return StopReason::Cancelled,
            () = self.gone.cancelled() => return StopReason::Cancelled,
        };
        if let Err(trouble) = opened {
            seat.session
                .send_message(&format!("No calls come in: {trouble}"));
            return StopReason::EndTurn;
        }
        let turn = self
            .setup
            .editors
            .open_turn(Arc::clone(&seat.session), of.clone());
        if !is_loaded {
            self.setup.editors.resume_conversations(of.as_ref());
        }
        seat.session
            .record_event(&ThreadEvent::Attached(ThreadAttachment {
                conversation_id: of.clone(),
            }));
        let _attached = AttachedTurnGuard::for_session(seat);
        seat.session
            .send_message(&seat.attached_message(of.as_ref()));
        let reason = tokio::select! {
            () = cancel.cancelled() => StopReason::Cancelled,
            () = withdrawn => StopReason::Cancelled,
            () = self.setup.stopping.cancelled() => {
                seat.session.send_message("The runner stops.");
                StopReason::EndTurn
            }
            () = self.gone.cancelled() => return StopReason::Cancelled,
        };
        if reason == StopReason::Cancelled {
            seat.session.record_event(&ThreadEvent::Stopped);
            turn.stop_turn().await;
        }
        drop(stopped);
        // All updates of the turn must be sent before its end.
        tokio::select! {
            _ = tokio::time::timeout(ENDING_TIMEOUT, turn.wait_for_calls()) => {}
            () = self.gone.cancelled() => {}
        }
        drop(turn);
        reason
    }

    /// Answers a prompt to attach in a session that was attached when it was loaded. The answer comes at the end of
    /// that turn.
    async fn join_loaded_turn(
        &self,
        seat: &AgentSession,
        of: Option<&ConversationId>,
        loaded: &OpenPrompt,
    ) -> StopReason {
        self.setup.editors.resume_conversations(of);
        seat.session.send_message(
            "Attached, as this thread was before; calls are shown here until you stop this turn.",
        );
        loaded.ended.cancelled().await;
        StopReason::Cancelled
    }

    async fn describe_status(&self, seat: &AgentSession) -> String {
        let opened = match seat.wait_until_ready().await {
            Ok(words) => words,
            Err(trouble) => return format!("No calls come in: {trouble}"),
        };
        let runner = self.setup.host.describe_runner().await;
        let attached = if seat.attached.load(Ordering::Relaxed) > 0 {
            "yes"
        } else {
            "no"
        };
        format!(
            "{runner}\n- attached: {attached}\n\n{}\n",
            opened.trim_end()
        )
    }

    /// Ends the turn of this session because the person stopped it.
    pub(super) fn cancel_prompt(&self, id: &SessionId) {
        let seat = self.state.lock().sessions.get(id).cloned();
        if let Some(seat) = seat
            && let Some(prompt) = &*seat.prompt.lock()
        {
            prompt.cancel.cancel();
        }
    }

    /// Ends all turns because the connection closed. Returns whether a turn was open.
    pub(super) fn close_connection(&self) -> bool {
        let attached = |seat: &Arc<AgentSession>| seat.attached.load(Ordering::Relaxed) > 0;
        let was_attached = self.state.lock().sessions.values().any(attached);
        self.gone.cancel();
        was_attached
    }
}

/// Counts a turn of a session while it is held.
struct AttachedTurnGuard<'a>(&'a AgentSession);

impl<'a> AttachedTurnGuard<'a> {
    fn for_session(seat: &'a AgentSession) -> Self {
        seat.attached.fetch_add(1, Ordering::Relaxed);
        Self(seat)
    }
}

impl Drop for AttachedTurnGuard<'_> {
    fn drop(&mut self) {
        self.0.attached.fetch_sub(1, Ordering::Relaxed);
    }
}

impl AgentSession {
    /// Creates a session without an open turn. `trouble` is set once the runner takes calls, or cannot.
    pub(super) fn new(
        session: Arc<EditorSession>,
        readiness: watch::Receiver<Option<Result<String, String>>>,
    ) -> Self {
        Self {
            session,
            readiness,
            prompt: Mutex::default(),
            attached: AtomicUsize::new(0),
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

    /// Builds the message that is shown when the turn is open.
    fn attached_message(&self, of: Option<&ConversationId>) -> String {
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
    async fn wait_until_ready(&self) -> Result<String, String> {
        let mut trouble = self.readiness.clone();
        match trouble.wait_for(Option::is_some).await {
            Ok(opened) => opened.clone().unwrap_or_else(|| Ok(String::new())),
            Err(_) => Err("the session is over".to_owned()),
        }
    }

    /// Returns the summary of the editor's own tools, once they were discovered.
    fn tool_summary(&self) -> Option<String> {
        self.readiness.borrow().as_ref()?.as_ref().ok().cloned()
    }
}

fn prompt_text(block: &ContentBlock) -> Option<&str> {
    match block {
        ContentBlock::Text(text) => Some(&text.text),
        _ => None,
    }
}
