//! A connected editor as a client. Each method is sent over the connection, if the editor said that it serves it. Not
//! here: the choice of the calls that an editor serves (session, turns).

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::discovery::ToolCatalog;
use crate::acp::agent::Backlog;
use crate::acp::client_tools::{ClientTools, Served};
use crate::acp::protocol::{
    Client, ClientCapabilities, ConnectionTo, CreateTerminalRequest, CreateTerminalResponse, Error,
    Implementation, KillTerminalRequest, KillTerminalResponse, ReadTextFileRequest, ReadTextFileResponse,
    ReleaseTerminalRequest, ReleaseTerminalResponse, RequestPermissionRequest, RequestPermissionResponse,
    SessionId, SessionNotification, SessionUpdate, TerminalOutputRequest, TerminalOutputResponse,
    UntypedMessage, WaitForTerminalExitRequest, WaitForTerminalExitResponse, WriteTextFileRequest,
    WriteTextFileResponse,
};

/// The extension method by which a client lists the tools that it offers.
const DISCOVER: &str = "_punie/discover_tools";
/// The error code of an answer that did not come in time; outside the ranges that JSON-RPC and ACP reserve.
pub const NO_ANSWER: i32 = -31_002;

/// An editor at the other end of a connection.
pub struct EditorClient {
    connection: ConnectionTo<Client>,
    capabilities: ClientCapabilities,
    timeout: Duration,
    backlog: Option<Arc<Backlog>>,
}

impl EditorClient {
    /// Creates the client of a connection. `timeout` limits each answer, except those that wait for a person or a
    /// command.
    pub fn new(
        connection: ConnectionTo<Client>,
        capabilities: ClientCapabilities,
        timeout: Duration,
        backlog: Option<Arc<Backlog>>,
    ) -> Self {
        Self { connection, capabilities, timeout, backlog }
    }

    /// Sends a request that must be answered within the time limit. Fails at once if the editor does not serve the
    /// method.
    fn soon<'a, T>(
        &self,
        serves: bool,
        method: &'static str,
        call: impl Future<Output = Result<T, Error>> + Send + 'a,
    ) -> Served<'a, T> {
        let timeout = self.timeout;
        Box::pin(async move {
            if !serves {
                return Err(not_served(method));
            }
            let answered = tokio::time::timeout(timeout, call).await;
            answered.unwrap_or_else(|_| Err(unanswered(method, timeout)))
        })
    }

    fn late<'a, T>(
        serves: bool,
        method: &'static str,
        call: impl Future<Output = Result<T, Error>> + Send + 'a,
    ) -> Served<'a, T> {
        Box::pin(async move { if serves { call.await } else { Err(not_served(method)) } })
    }

    fn has_terminals(&self) -> bool {
        self.capabilities.terminal
    }

    /// Builds a request that is sent when it is first polled.
    fn request<R>(&self, request: R) -> impl Future<Output = Result<R::Response, Error>> + Send + 'static
    where
        R: agent_client_protocol::JsonRpcRequest + Send + 'static,
        R::Response: Send,
    {
        let connection = self.connection.clone();
        async move { connection.send_request(request).block_task().await }
    }
}

fn not_served(method: &'static str) -> Error {
    Error::method_not_found().data(json!(method))
}

fn unanswered(method: &'static str, timeout: Duration) -> Error {
    let text = format!("{method} was not answered within {} s", timeout.as_secs());
    Error::new(NO_ANSWER, text)
}

impl ClientTools for EditorClient {
    fn read_text_file(&self, request: ReadTextFileRequest) -> Served<'_, ReadTextFileResponse> {
        self.soon(self.capabilities.fs.read_text_file, "fs/read_text_file", self.request(request))
    }

    fn write_text_file(&self, request: WriteTextFileRequest) -> Served<'_, WriteTextFileResponse> {
        self.soon(self.capabilities.fs.write_text_file, "fs/write_text_file", self.request(request))
    }

    fn request_permission(&self, request: RequestPermissionRequest) -> Served<'_, RequestPermissionResponse> {
        Self::late(true, "session/request_permission", self.request(request))
    }

    fn session_update(&self, update: SessionNotification) -> Served<'_, ()> {
        let is_needed = match &update.update {
            SessionUpdate::ToolCallUpdate(update) => update.fields.status.is_some(),
            _ => true,
        };
        let sent = match &self.backlog {
            Some(backlog) if !backlog.takes(is_needed) => Ok(()),
            _ => self.connection.send_notification(update),
        };
        Box::pin(std::future::ready(sent))
    }

    fn create_terminal(&self, request: CreateTerminalRequest) -> Served<'_, CreateTerminalResponse> {
        // The caller limits the wait and keeps listening, because a terminal that comes too late must be released.
        Self::late(self.has_terminals(), "terminal/create", self.request(request))
    }

    fn terminal_output(&self, request: TerminalOutputRequest) -> Served<'_, TerminalOutputResponse> {
        self.soon(self.has_terminals(), "terminal/output", self.request(request))
    }

    fn wait_for_terminal_exit(
        &self,
        request: WaitForTerminalExitRequest,
    ) -> Served<'_, WaitForTerminalExitResponse> {
        Self::late(self.has_terminals(), "terminal/wait_for_exit", self.request(request))
    }

    fn kill_terminal(&self, request: KillTerminalRequest) -> Served<'_, KillTerminalResponse> {
        self.soon(self.has_terminals(), "terminal/kill", self.request(request))
    }

    fn release_terminal(&self, request: ReleaseTerminalRequest) -> Served<'_, ReleaseTerminalResponse> {
        self.soon(self.has_terminals(), "terminal/release", self.request(request))
    }

    fn discover_tools(&self, session: SessionId) -> Served<'_, ToolCatalog> {
        let asked = self.ext_method(DISCOVER.to_owned(), json!({ "sessionId": session }));
        Box::pin(async move {
            let answer = asked.await?;
            Ok(ToolCatalog::read(&answer))
        })
    }

    fn ext_method(&self, method: String, params: Value) -> Served<'_, Value> {
        let connection = self.connection.clone();
        Box::pin(async move {
            let message = UntypedMessage::new(&method, params)?;
            connection.send_request(message).block_task().await
        })
    }

    fn ext_notification(&self, method: String, params: Value) -> Served<'_, ()> {
        let sent = UntypedMessage::new(&method, params)
            .and_then(|message| self.connection.send_notification(message));
        Box::pin(std::future::ready(sent))
    }

    fn on_connect(&self, _agent: Implementation) {}
}
