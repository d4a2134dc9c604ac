//! Steps that several tools for a lasting terminal have: finding, reading and ending it.

use std::time::Duration;

use super::TerminalDeps;
use super::terminal_list::LastingTerminal;
use punie_host::terminals::{OutputQuery, StopReport, StopSequence, TerminalOutput};
use punie_tool::{ToolContext, ToolError};

/// The time limit for reading the rest of the output after the kill.
const OUTPUT_WAIT: Duration = Duration::from_secs(2);

impl TerminalDeps {
    /// As [`TerminalList::find_terminal`](super::terminal_list::TerminalList::find_terminal).
    pub(super) fn find_terminal(
        &self,
        cx: &ToolContext,
        id: &str,
    ) -> Result<LastingTerminal, ToolError> {
        self.board.find_terminal(cx, id)
    }

    /// Returns the state of a terminal, with its output.
    pub(super) async fn query_output(
        &self,
        lasting: &LastingTerminal,
    ) -> Result<TerminalOutput, ToolError> {
        let query = OutputQuery::whole(&lasting.terminal);
        self.terminals.terminal_output(query).await
    }

    /// Returns the state of a terminal, without its output.
    pub(super) async fn query_state(
        &self,
        lasting: &LastingTerminal,
    ) -> Result<TerminalOutput, ToolError> {
        let query = OutputQuery::state_only(&lasting.terminal);
        self.terminals.terminal_output(query).await
    }

    /// Ends the processes of a terminal, and waits for the rest of its output.
    pub(super) async fn end_processes(
        &self,
        lasting: &LastingTerminal,
        sequence: StopSequence,
    ) -> Result<StopReport, ToolError> {
        let client = self.terminals.as_ref();
        let stopped = client.kill_terminal(&lasting.terminal, sequence).await?;
        // Only a command that hangs in the kernel has not ended by now.
        let ended = client.wait_for_terminal_exit(&lasting.terminal);
        let _ = tokio::time::timeout(OUTPUT_WAIT, ended).await;
        Ok(stopped)
    }
}
