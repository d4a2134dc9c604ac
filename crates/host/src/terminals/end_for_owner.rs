//! Ends the command of a terminal for the owner.

use std::time::Duration;

use super::{StopSequence, TerminalClient, TerminalId, list_processes};

/// The time in which a command should have ended. Only one that hangs in the kernel needs more.
const END_TIMEOUT: Duration = Duration::from_secs(3);

/// Ends the command of a terminal, which people know as `name`, with all its processes, and waits for its last output.
///
/// # Errors
/// Describes what still runs.
pub async fn end_for_owner(
    client: &dyn TerminalClient,
    terminal: &TerminalId,
    name: &str,
) -> Result<(), String> {
    let ending = async {
        let stopped = client
            .kill_terminal(terminal, StopSequence::for_owner_stop())
            .await
            .map_err(|error| format!("{name}: {}", error.model_text()))?;
        if !stopped.survivors.is_empty() {
            return Err(format!("{name}: {}", list_processes(&stopped.survivors)));
        }
        // A terminal that was released meanwhile has ended too.
        let _ = client.wait_for_terminal_exit(terminal).await;
        Ok(())
    };
    let ended = tokio::time::timeout(END_TIMEOUT, ending).await;
    ended.unwrap_or_else(|_elapsed| Err(name.to_owned()))
}
