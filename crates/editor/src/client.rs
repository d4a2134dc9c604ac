//! A connected editor as a client. Each method is sent over the connection, if the editor said that it serves it.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};

use super::tool_catalog::ToolCatalog;
use crate::agent::UpdateBacklog;
use crate::client_tools::{ClientTools, ProtocolFuture};
use crate::protocol::{
    Client, ClientCapabilities, ConnectionTo, CreateTerminalRequest, CreateTerminalResponse, Error,
    JsonRpcRequest, KillTerminalRequest, KillTerminalResponse, ReadTextFileRequest,
    ReadTextFileResponse, ReleaseTerminalRequest, ReleaseTerminalResponse,
    RequestPermissionRequest, RequestPermissionResponse, SessionId, SessionNotification,
    SessionUpdate, TerminalOutputRequest, TerminalOutputResponse, UntypedMessage,
    WaitForTerminalExitRequest, WaitForTerminalExitResponse, WriteTextFileRequest,
    WriteTextFileResponse,
};
use punie_tool::time_limit::run_within_limit;

/// The extension method by which a client lists the tools that it offers.
const DISCOVER: &str = "_punie/discover_tools";
/// The error code of an answer that did not come in time; outside the ranges that JSON-RPC and ACP reserve.
pub const NO_ANSWER_ERROR: i32 = -31_002;

/// An editor at the other end of a connection.
pub struct EditorClient {
    connection: ConnectionTo<Client>,
    capabilities: ClientCapabilities,
    timeout: Duration,
    backlog: Option<Arc<UpdateBacklog>>,
}

impl EditorClient {
    /// Creates the client of a connection. `timeout` limits each answer, except those that wait for a person or a
    /// command.
    pub fn new(
        connection: ConnectionTo<Client>,
        capabilities: ClientCapabilities,
        timeout: Duration,
        backlog: Option<Arc<UpdateBacklog>>,
    ) -> Self {
        Self {
            connection,
            capabilities,
            timeout,
            backlog,
        }
    }

    /// Sends a request when its future is first polled. Fails at once if the editor does not serve the method.
    fn send_request<R>(
        &self,
        serves: bool,
        method: &'static str,
        timeout: Option<Duration>,
        request: R,
    ) -> ProtocolFuture<'_, R::Response>
    where
        R: JsonRpcRequest + Send + 'static,
        R::Response: Send,
    {
        Box::pin(async move {
            if !serves {
                return Err(Error::method_not_found().data(json!(method)));
            }
            let answer = self.connection.send_request(request).block_task();
            let Some(timeout) = timeout else {
                return answer.await;
            };
            let answered = run_within_limit(timeout, answer).await;
            answered.unwrap_or_else(|| Err(unanswered_method_error(method, timeout)))
        })
    }
}

fn unanswered_method_error(method: &'static str, timeout: Duration) -> Error {
    let text = format!("{method} was not answered within {} s", timeout.as_secs());
    Error::new(NO_ANSWER_ERROR, text)
}

impl ClientTools for EditorClient {
    fn read_text_file(
        &self,
        request: ReadTextFileRequest,
    ) -> ProtocolFuture<'_, ReadTextFileResponse> {
        self.send_request(
            self.capabilities.fs.read_text_file,
            "fs/read_text_file",
            Some(self.timeout),
            request,
        )
    }

    fn write_text_file(
        &self,
        request: WriteTextFileRequest,
    ) -> ProtocolFuture<'_, WriteTextFileResponse> {
        self.send_request(
            self.capabilities.fs.write_text_file,
            "fs/write_text_file",
            Some(self.timeout),
            request,
        )
    }

    fn request_permission(
        &self,
        request: RequestPermissionRequest,
    ) -> ProtocolFuture<'_, RequestPermissionResponse> {
        self.send_request(true, "session/request_permission", None, request)
    }

    fn session_update(&self, update: SessionNotification) -> ProtocolFuture<'_, ()> {
        let is_needed = match &update.update {
            SessionUpdate::ToolCallUpdate(update) => update.fields.status.is_some(),
            _ => true,
        };
        let sent = match &self.backlog {
            Some(backlog) if !backlog.try_admit(is_needed) => Ok(()),
            _ => self.connection.send_notification(update),
        };
        Box::pin(std::future::ready(sent))
    }

    fn create_terminal(
        &self,
        request: CreateTerminalRequest,
    ) -> ProtocolFuture<'_, CreateTerminalResponse> {
        // The caller limits the wait and keeps listening, because a terminal that comes too late must be released.
        self.send_request(self.capabilities.terminal, "terminal/create", None, request)
    }

    fn terminal_output(
        &self,
        request: TerminalOutputRequest,
    ) -> ProtocolFuture<'_, TerminalOutputResponse> {
        self.send_request(
            self.capabilities.terminal,
            "terminal/output",
            Some(self.timeout),
            request,
        )
    }

    fn wait_for_terminal_exit(
        &self,
        request: WaitForTerminalExitRequest,
    ) -> ProtocolFuture<'_, WaitForTerminalExitResponse> {
        self.send_request(
            self.capabilities.terminal,
            "terminal/wait_for_exit",
            None,
            request,
        )
    }

    fn kill_terminal(
        &self,
        request: KillTerminalRequest,
    ) -> ProtocolFuture<'_, KillTerminalResponse> {
        self.send_request(
            self.capabilities.terminal,
            "terminal/kill",
            Some(self.timeout),
            request,
        )
    }

    fn release_terminal(
        &self,
        request: ReleaseTerminalRequest,
    ) -> ProtocolFuture<'_, ReleaseTerminalResponse> {
        self.send_request(
            self.capabilities.terminal,
            "terminal/release",
            Some(self.timeout),
            request,
        )
    }

    fn discover_tools(&self, session: SessionId) -> ProtocolFuture<'_, ToolCatalog> {
        let asked = self.ext_method(DISCOVER.to_owned(), json!({ "sessionId": session }));
        Box::pin(async move {
            let answer = asked.await?;
            Ok(ToolCatalog::parse(&answer))
        })
    }

    fn ext_method(&self, method: String, params: Value) -> ProtocolFuture<'_, Value> {
        let connection = self.connection.clone();
        Box::pin(async move {
            let message = UntypedMessage::new(&method, params)?;
            connection.send_request(message).block_task().await
        })
    }
}
