//! A running git: its input and output, its time limit, cancellation, and stopping it with its child processes.

use std::io;
use std::pin::pin;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc;
use tokio::time::Instant;

use punie_core::ids::RequestId;
use punie_tool::time_limit::wait_for_limit;
use punie_tool::{ErrorCode, ToolContext, ToolError};

/// The largest amount of stderr of git and its hooks that is held.
pub(super) const MAX_STDERR_BYTES: usize = 256 << 10;
/// After git's exit, the time without output until a process that holds the pipes open is left alone.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(1);
/// The time that a git that writes gets to remove its locks.
const GRACE: Duration = Duration::from_secs(2);
const CHUNK: usize = 64 << 10;

/// The parameters of a run.
pub(super) struct GitRunPlan {
    pub(super) input: Option<Vec<u8>>,
    pub(super) limit: Duration,
    /// Send SIGTERM before SIGKILL.
    pub(super) gently: bool,
}

/// The destination of the output.
pub(super) enum GitOutputTarget<'a> {
    /// A buffer, up to this many bytes.
    Hold(&'a mut Vec<u8>, usize),
    /// A channel that receives all of it, until the receiver is dropped.
    Pour(mpsc::Sender<Vec<u8>>),
}

impl GitOutputTarget<'_> {
    /// Accepts a chunk. Returns false when no more is wanted.
    async fn accept_bytes(&mut self, piece: &[u8]) -> bool {
        match self {
            Self::Hold(output, max) => {
                let room = *max - output.len();
                output.extend_from_slice(&piece[..piece.len().min(room)]);
                piece.len() <= room
            }
            Self::Pour(pieces) => pieces.send(piece.to_vec()).await.is_ok(),
        }
    }
}

/// The result of a run.
pub(super) struct GitExit {
    pub(super) exit_code: Option<i32>,
    pub(super) stderr: Vec<u8>,
    pub(super) cut: bool,
    pub(super) left_open: bool,
}

/// Starts git and waits until it ends, has printed enough, or the call ends.
pub(super) async fn run_to_exit(
    cx: &ToolContext,
    mut command: Command,
    plan: GitRunPlan,
    mut out: GitOutputTarget<'_>,
) -> Result<GitExit, ToolError> {
    if cx.is_cancelled() {
        return Err(cancelled_error());
    }
    let failed = |cause: io::Error| ToolError::from_io("git", &cause);
    let mut child = command.spawn().map_err(failed)?;
    let limit = plan.limit;
    let ended = tokio::select! {
        biased;
        () = cx.wait_for_cancel() => Err(cancelled_error()),
        ending = exchange_streams(&mut child, plan.input, &mut out) => ending.map_err(failed),
        () = wait_for_limit(limit) => Err(ToolError::new(
            ErrorCode::Timeout,
            format!("git took longer than {} s and was stopped. Ask for less: a smaller folder in `path`.", limit.as_secs()),
        )),
    };
    let over = ended.as_ref().is_ok_and(|ending| !ending.cut);
    if !over {
        stop_group(&mut child, &cx.request, plan.gently).await;
    }
    ended
}

fn cancelled_error() -> ToolError {
    ToolError::call_cancelled("The git call was cancelled; it changed nothing.")
}

async fn exchange_streams(
    child: &mut Child,
    input: Option<Vec<u8>>,
    out: &mut GitOutputTarget<'_>,
) -> io::Result<GitExit> {
    let (Some(mut stdout), Some(mut stderr)) = (child.stdout.take(), child.stderr.take()) else {
        return Err(io::Error::other("was started without its pipes"));
    };
    let mut feeding = pin!(write_input(child.stdin.take(), input));
    let mut fed = false;
    let mut out_open = true;
    let mut err_open = true;
    let mut first = vec![0; CHUNK];
    let mut second = vec![0; CHUNK];
    let mut ending = GitExit {
        exit_code: None,
        stderr: Vec::new(),
        cut: false,
        left_open: false,
    };
    let mut over = None;
    let mut quiet_until = Instant::now();
    while out_open || err_open || over.is_none() {
        tokio::select! {
            biased;
            n = read_chunk(&mut stdout, &mut first), if out_open => {
                let n = n?;
                out_open = n > 0;
                quiet_until = Instant::now() + DRAIN_TIMEOUT;
                if !out.accept_bytes(&first[..n]).await {
                    ending.cut = true;
                    return Ok(ending);
                }
            }
            n = read_chunk(&mut stderr, &mut second), if err_open => {
                let n = n?;
                err_open = n > 0;
                quiet_until = Instant::now() + DRAIN_TIMEOUT;
                let room = MAX_STDERR_BYTES - ending.stderr.len();
                ending.stderr.extend_from_slice(&second[..n.min(room)]);
            }
            () = &mut feeding, if !fed => fed = true,
            status = child.wait(), if over.is_none() => {
                over = Some(status?);
                quiet_until = Instant::now() + DRAIN_TIMEOUT;
            }
            () = tokio::time::sleep_until(quiet_until), if over.is_some() => {
                ending.left_open = true;
                break;
            }
        }
    }
    ending.exit_code = over.and_then(|status| status.code());
    Ok(ending)
}

async fn read_chunk(pipe: &mut (impl AsyncRead + Unpin), chunk: &mut [u8]) -> io::Result<usize> {
    pipe.read(chunk).await
}

/// Writes the input. A write error is only logged, because the exit code tells why git stopped reading.
async fn write_input(pipe: Option<ChildStdin>, input: Option<Vec<u8>>) {
    if let (Some(mut pipe), Some(input)) = (pipe, input)
        && let Err(cause) = pipe.write_all(&input).await
    {
        tracing::debug!(%cause, "git did not read all it was given");
    }
}

/// Stops git and its child processes, and waits until git is gone.
async fn stop_group(child: &mut Child, request: &RequestId, gently: bool) {
    #[cfg(unix)]
    {
        let leader = child.id();
        let identity =
            leader.and_then(punie_host::local::process_identity::ProcessIdentity::from_pid);
        if gently {
            signal_git_group(leader, rustix::process::Signal::TERM);
            // Reaps a git that is gone, so that its group gets no further signal.
            let _ = tokio::time::timeout(GRACE, child.wait()).await;
        }
        signal_git_group(child.id(), rustix::process::Signal::KILL);
        if let Some(identity) = identity {
            // Processes that left the group carry the call's mark in their environment.
            let request = request.clone();
            let hunt = tokio::task::spawn_blocking(move || {
                punie_host::local::process_kill::kill_survivor(&identity, &request)
            });
            if let Ok(stopped) = hunt.await
                && !stopped.survivors.is_empty()
            {
                tracing::warn!("something that git started could not be stopped");
            }
        }
    }
    #[cfg(not(unix))]
    let _ = (request, gently, GRACE);
    if let Err(cause) = child.kill().await {
        tracing::debug!(%cause, "git was gone before it was stopped");
    }
}

#[cfg(unix)]
fn signal_git_group(leader: Option<u32>, signal: rustix::process::Signal) {
    if let Some(group) = leader
        .and_then(|id| i32::try_from(id).ok())
        .and_then(rustix::process::Pid::from_raw)
        && let Err(cause) = rustix::process::kill_process_group(group, signal)
    {
        tracing::debug!(%cause, "git was gone before it was stopped");
    }
}
