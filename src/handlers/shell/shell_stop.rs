//! Ends background shells for the owner. Not here: KillShell, by which an agent ends one.

use std::sync::atomic::Ordering;

use futures_util::future::join_all;

use super::background_shell::{BackgroundShell, is_shell_running, query_shell_state};
use super::shell_list::ShellList;
use punie_host::TerminalClient;
use punie_host::terminals::end_for_owner;

/// Ends all running shells at once, or only the one with this id. Returns the id of each that ended, or describes what
/// still runs.
pub async fn end_shells(
    list: &ShellList,
    client: &dyn TerminalClient,
    only: Option<&str>,
) -> Vec<Result<String, String>> {
    let shells = list.all().into_iter();
    let wanted = shells.filter(|shell| only.is_none_or(|id| shell.id == id));
    let ended = join_all(wanted.map(|shell| end_shell(list, client, shell))).await;
    ended.into_iter().flatten().collect()
}

/// Ends a shell; `None` if it had ended.
async fn end_shell(
    list: &ShellList,
    client: &dyn TerminalClient,
    shell: BackgroundShell,
) -> Option<Result<String, String>> {
    if shell.earlier.is_some() || !is_shell_running(client, &shell).await {
        return None;
    }
    shell.stopped_by_owner.store(true, Ordering::Relaxed);
    let ended = end_for_owner(client, &shell.terminal, &shell.name_with_pid()).await;
    if ended.is_ok()
        && let Ok(state) = query_shell_state(client, &shell).await
        && let Some(exit) = &state.exit
    {
        list.record_shell_end(&shell, &exit.status);
    }
    Some(ended.map(|()| shell.id))
}
