//! Shells as others than the shell tools see them: a line each, for whoever lists all that runs beside a conversation.
//! Not here: what a shell prints.

use super::board::{Shell, ShellBoard, is_alive, overview, state};
use super::shell_status::state_words;
use crate::acp::TerminalClient;
use crate::acp::terminals::TerminalOutput;
use crate::tool::ToolError;

/// A shell at one moment.
#[derive(Debug, Clone)]
pub struct ShellLook {
    /// Its name: `sh_1`.
    pub id: String,
    /// Its command and what it is for, on one line.
    pub title: String,
    /// What it does, in words: `running for 12.4 s`.
    pub state: String,
    /// Whether it runs, or something it left behind.
    pub running: bool,
    /// Where its output is kept, once there is some.
    pub handle: Option<String>,
}

/// One shell; none where there is no such shell.
pub async fn look_at(board: &ShellBoard, client: &dyn TerminalClient, id: &str) -> Option<ShellLook> {
    let shell = board.find(id).ok()?;
    Some(look(&shell, state(client, &shell, Some(u64::MAX)).await))
}

/// The shells that run, and those that ended last.
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
