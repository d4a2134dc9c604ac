//! Serves this machine's terminals to agents over ACP. A terminal belongs to the session that created it, stays valid
//! until it is released, and keeps the end of its output.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;

use super::local_client_tools::{LocalClient, to_protocol_error};
use crate::protocol::{
    self, CreateTerminalRequest, CreateTerminalResponse, Error, KillTerminalRequest,
    KillTerminalResponse, ReleaseTerminalRequest, ReleaseTerminalResponse, SessionId,
    TerminalExitStatus, TerminalId as WireId, TerminalOutputRequest, TerminalOutputResponse,
    WaitForTerminalExitRequest, WaitForTerminalExitResponse,
};
use punie_core::ids::RequestId;
use punie_host::local::variable_names::is_runner_setting;
use punie_host::terminals::{
    CommandLaunch, CreateTerminal, ExitStatus, OutputQuery, StopSequence, TerminalClient,
    TerminalExit, TerminalId,
};
use punie_tool::ToolError;

/// The output limit, and the default if the agent names none.
const MAX_SESSION_OUTPUT: u64 = 8 << 20;

/// The terminals that agents created.
#[derive(Clone, Default)]
pub(super) struct SessionTerminals(Arc<Mutex<HashMap<TerminalId, SessionTerminal>>>);

#[derive(Clone)]
struct SessionTerminal {
    session: SessionId,
    limit: u64,
}

impl LocalClient {
    pub(super) async fn create_session_terminal(
        &self,
        request: CreateTerminalRequest,
    ) -> Result<CreateTerminalResponse, Error> {
        let missing = |fault: ToolError| to_protocol_error(&fault, self.workspace.first_root());
        let cwd = match &request.cwd {
            Some(asked) => self.resolve_request_path(asked)?.absolute_path().to_owned(),
            None => self.workspace.resolve_folder(None).map_err(missing)?,
        };
        let launch = CommandLaunch::Program {
            command: request.command.clone(),
            args: request.args,
        };
        let mut create = CreateTerminal::new(&RequestId::new(), launch, cwd);
        let entries = request
            .env
            .into_iter()
            .map(|entry| (entry.name, entry.value));
        // A variable that the runner sets anyway may be requested under any name.
        create.env = entries
            .filter(|(name, value)| !is_runner_setting(name, value))
            .collect();
        create.raw = true;
        create.tool = "terminal";
        let opened = self.terminals.create_terminal(create).await;
        let opened =
            opened.map_err(|fault| to_protocol_error(&fault, Path::new(&request.command)))?;
        let wire = WireId::from(opened.id.as_str().to_owned());
        let limit = request
            .output_byte_limit
            .unwrap_or(MAX_SESSION_OUTPUT)
            .min(MAX_SESSION_OUTPUT);
        self.session_terminals.0.lock().insert(
            opened.id,
            SessionTerminal {
                session: request.session_id,
                limit,
            },
        );
        Ok(CreateTerminalResponse::new(wire))
    }

    pub(super) async fn session_terminal_output(
        &self,
        request: TerminalOutputRequest,
    ) -> Result<TerminalOutputResponse, Error> {
        let (id, terminal) =
            self.find_session_terminal(&request.session_id, &request.terminal_id)?;
        let output = self
            .terminals
            .terminal_output(OutputQuery::whole(&id))
            .await;
        let output = output.map_err(|cause| terminal_error(&cause, &id))?;
        let kept = match output.handle {
            Some(handle) => {
                self.terminals
                    .stored_output_end(handle, terminal.limit)
                    .await
            }
            None => Ok((Vec::new(), false)),
        };
        let (bytes, cut) = kept.map_err(|cause| terminal_error(&cause, &id))?;
        let (text, more) = truncate_to_end(&bytes, terminal.limit, output.exit.is_some());
        let answer = TerminalOutputResponse::new(text, cut || more);
        Ok(answer.exit_status(output.exit.as_ref().map(to_wire_exit_status)))
    }

    pub(super) async fn wait_for_session_terminal(
        &self,
        request: WaitForTerminalExitRequest,
    ) -> Result<WaitForTerminalExitResponse, Error> {
        let (id, _) = self.find_session_terminal(&request.session_id, &request.terminal_id)?;
        let exit = self.terminals.wait_for_terminal_exit(&id).await;
        let exit = exit.map_err(|cause| terminal_error(&cause, &id))?;
        Ok(WaitForTerminalExitResponse::new(to_wire_exit_status(&exit)))
    }

