//! The client side of ACP as one interface: the methods that the runner, as an agent, may call on the editor.
//! Implemented by a connected editor ([`EditorClient`](crate::EditorClient)), and by a fake in tests.
//!
//! The tools of this device need more than the protocol has (hashes, cursors, stored outputs). That is in
//! [`FileClient`](punie_host::FileClient) and [`TerminalClient`](punie_host::TerminalClient).

use std::future::Future;
use std::pin::Pin;

use serde_json::Value;

use super::protocol::{
    CreateTerminalRequest, CreateTerminalResponse, Error, KillTerminalRequest,
    KillTerminalResponse, ReadTextFileRequest, ReadTextFileResponse, ReleaseTerminalRequest,
    ReleaseTerminalResponse, RequestPermissionRequest, RequestPermissionResponse, SessionId,
    SessionNotification, TerminalOutputRequest, TerminalOutputResponse, WaitForTerminalExitRequest,
    WaitForTerminalExitResponse, WriteTextFileRequest, WriteTextFileResponse,
};
use super::tool_catalog::ToolCatalog;

/// The future of a client method: the protocol's answer, or its error with a code.
pub type ProtocolFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// The client methods of the Agent Client Protocol, version 1, with the discovery of tools.
///
/// A method that a client does not serve answers `method not found` (-32601); over a connection it is not even sent.
/// Dropping an awaited answer tells the other side to cancel the request.
pub trait ClientTools: Send + Sync + 'static {
    /// `fs/read_text_file`: reads a text file, unsaved changes included; `line` counts from 1.
    fn read_text_file(
        &self,
        request: ReadTextFileRequest,
    ) -> ProtocolFuture<'_, ReadTextFileResponse>;

    /// `fs/write_text_file`: replaces or creates a text file.
    fn write_text_file(
        &self,
        request: WriteTextFileRequest,
    ) -> ProtocolFuture<'_, WriteTextFileResponse>;

    /// `session/request_permission`: asks the person whether a tool call may run.
    fn request_permission(
        &self,
        request: RequestPermissionRequest,
    ) -> ProtocolFuture<'_, RequestPermissionResponse>;

    /// `session/update`: shows an update; it has no answer.
    fn session_update(&self, update: SessionNotification) -> ProtocolFuture<'_, ()>;

    /// `terminal/create`: starts a command and returns at once.
    fn create_terminal(
        &self,
        request: CreateTerminalRequest,
    ) -> ProtocolFuture<'_, CreateTerminalResponse>;

    /// `terminal/output`: returns the output so far, the newest part if there is a limit, and the exit status if the
    /// command has ended.
    fn terminal_output(
        &self,
        request: TerminalOutputRequest,
    ) -> ProtocolFuture<'_, TerminalOutputResponse>;

    /// `terminal/wait_for_exit`: waits for the command, never for the end of its pipe.
    fn wait_for_terminal_exit(
        &self,
        request: WaitForTerminalExitRequest,
    ) -> ProtocolFuture<'_, WaitForTerminalExitResponse>;

    /// `terminal/kill`: ends the command; the id stays valid.
    fn kill_terminal(
        &self,
        request: KillTerminalRequest,
    ) -> ProtocolFuture<'_, KillTerminalResponse>;

    /// `terminal/release`: ends the command and forgets the id.
    fn release_terminal(
        &self,
        request: ReleaseTerminalRequest,
    ) -> ProtocolFuture<'_, ReleaseTerminalResponse>;

    /// `_punie/discover_tools`, an extension: lists the tools that the client offers beside the protocol's.
    fn discover_tools(&self, session: SessionId) -> ProtocolFuture<'_, ToolCatalog>;

    /// Sends an extension request; its method name begins with an underscore.
    fn ext_method(&self, method: String, params: Value) -> ProtocolFuture<'_, Value>;
}
