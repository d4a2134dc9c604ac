//! Opens sessions: new ones, and threads of an earlier connection (`session/load`). A loaded thread shows its calls
//! again and is attached to the same conversation.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;
use tokio::sync::watch;

use super::agent_session::{AgentSession, AttachStart};
use super::prompts::COMMANDS;
use super::sessions::AgentSessions;
use crate::protocol::{
    AvailableCommand, AvailableCommandInput, AvailableCommandsUpdate, Client, ConnectionTo, Error,
    LoadSessionRequest, LoadSessionResponse, NewSessionRequest, NewSessionResponse, Responder,
    SessionId, SessionUpdate, ToolCall, ToolCallId, ToolCallStatus, ToolKind,
    UnstructuredCommandInput, session_not_found,
};
use crate::{EditorClient, EditorSession};
use punie_core::ids::ConversationId;
use punie_home::{StoredThread, ThreadEvent};

/// The setup that remains for a session after the request for it was answered.
struct PendingSetup {
    folder: PathBuf,
    opened: watch::Sender<Option<Result<String, String>>>,
}

impl AgentSessions {
    /// Opens a session. The runner is started, and the editor's tools are discovered, only after the answer, because an
    /// editor may accept nothing before it.
    pub(super) fn open_new(
        self: Arc<Self>,
        request: &NewSessionRequest,
        responder: Responder<NewSessionResponse>,
        connection: ConnectionTo<Client>,
    ) -> Result<(), Error> {
        let id = SessionId::from(format!("punie-{}", uuid::Uuid::new_v4()));
        let folders = (
            request.cwd.as_path(),
            request.additional_directories.as_slice(),
        );
        let (agent_session, opening) = match self.create(id.clone(), folders, connection) {
            Ok(added) => added,
            Err(refused) => return responder.respond_with_error(refused),
        };
        if let Some(threads) = self.setup.host.threads() {
            threads.begin(&id.to_string());
        }
        responder.respond(NewSessionResponse::new(id))?;
        self.start(&agent_session, opening);
        Ok(())
    }

    /// Adds a session with these folders.
    fn create(
        &self,
        id: SessionId,
        (cwd, others): (&Path, &[PathBuf]),
        connection: ConnectionTo<Client>,
    ) -> Result<(Arc<AgentSession>, PendingSetup), Error> {
        let host = &self.setup.host;
        if !cwd.is_absolute() {
            return Err(invalid_params_error("cwd must be an absolute path"));
        }
        let folder = host
            .resolve_folder(cwd)
            .ok_or_else(|| invalid_params_error("cwd is no folder that can be opened"))?;
        let mut roots = vec![folder.clone()];
        roots.extend(others.iter().filter_map(|path| host.resolve_folder(path)));
        let (editor, capabilities) = self
            .editor_for_new()
            .ok_or_else(|| invalid_params_error("too many sessions are open"))?;
        let settings = self.setup.settings.clone();
        let client = EditorClient::new(
            connection,
            capabilities.clone(),
            settings.timeout,
            self.backlog.clone(),
        );
        let session =
            EditorSession::new(id, editor, Arc::new(client), capabilities, roots, settings);
        if let Some(threads) = host.threads() {
            session.set_thread_store(threads);
        }
        let (opened, readiness) = watch::channel(None);
        let agent_session = Arc::new(AgentSession::new(Arc::new(session), readiness));
        self.insert(&agent_session);
        Ok((agent_session, PendingSetup { folder, opened }))
    }

    /// Starts the runner for a session and discovers the editor's tools.
    fn start(self: &Arc<Self>, agent_session: &AgentSession, opening: PendingSetup) {
        let session = Arc::clone(&agent_session.editor_session);
        session.send_update(SessionUpdate::AvailableCommandsUpdate(
            AvailableCommandsUpdate::new(available_commands()),
        ));
        let sessions = Arc::clone(self);
        let thread = self.setup.editors.register_thread(&session);
        let PendingSetup { folder, opened } = opening;
        self.tasks.spawn(async move {
            let _thread = thread;
            if let Err(failure) = sessions.setup.host.start_receiving(&folder).await {
                opened.send_replace(Some(Err(failure)));
                return;
            }
            let (words, _guests) = sessions.setup.host.discover_session_tools(session).await;
            opened.send_replace(Some(Ok(words)));
            sessions.gone.cancelled().await;
        });
    }

    /// Opens a thread of an earlier connection. Its calls are shown before the answer, as the protocol requires.
    pub(super) fn load(
        self: Arc<Self>,
        request: &LoadSessionRequest,
        responder: Responder<LoadSessionResponse>,
        connection: ConnectionTo<Client>,
    ) -> Result<(), Error> {
        let id = &request.session_id;
        let thread = self
            .setup
            .host
            .threads()
            .and_then(|threads| threads.read(&id.to_string()));
        let Some(thread) = thread.filter(|_| !self.has(id)) else {
            return responder.respond_with_error(session_not_found(id));
        };
        let folders = (
            request.cwd.as_path(),
            request.additional_directories.as_slice(),
        );
        let (agent_session, opening) = match self.create(id.clone(), folders, connection) {
            Ok(added) => added,
            Err(refused) => return responder.respond_with_error(refused),
        };
        let StoredThread { attached, calls } = thread;
        for update in calls.into_iter().filter_map(replay_call) {
            agent_session.editor_session.send_update(update);
        }
        responder.respond(LoadSessionResponse::new())?;
        self.start(&agent_session, opening);
        if let Some(attachment) = attached {
            let sessions = Arc::clone(&self);
            self.tasks.spawn(async move {
                sessions
                    .reattach(&agent_session, attachment.conversation_id)
                    .await;
            });
        }
        Ok(())
    }

    /// Attaches a loaded thread without a prompt. Conversations that a person stopped stay stopped until that person
    /// says `attach`.
    async fn reattach(&self, agent_session: &AgentSession, of: Option<ConversationId>) {
        if let AttachStart::NewTurn(prompt, _) = agent_session.begin_attach(true) {
            self.run_attached_turn(agent_session, of, prompt, std::future::pending())
                .await;
        }
    }
}

/// Converts a stored call into the update that shows how it ended.
fn replay_call(event: ThreadEvent) -> Option<SessionUpdate> {
    let ThreadEvent::Call {
        request_id,
        title,
        kind,
        ok,
    } = event
    else {
        return None;
    };
    let status = if ok {
        ToolCallStatus::Completed
    } else {
        ToolCallStatus::Failed
    };
    let kind: ToolKind = serde_json::from_value(kind.into()).unwrap_or_default();
    let call = ToolCall::new(ToolCallId::from(request_id.to_string()), title)
        .kind(kind)
        .status(status);
    Some(SessionUpdate::ToolCall(call))
}

fn invalid_params_error(why: &str) -> Error {
    Error::invalid_params().data(json!(why))
}

fn available_commands() -> Vec<AvailableCommand> {
    let command = |(name, about, input): &(&str, &str, Option<&str>)| {
        let command = AvailableCommand::new(*name, *about);
        match input {
            Some(hint) => command.input(AvailableCommandInput::Unstructured(
                UnstructuredCommandInput::new(*hint),
            )),
            None => command,
        }
    };
    COMMANDS.iter().map(command).collect()
}
