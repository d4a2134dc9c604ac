//! Steps that several tools for a lasting terminal have: finding, reading and ending it. Not here: the list of
//! terminals, and the answers.

use std::time::Duration;

use super::TerminalDeps;
use super::terminal_list::LastingTerminal;
use crate::acp::terminals::{
    OutputQuery, StopReport, StopSequence, TerminalOutput, terminal_output_meta,
};
use crate::tool::{ResultMeta, ToolContext, ToolError};

/// The time limit for reading the rest of the output after the kill.
const OUTPUT_WAIT: Duration = Duration::from_secs(2);

impl TerminalDeps {
    /// Returns the lasting terminal of the call's conversation with this id.
    pub(super) fn find_terminal(
        &self,
        cx: &ToolContext,
        id: &str,
    ) -> Result<LastingTerminal, ToolError> {
        self.board.find_terminal(&cx.conversation, id)
    }

    /// Returns the state of a terminal, and its output after a cursor. The largest cursor stands for no output.
    pub(super) async fn query_terminal(
        &self,
        lasting: &LastingTerminal,
        since: Option<u64>,
    ) -> Result<TerminalOutput, ToolError> {
        let id = lasting.terminal.clone();
        self.terminals
            .terminal_output(OutputQuery { id, since })
            .await
    }

    /// Returns the state of a terminal, without its output.
    pub(super) async fn query_state(
        &self,
        lasting: &LastingTerminal,
    ) -> Result<TerminalOutput, ToolError> {
        self.query_terminal(lasting, Some(u64::MAX)).await
    }

    /// Ends the processes of a terminal, and waits for the rest of its output.
    pub(super) async fn end_processes(
        &self,
        lasting: &LastingTerminal,
        sequence: StopSequence,
    ) -> Result<StopReport, ToolError> {
        let client = self.terminals.as_ref();
        let stopped = client.kill_terminal(&lasting.terminal, sequence).await?;
        if stopped.survivors.is_empty() {
            // Only a command that hangs in the kernel has not ended by now.
            let ended = client.wait_for_terminal_exit(&lasting.terminal);
            let _ = tokio::time::timeout(OUTPUT_WAIT, ended).await;
        }
        Ok(stopped)
    }
}

/// Returns the facts about an output, with the handle of the stored one.
pub(super) fn lasting_output_meta(output: &TerminalOutput) -> ResultMeta {
    let handle = output.handle.as_ref();
    ResultMeta {
        handle: handle.map(|handle| handle.as_str().to_owned()),
        ..terminal_output_meta(output)
    }
}
