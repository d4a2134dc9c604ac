//! Supports commands that run in a connected editor's terminal: the checks before the start, the terminal's id, and
//! the same processing of its output as for local commands. Not here: the editor.

use super::command_checks::{check_command, check_working_folder};
use super::local_terminals::LocalTerminals;
use crate::acp::terminals::{CreateTerminal, TerminalId, TerminalOutput};
use crate::ids::RequestId;
use crate::output::{OutputHandle, TextBudget};
use crate::tool::ToolError;

/// The output of an editor's terminal.
pub(in crate::acp) struct EditorTerminalOutput {
    /// The request that the command belongs to.
    pub request: RequestId,
    /// The number of the output within the request.
    pub number: u32,
    /// The amount of text to return.
    pub budget: TextBudget,
    /// Keeps escape sequences and progress lines.
    pub raw: bool,
    /// The whole text.
    pub text: String,
    /// Set when the output has ended: it is then stored like any output.
    pub over: bool,
    /// Returns only text after this cursor.
    pub since: Option<u64>,
}

impl LocalTerminals {
    /// Returns the id for one more terminal, local or in an editor.
    pub(in crate::acp) fn next_terminal_id(&self) -> TerminalId {
        self.allocate_id()
    }

    /// Returns why a command must not run in an editor's terminal, or `None` if it may.
    pub(in crate::acp) fn local_only_reason(&self) -> Option<String> {
        self.confinement().local_only_reason()
    }

    /// Rejects a command that would be rejected locally, and returns the entries to set beside the editor's own
    /// environment.
    ///
    /// # Errors
    /// Those of [`TerminalClient::create_terminal`](crate::acp::TerminalClient::create_terminal).
    pub(in crate::acp) async fn check_editor_command(
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

    /// Returns the last bytes of a stored output, and whether there are more before them.
    pub(super) async fn stored_output_end(
        &self,
        handle: OutputHandle,
        most: u64,
    ) -> Result<(Vec<u8>, bool), ToolError> {
        let store = self.output_store().clone();
        let reading = tokio::task::spawn_blocking(move || {
            let failed = |cause: std::io::Error| ToolError::from_io("the output", &cause);
            let Ok(mut kept) = store.find_output(handle.as_str()) else {
                return Ok((Vec::new(), false));
            };
            let (_, size) = kept.read_bytes_from(0, 0).map_err(failed)?;
            let from = size.saturating_sub(most);
            let (mut bytes, _) = kept
                .read_bytes_from(from, usize::try_from(most).unwrap_or(usize::MAX))
                .map_err(failed)?;
            if from > 0 {
                // The rest of a character whose beginning is cut off.
                let inside = bytes
                    .iter()
                    .take(3)
                    .take_while(|byte| (**byte & 0xc0) == 0x80)
                    .count();
                bytes.drain(..inside);
            }
            Ok((bytes, from > 0))
        });
        reading
            .await
            .map_err(|fault| ToolError::internal_error(fault.to_string()))?
    }

    /// Returns the text and its figures: masked, cleaned, within the budget, and stored if it has ended. Blocks.
    pub(in crate::acp) fn capture_editor_output(
        &self,
        foreign: EditorTerminalOutput,
    ) -> TerminalOutput {
        let EditorTerminalOutput {
            request,
            number,
            budget,
            raw,
            text,
            over,
            since,
        } = foreign;
        let location = self.output_location(&request, number);
        let mut capture = self.create_capture(location, budget, raw, None);
        if !over {
            capture.disable_disk_copy();
        }
        capture.capture_bytes(text.as_bytes());
        if over {
            capture.finish_capture();
        }
        let shown = capture.view_since(since);
        TerminalOutput {
            text: shown.text,
            omitted_bytes: shown.omitted_bytes,
            handle: shown.handle,
            cursor: shown.cursor,
            bytes_read: text.len() as u64,
            lossy_chars: shown.lossy_chars,
            redactions: shown.redactions,
            cut_short: shown.cut_short,
            held_back: shown.held_back,
            in_editor: true,
            ..TerminalOutput::default()
        }
    }
}
