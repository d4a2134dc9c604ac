//! Runs one command from start to end: creates its terminal, waits for it, stops it on timeout or cancel, and reads its
//! output. Not here: the text in which a tool reports it.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use super::{
    CreateTerminal, Ladder, OpenTerminal, OutputQuery, Stopped, TerminalClient, TerminalExit, TerminalId,
    TerminalOutput,
};
use crate::tool::{ToolCx, ToolError};

/// The time in which a killed command should be seen to end. Only a command that hangs in the kernel, out of reach of
/// signals, needs more.
const SETTLE: Duration = Duration::from_secs(2);
/// The interval at which a followed command's output is read.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A terminal that is released when its owner is dropped.
pub struct TerminalGuard {
    client: Arc<dyn TerminalClient>,
    terminal: OpenTerminal,
    armed: bool,
}

impl TerminalGuard {
    /// Starts a command in a guarded terminal.
    ///
    /// # Errors
    /// Those of [`TerminalClient::create_terminal`].
    pub async fn create(
        client: &Arc<dyn TerminalClient>,
        request: CreateTerminal,
    ) -> Result<Self, ToolError> {
        let terminal = client.create_terminal(request).await?;
        Ok(Self { client: Arc::clone(client), terminal, armed: true })
    }

    /// Returns the id of the guarded terminal.
    pub fn id(&self) -> &TerminalId {
        &self.terminal.id
    }

    /// Returns the command's process id, if it is known.
    pub fn pid(&self) -> Option<u32> {
        self.terminal.pid
    }

    /// Ends the guard without releasing the terminal, which the caller now owns.
    pub fn keep(mut self) -> OpenTerminal {
        self.armed = false;
        self.terminal.clone()
    }

    /// Stops a command that still runs and releases the terminal.
    pub async fn release(mut self) {
        self.armed = false;
        if let Err(gone) = self.client.release_terminal(&self.terminal.id).await {
            tracing::debug!(terminal = %self.terminal.id, %gone, "the terminal was released already");
        }
    }
}

impl Drop for TerminalGuard {
    fn drop(&mut self) {
        if self.armed {
            self.client.abandon_terminal(self.terminal.id.clone());
        }
    }
}

/// The reason why a command is no longer waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// It ended by itself.
    Finished(TerminalExit),
    /// It exceeded its time limit and was stopped.
    TimedOut(Stopped),
    /// The caller cancelled the call and it was stopped.
    Cancelled(Stopped),
}

/// A command that has ended.
pub struct Run {
    /// The reason why it ended.
    pub ending: Ending,
    /// Its output.
    pub output: TerminalOutput,
    /// Its terminal, still open because its background processes may be worth keeping.
    pub guard: TerminalGuard,
}

/// A command after it was waited for.
pub enum Watched {
    /// It has ended.
    Over(Box<Run>),
    /// It still runs and was not stopped.
    Running(TerminalGuard),
}

/// Runs a command to its end. Partial output is never lost: a command that times out or is cancelled is stopped with
/// all its processes, and the result has its output.
///
/// # Errors
/// Those of starting it, and `cancelled` when the call was cancelled before that.
pub async fn run_to_end(
    client: &Arc<dyn TerminalClient>,
    cx: &ToolCx,
    request: CreateTerminal,
    limit: Duration,
) -> Result<Run, ToolError> {
    match watch(client, cx, request, limit, None).await? {
        Watched::Over(run) => Ok(*run),
        Watched::Running(_) => Err(ToolError::internal("A command was left that was to be waited for.")),
    }
}

/// Runs a command, but leaves it running without a time limit if it still runs after `patience`.
///
/// # Errors
/// As above.
pub async fn run_or_leave(
    client: &Arc<dyn TerminalClient>,
    cx: &ToolCx,
    request: CreateTerminal,
    limit: Duration,
    patience: Duration,
) -> Result<Watched, ToolError> {
    watch(client, cx, request, limit, Some(patience)).await
}

async fn watch(
    client: &Arc<dyn TerminalClient>,
    cx: &ToolCx,
    request: CreateTerminal,
    limit: Duration,
    patience: Option<Duration>,
) -> Result<Watched, ToolError> {
    if cx.is_cancelled() {
        return Err(ToolError::cancelled("The command was not started."));
    }
    // Not raced with the cancel: a start that has begun is completed, because otherwise it would be unknown whether the
    // command started.
    let has_terminal = request.tty.is_some();
    let guard = TerminalGuard::create(client, request).await?;
    let out_of_patience = async {
        match patience {
            Some(patience) => tokio::time::sleep(patience).await,
            None => std::future::pending().await,
        }
    };
    let (mut shown, mut input) = (0, None);
    let ending = tokio::select! {
        biased;
        exit = client.wait_for_terminal_exit(guard.id()) => Ending::Finished(exit?),
        () = cx.cancelled() => {
            // A runner that shuts down cannot wait ten seconds for each command.
            let ladder = if cx.winding_up.is_cancelled() { Ladder::timeout() } else { Ladder::cancel() };
            Ending::Cancelled(stop(client, &guard, ladder).await?)
        }
        never = show_output(client, cx, guard.id(), &mut shown) => match never {},
        () = out_of_patience => return Ok(Watched::Running(guard)),
        () = tokio::time::sleep(limit) => {
            if has_terminal {
                // Read before the command is stopped. An error must not prevent the stop.
                let before = client.terminal_output(OutputQuery::all(guard.id())).await;
                input = before.ok().and_then(|output| output.input);
            }
            Ending::TimedOut(stop(client, &guard, Ladder::timeout()).await?)
        }
    };
    if cx.progress.is_followed() {
        let rest = client.terminal_output(OutputQuery { id: guard.id().clone(), since: Some(shown) }).await?;
        cx.progress.show_end(&rest.text, rest.omitted_bytes);
    }
    let output = client.terminal_output(OutputQuery::all(guard.id())).await?;
    let output = TerminalOutput { input, ..output };
    Ok(Watched::Over(Box::new(Run { ending, output, guard })))
}

/// Shows the command's output after `since` at regular intervals, as long as this is awaited.
async fn show_output(
    client: &Arc<dyn TerminalClient>,
    cx: &ToolCx,
    id: &TerminalId,
    since: &mut u64,
) -> Infallible {
    while cx.progress.is_watched() {
        tokio::time::sleep(LOOK_EVERY).await;
        let query = OutputQuery { id: id.clone(), since: Some(*since) };
        // A closed terminal has nothing to show, and the wait for its end reports the reason.
        if let Ok(output) = client.terminal_output(query).await {
            *since = output.cursor;
            cx.progress.show(&output.text, output.omitted_bytes);
        }
    }
    std::future::pending().await
}

/// Stops a command and waits until the rest of its output has been read.
async fn stop(
    client: &Arc<dyn TerminalClient>,
    guard: &TerminalGuard,
    ladder: Ladder,
) -> Result<Stopped, ToolError> {
    let stopped = client.kill_terminal(guard.id(), ladder).await?;
    match tokio::time::timeout(SETTLE, client.wait_for_terminal_exit(guard.id())).await {
        Ok(exit) => drop(exit?),
        Err(_still_there) => tracing::warn!(terminal = %guard.id(), "a killed command has not ended yet"),
    }
    Ok(stopped)
}
