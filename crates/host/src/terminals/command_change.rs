//! The change that a command makes after its call has ended: from its start to its end it is one.

use std::sync::Arc;
use std::time::Duration;

use super::{OutputQuery, TerminalClient, TerminalId};
use punie_tool::ToolContext;

/// How often processes are looked for that a command left running.
const LOOK_INTERVAL: Duration = Duration::from_secs(2);

/// Ends the change of a call when the command in this terminal and all that it started have ended.
pub fn end_change_with_command(
    cx: &ToolContext,
    client: &Arc<dyn TerminalClient>,
    terminal: &TerminalId,
) {
    let Some(snapshot) = cx.hand_over_snapshot() else {
        return;
    };
    let client = Arc::clone(client);
    let id = terminal.clone();
    let waiting = async move {
        // A terminal that is gone has ended its command.
        if client.wait_for_terminal_exit(&id).await.is_ok() {
            loop {
                let id = id.clone();
                let since = Some(u64::MAX);
                let state = client.terminal_output(OutputQuery { id, since }).await;
                if state.is_ok_and(|output| output.left.is_empty()) {
                    break;
                }
                tokio::time::sleep(LOOK_INTERVAL).await;
            }
        }
        // The answer is sent; the log has the reason.
        let _ = snapshot.end_change().await;
    };
    #[expect(
        clippy::disallowed_methods,
        reason = "the call has ended; if the runner ends first, the next one ends the change"
    )]
    tokio::spawn(waiting);
}
