//! Supports commands that run in a connected editor's terminal: the checks before the start, the terminal's id, and the
//! same processing of its output as for local commands.

use super::command_checks::{check_command, check_working_folder};
use super::local_terminals::LocalTerminals;
use crate::terminals::{CreateTerminal, TerminalId, TerminalOutput};
use punie_tool::ToolError;

impl LocalTerminals {
    /// Returns the id for one more terminal, local or in an editor.
    pub fn next_terminal_id(&self) -> TerminalId {
        self.allocate_id()
    }

    /// Returns why a command must not run in an editor's terminal, or `None` if it may.
    pub fn local_only_reason(&self) -> Option<String> {
        self.confinement().local_only_reason()
    }

    /// Rejects a command that would be rejected locally, and returns the entries to set beside the editor's own
    /// environment.
    ///
    /// # Errors
    /// Those of [`TerminalClient::create_terminal`](crate::TerminalClient::create_terminal).
    pub async fn check_editor_command(
        &self,
        request: &CreateTerminal,
    ) -> Result<Vec<(String, String)>, ToolError> {
        let env = self
            .user_environment()
            .await
            .entries_for_editor(&request.env)?;
        check_command(&request.launch)?;
        check_working_folder(&request.cwd)?;
        Ok(env)
    }

    /// Processes the whole text of a command in an editor's terminal: masks and cleans it, and stores it if it has
    /// ended. Returns the part after the cursor `since`, if there is one, within the budget. Blocks.
    pub fn capture_editor_output(
        &self,
        request: &CreateTerminal,
        text: &str,
        over: bool,
        since: Option<u64>,
    ) -> TerminalOutput {
        let location = self.output_location(&request.request, request.output_number);
        let mut capture = self.create_capture(location, request.budget, request.raw, None);
        if !over {
            capture.disable_disk_copy();
        }
        capture.push_bytes(text.as_bytes());
        if over {
            capture.finish();
        }
        TerminalOutput {
            bytes_read: text.len() as u64,
            in_editor: true,
            ..capture.view_since(since)
        }
    }
}
