//! Opens sessions: new ones, and threads of an earlier connection (`session/load`). A loaded thread shows its calls
//! again and is attached to the same conversation. Not here: the storage of threads (home).

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;
use tokio::sync::watch;

use super::prompts::COMMANDS;
use super::seats::{Begun, Seat, Seats};
use crate::acp::editor::{EditorClient, EditorSession};
use crate::acp::protocol::{
    AvailableCommand, AvailableCommandInput, AvailableCommandsUpdate, Client, ConnectionTo, Error,
    LoadSessionRequest, LoadSessionResponse, NewSessionRequest, NewSessionResponse, Responder, SessionId,
    SessionUpdate, ToolCall, ToolCallId, ToolCallStatus, ToolKind, UnstructuredCommandInput,
    session_not_found,
};
use crate::home::{Thread, ThreadEvent};
use crate::ids::ConversationId;

/// The setup that remains for a session after the request for it was answered.
struct Opening {
    folder: PathBuf,
    opened: watch::Sender<Option<Result<String, String>>>,
}

impl Seats {
    /// Opens a session. The runner is started, and the editor's tools are discovered, only after the answer, because an
    /// editor may accept nothing before it.
    pub(super) fn open(
        self: Arc<Self>,
        request: &NewSessionRequest,
        responder: Responder<NewSessionResponse>,
        connection: ConnectionTo<Client>,
    ) -> Result<(), Error> {
        let id = SessionId::from(format!("punie-{}", uuid::Uuid::new_v4()));
        let folders = (request.cwd.as_path(), request.additional_directories.as_slice());
        let (seat, opening) = match self.add_seat(id.clone(), folders, connection) {
            Ok(added) => added,
            Err(refused) => return responder.respond_with_error(refused),
        };
        if let Some(threads) = self.setup.host.threads() {
            threads.begin(&id.to_string());
        }
        responder.respond(NewSessionResponse::new(id))?;
        self.open_seat(&seat, opening);
        Ok(())
    }

    /// Adds a session with these folders.
    fn add_seat(
        &self,
        id: SessionId,
        (cwd, others): (&Path, &[PathBuf]),
        connection: ConnectionTo<Client>,
    ) -> Result<(Arc<Seat>, Opening), Error> {
        let host = &self.setup.host;
        if !cwd.is_absolute() {
            return Err(refused("cwd must be an absolute path"));
        }
        let folder = host.folder(cwd).ok_or_else(|| refused("cwd is no folder that can be opened"))?;
        let mut roots = vec![folder.clone()];
        roots.extend(others.iter().filter_map(|path| host.folder(path)));
        let (editor, capabilities) = self.editor().ok_or_else(|| refused("too many sessions are open"))?;
        let settings = self.setup.settings.clone();
        let client =
            EditorClient::new(connection, capabilities.clone(), settings.timeout, self.backlog.clone());
        let session = EditorSession::new(id, editor, Arc::new(client), capabilities, roots, settings);
        if let Some(threads) = host.threads() {
            session.record_in(threads);
        }
        let (opened, trouble) = watch::channel(None);
        let seat = Arc::new(Seat::new(Arc::new(session), trouble));
        self.add(&seat);
        Ok((seat, Opening { folder, opened }))
    }

    /// Starts the runner for a session and discovers the editor's tools.
    fn open_seat(self: &Arc<Self>, seat: &Seat, opening: Opening) {
        let session = Arc::clone(&seat.session);
        session.update(SessionUpdate::AvailableCommandsUpdate(AvailableCommandsUpdate::new(commands())));
        let (seats, thread) = (Arc::clone(self), self.setup.editors.open_thread(&session));
        let Opening { folder, opened } = opening;
        self.tasks.spawn(async move {
            let _thread = thread;
            if let Err(trouble) = seats.setup.host.open(&folder).await {
                opened.send_replace(Some(Err(trouble)));
                return;
            }
            let (words, _guests) = seats.setup.host.welcome(session).await;
            opened.send_replace(Some(Ok(words)));
            seats.gone.cancelled().await;
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
        let thread = self.setup.host.threads().and_then(|threads| threads.read(&id.to_string()));
        let Some(thread) = thread.filter(|_| !self.is_open(id)) else {
            return responder.respond_with_error(session_not_found(id));
        };
        let folders = (request.cwd.as_path(), request.additional_directories.as_slice());
        let (seat, opening) = match self.add_seat(id.clone(), folders, connection) {
            Ok(added) => added,
            Err(refused) => return responder.respond_with_error(refused),
        };
        let Thread { attached, calls } = thread;
        for update in calls.into_iter().filter_map(earlier_call) {
            seat.session.update(update);
        }
        responder.respond(LoadSessionResponse::new())?;
        self.open_seat(&seat, opening);
        if let Some(attachment) = attached {
            let seats = Arc::clone(&self);
            self.tasks.spawn(async move { seats.attach_again(&seat, attachment.conversation_id).await });
        }
        Ok(())
    }

    /// Attaches a loaded thread without a prompt. Conversations that a person stopped stay stopped until that person
    /// says `attach`.
    async fn attach_again(&self, seat: &Seat, of: Option<ConversationId>) {
        if let Begun::First(prompt, _) = seat.begin(true) {
            self.attach(seat, of, prompt, std::future::pending()).await;
        }
    }
}

/// Converts a stored call into the update that shows how it ended.
fn earlier_call(event: ThreadEvent) -> Option<SessionUpdate> {
    let ThreadEvent::Call { request_id, title, kind, ok } = event else { return None };
    let status = if ok { ToolCallStatus::Completed } else { ToolCallStatus::Failed };
    let kind: ToolKind = serde_json::from_value(kind.into()).unwrap_or_default();
    let call = ToolCall::new(ToolCallId::from(request_id.to_string()), title).kind(kind).status(status);
    Some(SessionUpdate::ToolCall(call))
}

fn refused(why: &str) -> Error {
    Error::invalid_params().data(json!(why))
}

fn commands() -> Vec<AvailableCommand> {
    let command = |(name, about, input): &(&str, &str, Option<&str>)| {
        let command = AvailableCommand::new(*name, *about);
        match input {
            Some(hint) => {
                command.input(AvailableCommandInput::Unstructured(UnstructuredCommandInput::new(*hint)))
            }
            None => command,
        }
    };
    COMMANDS.iter().map(command).collect()
}
