//! This machine as a client: its files and terminals, and the ACP client methods for an agent at the other end of a
//! connection or a test. Not here: the terminals of such an agent (session_terminals), and the connection
//! (`client_server`).

use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::session_terminals::SessionTerminals;
use crate::client_tools::{ClientTools, ProtocolFuture};
use crate::protocol::{
    self, CreateTerminalRequest, CreateTerminalResponse, Error, Implementation,
    KillTerminalRequest, KillTerminalResponse, PermissionOption, PermissionOptionKind,
    ReadTextFileRequest, ReadTextFileResponse, ReleaseTerminalRequest, ReleaseTerminalResponse,
    RequestPermissionOutcome, RequestPermissionRequest, RequestPermissionResponse,
    SelectedPermissionOutcome, SessionId, SessionNotification, TerminalOutputRequest,
    TerminalOutputResponse, WaitForTerminalExitRequest, WaitForTerminalExitResponse,
    WriteTextFileRequest, WriteTextFileResponse,
};
use crate::tool_catalog::ToolCatalog;
use punie_core::ids::RequestId;
use punie_host::FileClient;
use punie_host::files::{NewContent, WritePrecondition, WriteTextFile};
use punie_host::local::local_files::LocalFiles;
use punie_host::local::local_terminals::LocalTerminals;
use punie_host::{RawPath, Workspace, WorkspacePath};
use punie_tool::{ErrorCode, ToolContext, ToolError};

/// The largest file that is returned whole.
const MAX_WHOLE_FILE_BYTES: u64 = 64 << 20;
/// The error code of a refused operation, outside the ranges that JSON-RPC and ACP reserve.
pub const REFUSED_CODE: i32 = -31_001;

/// The answer to permission requests on this machine, where no person can be asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LocalPolicy {
    /// Rejects the request.
    #[default]
    Deny,
    /// Allows the request once. Only for owners who chose it.
    AllowOnce,
}

/// This machine: its files and its terminals. The ACP methods that it serves stay in the workspace and follow the
/// policy. Clones share all state.
#[derive(Clone)]
pub struct LocalClient {
    pub(crate) files: LocalFiles,
    pub(crate) terminals: LocalTerminals,
    pub(super) workspace: Workspace,
    pub(super) session_terminals: SessionTerminals,
    policy: LocalPolicy,
    agent: Arc<Mutex<Option<Implementation>>>,
}

impl LocalClient {
    /// Creates a client with these terminals that has read no file yet.
    pub fn new(terminals: LocalTerminals, workspace: Workspace, policy: LocalPolicy) -> Self {
        Self {
            files: LocalFiles::new(),
            terminals,
            workspace,
            session_terminals: SessionTerminals::default(),
            policy,
            agent: Arc::default(),
        }
    }

    /// Returns the agent that connected last.
    pub fn connected_agent(&self) -> Option<Implementation> {
        self.agent.lock().clone()
    }

    pub(super) fn resolve_request_path(&self, path: &Path) -> Result<WorkspacePath, Error> {
        let text = path
            .to_str()
            .ok_or_else(|| invalid_request_error("the path is not UTF-8".to_owned()))?;
        self.workspace
            .resolve_inside(&RawPath::from(text))
            .map_err(|fault| to_protocol_error(&fault, path))
    }

    async fn serve_read(
        &self,
        request: ReadTextFileRequest,
    ) -> Result<ReadTextFileResponse, Error> {
        for (name, given) in [("line", request.line), ("limit", request.limit)] {
            if given == Some(0) {
                return Err(invalid_request_error(format!(
                    "{name} is 0; it counts from 1"
                )));
            }
        }
        let path = self.resolve_request_path(&request.path)?;
        let loaded = self
            .files
            .load_file(&detached_context(), path, MAX_WHOLE_FILE_BYTES)
            .await;
        let loaded = loaded.map_err(|fault| to_protocol_error(&fault, &request.path))?;
        let body = loaded
            .bytes
            .get(loaded.encoding.bom_bytes().len()..)
            .unwrap_or_default();
        let (text, lossy) = loaded.encoding.decode_lossy(body);
        if lossy > 0 {
            return Err(invalid_request_error(format!(
                "{} is not text",
                request.path.display()
            )));
        }
        let content = match (request.line, request.limit) {
            (None, None) => text.into_owned(),
            (line, limit) => {
                let skip = line.unwrap_or(1) as usize - 1;
                let take = limit.map_or(usize::MAX, |limit| limit as usize);
                text.split_inclusive('\n').skip(skip).take(take).collect()
            }
        };
        Ok(ReadTextFileResponse::new(content))
    }

