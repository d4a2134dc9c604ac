//! Ends lasting terminals for the owner. Not here: kill_terminal, by which an agent ends one.

use futures_util::future::join_all;

use super::terminal_list::{LastingTerminal, TerminalList, has_live_output};
use punie_host::TerminalClient;
use punie_host::terminals::{OutputQuery, end_for_owner};

/// Ends all running terminals at once, or only the one with this id. Returns the id of each that ended, or describes
/// what still runs. The terminals stay readable.
pub async fn end_terminals(
    list: &TerminalList,
    client: &dyn TerminalClient,
    only: Option<&str>,
) -> Vec<Result<String, String>> {
    let terminals = list.all().into_iter();
    let wanted = terminals.filter(|terminal| only.is_none_or(|id| terminal.name.as_str() == id));
    let ended = join_all(wanted.map(|terminal| end_terminal(client, terminal))).await;
    ended.into_iter().flatten().collect()
}

/// Ends a terminal; `None` if it had ended.
async fn end_terminal(
    client: &dyn TerminalClient,
    lasting: LastingTerminal,
) -> Option<Result<String, String>> {
    let query = OutputQuery::state_only(&lasting.terminal);
    let state = client.terminal_output(query).await;
    if !state.is_ok_and(|now| has_live_output(&now)) {
        return None;
    }
    let name = lasting.name.as_str();
    let ended = end_for_owner(client, &lasting.terminal, name).await;
    Some(ended.map(|()| name.to_owned()))
}
