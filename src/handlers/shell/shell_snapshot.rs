//! Snapshots of shells for lists of everything that runs beside a conversation.

use super::background_shell::{BackgroundShell, is_still_running, query_shell_state};
use super::shell_list::{ShellList, list_shells};
use super::shell_status::describe_state;
use punie_host::TerminalClient;
use punie_host::shell_view::ShellView;
use punie_host::terminals::TerminalOutput;
use punie_tool::{ToolContext, ToolError};

/// Returns a snapshot of one shell, or `None` if there is none that the call may know of.
pub async fn snapshot_shell(
    cx: &ToolContext,
    board: &ShellList,
    client: &dyn TerminalClient,
    id: &str,
) -> Option<ShellView> {
    let shell = board.find(id, cx).ok()?;
    Some(to_snapshot(&shell, query_shell_state(client, &shell).await))
}

/// Returns snapshots of the running shells and the latest ended ones.
pub async fn snapshot_shells(
    cx: &ToolContext,
    board: &ShellList,
    client: &dyn TerminalClient,
) -> Vec<ShellView> {
    let (shells, _) = list_shells(cx, board, client).await;
    shells
        .into_iter()
        .map(|(shell, output)| to_snapshot(&shell, output))
        .collect()
}

fn to_snapshot(shell: &BackgroundShell, output: Result<TerminalOutput, ToolError>) -> ShellView {
    ShellView {
        id: shell.id.clone(),
        title: shell.describe_command(),
        state: match &output {
            Ok(output) => describe_state(shell, output),
            Err(gone) => gone.model_text().to_owned(),
        },
        running: output.as_ref().is_ok_and(is_still_running),
        handle: output
            .ok()
            .and_then(|output| Some(output.handle?.as_str().to_owned())),
    }
}