    async fn serve_write(
        &self,
        request: WriteTextFileRequest,
    ) -> Result<WriteTextFileResponse, Error> {
        let path = self.resolve_request_path(&request.path)?;
        // The bytes are written exactly as the agent sent them.
        let content = NewContent::Spliced {
            old: Arc::new(request.content.into_bytes()),
            splices: Vec::new(),
        };
        let only_if = WritePrecondition::None;
        let write = WriteTextFile {
            path,
            content,
            only_if,
            create_folders: true,
            executable: None,
        };
        let written = self.files.write_text_file(&detached_context(), write).await;
        written
            .map(|_| WriteTextFileResponse::new())
            .map_err(|fault| to_protocol_error(&fault, &request.path))
    }

    /// Selects an option by its kind, never by its name or position.
    fn select_option(&self, options: &[PermissionOption]) -> RequestPermissionOutcome {
        let wanted = match self.policy {
            LocalPolicy::AllowOnce => PermissionOptionKind::AllowOnce,
            LocalPolicy::Deny => PermissionOptionKind::RejectOnce,
        };
        match options.iter().find(|option| option.kind == wanted) {
            Some(option) => RequestPermissionOutcome::Selected(SelectedPermissionOutcome::new(
                option.option_id.clone(),
            )),
            None => RequestPermissionOutcome::Cancelled,
        }
    }
}

/// Creates the context of a call that is never cancelled.
fn detached_context() -> ToolContext {
    ToolContext::for_detached_call(RequestId::new())
}

pub(super) fn invalid_request_error(text: String) -> Error {
    Error::invalid_params().data(text)
}

/// Converts a failure to a protocol error. It does not reveal anything outside the workspace, not even where a link
/// leads.
pub(super) fn to_protocol_error(fault: &ToolError, asked: &Path) -> Error {
    let asked = asked.display();
    match fault.stable_code() {
        ErrorCode::NotFound => protocol::resource_missing(asked.to_string()),
        ErrorCode::OutsideWorkspace => Error::new(
            REFUSED_CODE,
            format!("{asked} is outside the workspace; use a path inside it"),
        ),
        ErrorCode::PolicyDenied | ErrorCode::PermissionDenied => {
            Error::new(REFUSED_CODE, fault.model_text().to_owned())
        }
        ErrorCode::Cancelled => Error::request_cancelled(),
        ErrorCode::InvalidArgs
        | ErrorCode::IsDirectory
        | ErrorCode::NotText
        | ErrorCode::TooLarge => invalid_request_error(fault.model_text().to_owned()),
        _ => Error::internal_error().data(fault.model_text().to_owned()),
    }
}

impl ClientTools for LocalClient {
    fn read_text_file(
        &self,
        request: ReadTextFileRequest,
    ) -> ProtocolFuture<'_, ReadTextFileResponse> {
        Box::pin(self.serve_read(request))
    }

    fn write_text_file(
        &self,
        request: WriteTextFileRequest,
    ) -> ProtocolFuture<'_, WriteTextFileResponse> {
        Box::pin(self.serve_write(request))
    }

    fn request_permission(
        &self,
        request: RequestPermissionRequest,
    ) -> ProtocolFuture<'_, RequestPermissionResponse> {
        let outcome = self.select_option(&request.options);
        Box::pin(std::future::ready(Ok(RequestPermissionResponse::new(
            outcome,
        ))))
    }

    fn session_update(&self, _update: SessionNotification) -> ProtocolFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn create_terminal(
        &self,
        request: CreateTerminalRequest,
    ) -> ProtocolFuture<'_, CreateTerminalResponse> {
        Box::pin(self.create_session_terminal(request))
    }

    fn terminal_output(
        &self,
        request: TerminalOutputRequest,
    ) -> ProtocolFuture<'_, TerminalOutputResponse> {
        Box::pin(self.session_terminal_output(request))
    }

    fn wait_for_terminal_exit(
        &self,
        request: WaitForTerminalExitRequest,
    ) -> ProtocolFuture<'_, WaitForTerminalExitResponse> {
        Box::pin(self.wait_for_session_terminal(request))
    }

    fn kill_terminal(
        &self,
        request: KillTerminalRequest,
    ) -> ProtocolFuture<'_, KillTerminalResponse> {
        Box::pin(self.kill_session_terminal(request))
    }

    fn release_terminal(
        &self,
        request: ReleaseTerminalRequest,
    ) -> ProtocolFuture<'_, ReleaseTerminalResponse> {
        Box::pin(self.release_session_terminal(request))
    }

    fn discover_tools(&self, _session: SessionId) -> ProtocolFuture<'_, ToolCatalog> {
        Box::pin(std::future::ready(Ok(ToolCatalog::default())))
    }

    fn ext_method(&self, method: String, _params: Value) -> ProtocolFuture<'_, Value> {
        Box::pin(std::future::ready(Err(
            Error::method_not_found().data(json!({ "method": method }))
        )))
    }

    fn ext_notification(&self, _method: String, _params: Value) -> ProtocolFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn on_connect(&self, agent: Implementation) {
        *self.agent.lock() = Some(agent);
    }
}