    pub(super) async fn kill_session_terminal(
        &self,
        request: KillTerminalRequest,
    ) -> Result<KillTerminalResponse, Error> {
        let (id, _) = self.find_session_terminal(&request.session_id, &request.terminal_id)?;
        let stopped = self
            .terminals
            .kill_terminal(&id, StopSequence::for_timeout())
            .await;
        stopped
            .map(|_| KillTerminalResponse::new())
            .map_err(|cause| terminal_error(&cause, &id))
    }

    pub(super) async fn release_session_terminal(
        &self,
        request: ReleaseTerminalRequest,
    ) -> Result<ReleaseTerminalResponse, Error> {
        let (id, _) = self.find_session_terminal(&request.session_id, &request.terminal_id)?;
        self.session_terminals.0.lock().remove(&id);
        let released = self.terminals.release_terminal(&id).await;
        released
            .map(|()| ReleaseTerminalResponse::new())
            .map_err(|cause| terminal_error(&cause, &id))
    }

    /// Finds the terminal if it belongs to this session.
    fn find_session_terminal(
        &self,
        session: &SessionId,
        wire: &WireId,
    ) -> Result<(TerminalId, SessionTerminal), Error> {
        let id = TerminalId::from(&*wire.to_string());
        let found = self.session_terminals.0.lock().get(&id).cloned();
        let found = found.filter(|terminal| terminal.session == *session);
        found
            .map(|terminal| (id, terminal))
            .ok_or_else(|| protocol::resource_missing(format!("terminal {wire}")))
    }
}

fn terminal_error(fault: &ToolError, id: &TerminalId) -> Error {
    to_protocol_error(fault, Path::new(id.as_str()))
}

/// Converts an exit status to the protocol's: a code, a signal, or nothing if the end was not observed.
fn to_wire_exit_status(exit: &TerminalExit) -> TerminalExitStatus {
    let status = TerminalExitStatus::new();
    match &exit.status {
        ExitStatus::Code(code) => status.exit_code(code.cast_unsigned()),
        ExitStatus::Signal(name) => status.signal(name.clone()),
        ExitStatus::Unseen(_) => status,
    }
}

/// Returns the end of these bytes as text of at most `limit` bytes, and whether text before it is left out. An
/// incomplete last character is held back, unless the output has ended.
fn truncate_to_end(bytes: &[u8], limit: u64, over: bool) -> (String, bool) {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let begun = bytes
        .utf8_chunks()
        .last()
        .map(|chunk| chunk.invalid().len())
        .unwrap_or_default();
    let is_begun = !over
        && begun > 0
        && std::str::from_utf8(&bytes[bytes.len() - begun..])
            .is_err_and(|error| error.error_len().is_none());
    let bytes = if is_begun {
        &bytes[..bytes.len() - begun]
    } else {
        bytes
    };
    let text = String::from_utf8_lossy(bytes);
    if text.len() <= limit {
        return (text.into_owned(), false);
    }
    let at = text.ceil_char_boundary(text.len() - limit);
    (text[at..].to_owned(), true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_is_kept_on_a_characters_border_and_never_over_the_limit() {
        assert_eq!(
            truncate_to_end("aäöü".as_bytes(), 100, true),
            ("aäöü".to_owned(), false)
        );
        assert_eq!(
            truncate_to_end("aäöü".as_bytes(), 5, true),
            ("öü".to_owned(), true)
        );
        // Each invalid byte becomes three bytes.
        let (text, cut) = truncate_to_end(b"\xFF\xFF\xFF", 4, true);
        assert_eq!((text.as_str(), cut), ("\u{FFFD}", true));
    }

    #[test]
    fn a_character_that_is_still_coming_is_held_back() {
        let bytes = "a🦀".as_bytes();
        assert_eq!(
            truncate_to_end(&bytes[..3], 100, false),
            ("a".to_owned(), false)
        );
        assert_eq!(truncate_to_end(&bytes[..3], 100, true).0, "a\u{FFFD}");
        assert_eq!(
            truncate_to_end(b"a\xFF", 100, false).0,
            "a\u{FFFD}",
            "which no byte would finish"
        );
    }
}
