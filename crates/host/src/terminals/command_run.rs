//! Runs one command from start to end: creates its terminal, waits for it, stops it on timeout or cancel, and reads its
//! output.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use super::{
    CreateTerminal, OpenTerminal, OutputQuery, StopReport, StopSequence, TerminalClient,
    TerminalExit, TerminalId, TerminalOutput,
};
use punie_tool::time_limit::wait_for_limit;
use punie_tool::{ToolContext, ToolError};

/// The time in which a killed command should be seen to end. Only a command that hangs in the kernel, out of reach of
/// signals, needs more.
const KILL_TIMEOUT: Duration = Duration::from_secs(2);
/// The interval at which a followed command's output is read.
const FOLLOW_INTERVAL: Duration = Duration::from_secs(1);

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
    pub async fn create_guarded(
        client: &Arc<dyn TerminalClient>,
        request: CreateTerminal,
    ) -> Result<Self, ToolError> {
        let terminal = client.create_terminal(request).await?;
        Ok(Self {
            client: Arc::clone(client),
            terminal,
            armed: true,
        })
    }

    /// Returns the id of the guarded terminal.
    pub fn id(&self) -> &TerminalId {
        &self.terminal.id
    }

    /// Ends the guard without releasing the terminal, which the caller now owns.
    pub fn into_open(mut self) -> OpenTerminal {
        self.armed = false;
        self.terminal.clone()
    }

    /// Stops a command that still runs and releases the terminal.
    pub async fn release_guarded(mut self) {
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
pub enum RunEnding {
    /// It ended by itself.
    Finished(TerminalExit),
    /// It exceeded its time limit and was stopped.
    TimedOut(StopReport),
    /// The caller cancelled the call and it was stopped.
    Cancelled(StopReport),
}

/// A command that has ended.
pub struct CommandRun {
    /// The reason why it ended.
    pub ending: RunEnding,
    /// Its output.
    pub output: TerminalOutput,
    /// Its terminal, still open because its background processes may be worth keeping.
    pub guard: TerminalGuard,
}

/// A command after it was waited for.
pub enum WatchedCommand {
    /// It has ended.
    Ended(Box<CommandRun>),
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
    cx: &ToolContext,
    request: CreateTerminal,
    limit: Duration,
) -> Result<CommandRun, ToolError> {
    match run_watched(client, cx, request, limit, None).await? {
        WatchedCommand::Ended(run) => Ok(*run),
        WatchedCommand::Running(_) => Err(ToolError::internal(
            "A command was left that was to be waited for.",
        )),
    }
}

/// Runs a command, but leaves it running without a time limit if it still runs after `patience`.
///
/// # Errors
/// As above.
pub async fn run_or_leave_running(
    client: &Arc<dyn TerminalClient>,
    cx: &ToolContext,
    request: CreateTerminal,
    limit: Duration,
    patience: Duration,
) -> Result<WatchedCommand, ToolError> {
    run_watched(client, cx, request, limit, Some(patience)).await
}

async fn run_watched(
    client: &Arc<dyn TerminalClient>,
    cx: &ToolContext,
    request: CreateTerminal,
    limit: Duration,
    patience: Option<Duration>,
) -> Result<WatchedCommand, ToolError> {
    if cx.is_cancelled() {
        return Err(ToolError::call_cancelled("The command was not started."));
    }
    // Not raced with the cancel: a start that has begun is completed, because otherwise it would be unknown whether the
    // command started.
    let has_terminal = request.tty.is_some();
    let guard = TerminalGuard::create_guarded(client, request).await?;
    let out_of_patience = async {
        match patience {
            Some(patience) => wait_for_limit(patience).await,
            None => std::future::pending().await,
        }
    };
    let mut shown = 0;
    let mut input = None;
    let ending = tokio::select! {
        biased;
        exit = client.wait_for_terminal_exit(guard.id()) => RunEnding::Finished(exit?),
        () = cx.wait_for_cancel() => {
            RunEnding::Cancelled(stop_and_drain(client, &guard, cancel_sequence(cx)).await?.0)
        }
        never = follow_output(client, cx, guard.id(), &mut shown) => match never {},
        () = out_of_patience => return Ok(WatchedCommand::Running(guard)),
        () = wait_for_limit(limit) => {
            if has_terminal {
                // Read before the command is stopped. An error must not prevent the stop.
                let before = client.terminal_output(OutputQuery::whole(guard.id())).await;
                input = before.ok().and_then(|output| output.input);
            }
            match stop_and_drain(client, &guard, StopSequence::for_timeout()).await? {
                (stopped, Some(exit)) if found_nothing(&stopped) => RunEnding::Finished(exit),
                (stopped, _) => RunEnding::TimedOut(stopped),
            }
        }
    };
    if cx.progress.has_follower() {
        let rest = client
            .terminal_output(OutputQuery {
                id: guard.id().clone(),
                since: Some(shown),
            })
            .await?;
        cx.progress.show_end(&rest.text, rest.omitted_bytes);
    }
    let output = client
        .terminal_output(OutputQuery::whole(guard.id()))
        .await?;
    let output = TerminalOutput { input, ..output };
    Ok(WatchedCommand::Ended(Box::new(CommandRun {
        ending,
        output,
        guard,
    })))
}

/// Returns whether there was nothing to stop: all processes had ended by themselves.
fn found_nothing(stopped: &StopReport) -> bool {
    stopped.by.is_none() && stopped.in_editor.is_none() && stopped.survivors.is_empty()
}

/// Returns the steps by which the command of a cancelled call is stopped.
fn cancel_sequence(cx: &ToolContext) -> StopSequence {
    if cx.owner_stop.is_cancelled() {
        StopSequence::for_owner_stop()
    } else if cx.shutdown.is_cancelled() {
        // A runner that shuts down cannot wait ten seconds for each command.
        StopSequence::for_timeout()
    } else {
        StopSequence::for_cancel()
    }
}

/// Shows the command's output after `since` at regular intervals, as long as this is awaited.
async fn follow_output(
    client: &Arc<dyn TerminalClient>,
    cx: &ToolContext,
    id: &TerminalId,
    since: &mut u64,
) -> Infallible {
    while cx.progress.has_audience() {
        tokio::time::sleep(FOLLOW_INTERVAL).await;
        let query = OutputQuery {
            id: id.clone(),
            since: Some(*since),
        };
        // A closed terminal has nothing to show, and the wait for its end reports the reason.
        if let Ok(output) = client.terminal_output(query).await {
            *since = output.cursor;
            cx.progress.show_text(&output.text, output.omitted_bytes);
        }
    }
    std::future::pending().await
}

/// Stops a command and waits until the rest of its output has been read. Returns its exit, if it ended in time.
async fn stop_and_drain(
    client: &Arc<dyn TerminalClient>,
    guard: &TerminalGuard,
    sequence: StopSequence,
) -> Result<(StopReport, Option<TerminalExit>), ToolError> {
    let stopped = client.kill_terminal(guard.id(), sequence).await?;
    let exit = client.wait_for_terminal_exit(guard.id());
    let exit = tokio::time::timeout(KILL_TIMEOUT, exit).await.ok();
    if exit.is_none() {
        tracing::warn!(terminal = %guard.id(), "a killed command has not ended yet");
    }
    Ok((stopped, exit.transpose()?))
}
