//! One command from start to end: created, waited for under a time limit and the caller's cancel, stopped where
//! need be, read. Not here: the words in which a tool reports it.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use super::{
    CreateTerminal, Ladder, OpenTerminal, OutputQuery, Stopped, TerminalClient, TerminalExit, TerminalId,
    TerminalOutput,
};
use crate::tool::{ToolCx, ToolError};

/// How long a stopped command may take to be seen to have ended. More is only needed for one that hangs in the
/// kernel, which no signal reaches.
const SETTLE: Duration = Duration::from_secs(2);
/// How often a running command's output is looked at for somebody who watches.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A terminal that is released when its owner is dropped, whatever the reason.
pub struct TerminalGuard {
    client: Arc<dyn TerminalClient>,
    terminal: OpenTerminal,
    armed: bool,
}

impl TerminalGuard {
    /// Starts a command under guard.
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

    /// The terminal guarded.
    pub fn id(&self) -> &TerminalId {
        &self.terminal.id
    }

    /// The command's process id, where this is known.
    pub fn pid(&self) -> Option<u32> {
        self.terminal.pid
    }

    /// Lets the terminal live on; somebody else looks after it now.
    pub fn keep(mut self) -> OpenTerminal {
        self.armed = false;
        self.terminal.clone()
    }

    /// Stops what still runs and forgets the terminal.
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

/// Why a command is no longer waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// It ended by itself.
    Finished(TerminalExit),
    /// It ran over its time and was stopped.
    TimedOut(Stopped),
    /// The caller took the call back and it was stopped.
    Cancelled(Stopped),
}

/// A command that is over.
pub struct Run {
    /// Why it is over.
    pub ending: Ending,
    /// What it printed.
    pub output: TerminalOutput,
    /// Its terminal, still open: something it left behind may be worth keeping.
    pub guard: TerminalGuard,
}

/// A command that was watched for a while.
pub enum Watched {
    /// It is over.
    Over(Box<Run>),
    /// It still runs; nobody has stopped it.
    Running(TerminalGuard),
}

/// Runs a command to its end. Partial output is never lost: a command over its time or taken back is stopped with
/// all its processes, and what it had printed is in the answer.
///
/// # Errors
/// Those of starting it, and `cancelled` when the call was taken back before that.
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

/// The same, but a command that still runs after `patience` is left running, with no time limit any more.
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
    // Not raced with the cancel: once begun, a start is seen through, or nobody could say whether it happened.
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
            // A runner that ends cannot wait ten seconds for each.
            let ladder = if cx.winding_up.is_cancelled() { Ladder::timeout() } else { Ladder::cancel() };
            Ending::Cancelled(stop(client, &guard, ladder).await?)
        }
        never = show_output(client, cx, guard.id(), &mut shown) => match never {},
        () = out_of_patience => return Ok(Watched::Running(guard)),
        () = tokio::time::sleep(limit) => {
            if has_terminal {
                // Looked at before the command is stopped; what cannot be known keeps it from nothing.
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

/// Shows what the command prints after `since`, as often as anybody could want to look, for as long as this is awaited.
async fn show_output(
    client: &Arc<dyn TerminalClient>,
    cx: &ToolCx,
    id: &TerminalId,
    since: &mut u64,
) -> Infallible {
    while cx.progress.is_watched() {
        tokio::time::sleep(LOOK_EVERY).await;
        let query = OutputQuery { id: id.clone(), since: Some(*since) };
        // A terminal that is gone has nothing to show; whoever waits for its end learns why.
        if let Ok(output) = client.terminal_output(query).await {
            *since = output.cursor;
            cx.progress.show(&output.text, output.omitted_bytes);
        }
    }
    std::future::pending().await
}

/// Stops a command and waits until its last words have been read.
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
