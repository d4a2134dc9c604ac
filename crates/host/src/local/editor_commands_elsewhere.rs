//! Editor commands on systems without support for commands: none runs in an editor's terminal either.

use super::local_terminals::LocalTerminals;
use crate::terminals::{CreateTerminal, TerminalId, TerminalOutput};
use punie_tool::{ErrorCode, ToolError};

impl LocalTerminals {
    /// Returns a placeholder: no terminal needs an id here.
    pub(crate) fn next_terminal_id(&self) -> TerminalId {
        TerminalId::from_number(0)
    }

    /// Returns `None`: every command is rejected anyway.
    pub(crate) fn local_only_reason(&self) -> Option<String> {
        None
    }

    /// Rejects every command.
    ///
    /// # Errors
    /// `policy_denied`.
    pub(crate) async fn check_editor_command(
        &self,
        _request: &CreateTerminal,
    ) -> Result<Vec<(String, String)>, ToolError> {
        let text = "Commands are not supported on this system yet. Nothing was run.";
        Err(ToolError::new(ErrorCode::PolicyDenied, text))
    }

    /// Returns the text unprocessed: no command runs here.
    pub(crate) fn capture_editor_output(
        &self,
        _request: &CreateTerminal,
        text: &str,
        _over: bool,
        _since: Option<u64>,
    ) -> TerminalOutput {
        TerminalOutput {
            text: text.to_owned(),
            in_editor: true,
            ..TerminalOutput::default()
        }
    }
}
