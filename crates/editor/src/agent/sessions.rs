//! The sessions of one connection and their open turns.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::agent_session::{AgentSession, AttachStart, AttachedTurnGuard, OpenPrompt};
use super::prompts::{HELP, PromptCommand};
use super::{AgentSetup, UpdateBacklog};
use crate::protocol::{
    ClientCapabilities, ContentBlock, Error, InitializeRequest, PromptRequest, PromptResponse,
    Responder, SessionId, StopReason,
};
use punie_core::ids::ConversationId;
use punie_home::{ThreadAttachment, ThreadEvent};

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
    pub(super) fn editor_for_new(&self) -> Option<(String, ClientCapabilities)> {
        let state = self.state.lock();
        let has_room = state.sessions.len() < MAX_AGENT_SESSIONS;
        has_room.then(|| (state.editor.clone(), state.capabilities.clone()))
    }

    /// Returns whether a session of this id is open.
    pub(super) fn has(&self, id: &SessionId) -> bool {
        self.state.lock().sessions.contains_key(id)
    }

    /// Adds an open session.
    pub(super) fn insert(&self, session: &Arc<AgentSession>) {
        self.state
            .lock()
            .sessions
            .insert(session.editor_session.id.clone(), Arc::clone(session));
    }

    /// Answers a prompt in a task: the turn of `attach` lasts until the person, the editor or the runner ends it.
    pub(super) fn handle_prompt(
        self: Arc<Self>,
        request: &PromptRequest,
        responder: Responder<PromptResponse>,
    ) -> Result<(), Error> {
        let session = self.state.lock().sessions.get(&request.session_id).cloned();
        let Some(session) = session else {
            let unknown = crate::protocol::session_not_found(&request.session_id);
            return responder.respond_with_error(unknown);
        };
        let words: Vec<&str> = request.prompt.iter().filter_map(prompt_text).collect();
        let command = PromptCommand::parse(&words.join(" "));
        let sessions = Arc::clone(&self);
        // Registered before the task starts, so that a cancel that comes at once finds it.
        let begun =
            matches!(command, PromptCommand::Attach(_)).then(|| session.begin_attach(false));
        self.tasks.spawn(async move {
            let reason = match (command, begun) {
                (PromptCommand::Attach(of), Some(start)) => {
                    let withdrawn = responder.cancellation();
                    sessions
                        .attach(&session, of, start, async move {
                            withdrawn.cancelled().await;
                        })
                        .await
                }
                (command, _) => {
                    let text = sessions.answer_command(&session, &command).await;
                    session.editor_session.send_message(&text);
                    StopReason::EndTurn
                }
            };
            if let Err(error) = responder.respond(PromptResponse::new(reason)) {
                tracing::debug!(%error, "the editor does not hear that its turn is over");
            }
        });
        Ok(())
    }

    /// Answers a prompt that opens no turn.
    async fn answer_command(&self, session: &AgentSession, command: &PromptCommand) -> String {
        match command {
            PromptCommand::Status => self.describe_status(session).await,
            PromptCommand::Revoke => format!(
                "{} permissions of this session were taken back.",
                session.editor_session.revoke_permissions()
            ),
            _ => HELP.to_owned(),
        }
    }

    /// Attaches a session, and waits for the end of the turn.
    async fn attach(
        &self,
        session: &AgentSession,
        of: Option<ConversationId>,
        start: AttachStart,
        withdrawn: impl Future<Output = ()>,
    ) -> StopReason {
        match start {
            AttachStart::NewTurn(prompt, before) => {
                if let Some(before) = before {
                    before.stopped.cancelled().await;
                }
                self.run_attached_turn(session, of, prompt, withdrawn).await
            }
            AttachStart::JoinLoaded(prompt) => {
                self.join_loaded_turn(session, of.as_ref(), &prompt).await
            }
            AttachStart::Busy => {
                session
                    .editor_session
                    .send_message("This session is attached already; its turn is still open.");
                StopReason::EndTurn
            }
        }
    }

    /// Keeps a turn open until the person, the editor or the runner ends it.
    pub(super) async fn run_attached_turn(
        &self,
        session: &AgentSession,
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
        let _over = cancel.clone().drop_guard();
        let stopped = stopped.drop_guard();
        let _ended = ended.drop_guard();
        let opened = tokio::select! {
            opened = session.wait_until_ready() => opened,
            () = cancel.cancelled() => return StopReason::Cancelled,
            () = self.gone.cancelled() => return StopReason::Cancelled,
        };
        if let Err(failure) = opened {
            session
                .editor_session
                .send_message(&format!("No calls come in: {failure}"));
            return StopReason::EndTurn;
        }
        let turn = self
            .setup
            .editors
            .open_turn(Arc::clone(&session.editor_session), of.clone());
        if !is_loaded {
            self.setup.editors.resume_conversations(of.as_ref());
        }
        session
            .editor_session
            .record_event(&ThreadEvent::Attached(ThreadAttachment {
                conversation_id: of.clone(),
            }));
        let _attached = AttachedTurnGuard::for_session(session);
        session
            .editor_session
            .send_message(&session.attached_message(of.as_ref()));
        let reason = tokio::select! {
            () = cancel.cancelled() => StopReason::Cancelled,
            () = withdrawn => StopReason::Cancelled,
            () = self.setup.stopping.cancelled() => {
                session.editor_session.send_message("The runner stops.");
                StopReason::EndTurn
            }
            () = self.gone.cancelled() => return StopReason::Cancelled,
        };
        if reason == StopReason::Cancelled {
            session.editor_session.record_event(&ThreadEvent::Stopped);
            turn.stop().await;
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
        session: &AgentSession,
        of: Option<&ConversationId>,
        loaded: &OpenPrompt,
    ) -> StopReason {
        self.setup.editors.resume_conversations(of);
        session.editor_session.send_message(
            "Attached, as this thread was before; calls are shown here until you stop this turn.",
        );
        loaded.ended.cancelled().await;
        StopReason::Cancelled
    }

    async fn describe_status(&self, session: &AgentSession) -> String {
        let opened = match session.wait_until_ready().await {
            Ok(words) => words,
            Err(failure) => return format!("No calls come in: {failure}"),
        };
        let runner = self.setup.host.describe_runner().await;
        let attached = if session.is_attached() { "yes" } else { "no" };
        format!(
            "{runner}\n- attached: {attached}\n\n{}\n",
            opened.trim_end()
        )
    }

    /// Ends the turn of this session because the person stopped it.
    pub(super) fn cancel_prompt(&self, id: &SessionId) {
        let session = self.state.lock().sessions.get(id).cloned();
        if let Some(session) = session {
            session.cancel_open_prompt();
        }
    }

    /// Ends all turns because the connection closed. Returns whether a turn was open.
    pub(super) fn close_connection(&self) -> bool {
        let was_attached = {
            let state = self.state.lock();
            state.sessions.values().any(|session| session.is_attached())
        };
        self.gone.cancel();
        was_attached
    }
}

fn prompt_text(block: &ContentBlock) -> Option<&str> {
    match block {
        ContentBlock::Text(text) => Some(&text.text),
        _ => None,
    }
}
