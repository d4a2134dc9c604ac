//! Snapshots of shells for lists of everything that runs beside a conversation. Not here: the output of a shell.

use super::board::{Shell, ShellBoard, is_alive, overview, state};
use super::shell_status::state_words;
use crate::acp::TerminalClient;
use crate::acp::terminals::TerminalOutput;
use crate::tool::ToolError;

/// The state of a shell at one moment.
#[derive(Debug, Clone)]
pub struct ShellLook {
    /// Its id: `sh_1`.
    pub id: String,
    /// Its command and purpose, on one line.
    pub title: String,
    /// Its state in words: `running for 12.4 s`.
    pub state: String,
    /// Its command or a process that it left still runs.
    pub running: bool,
    /// The handle of its stored output, if there is any.
    pub handle: Option<String>,
}

/// Returns a snapshot of one shell, or `None` if it does not exist.
pub async fn look_at(board: &ShellBoard, client: &dyn TerminalClient, id: &str) -> Option<ShellLook> {
    let shell = board.find(id).ok()?;
    Some(look(&shell, state(client, &shell, Some(u64::MAX)).await))
}

/// Returns snapshots of the running shells and the latest ended ones.
pub async fn look_at_all(board: &ShellBoard, client: &dyn TerminalClient) -> Vec<ShellLook> {
    let (shells, _) = overview(board, client).await;
    shells.into_iter().map(|(shell, output)| look(&shell, output)).collect()
}

fn look(shell: &Shell, output: Result<TerminalOutput, ToolError>) -> ShellLook {
    ShellLook {
        id: shell.id.clone(),
        title: shell.title(),
        state: match &output {
            Ok(output) => state_words(shell, output),
            Err(gone) => gone.text().to_owned(),
        },
        running: output.as_ref().is_ok_and(is_alive),
        handle: output.ok().and_then(|output| Some(output.handle?.as_str().to_owned())),
    }
}
