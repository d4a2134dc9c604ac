//! The thread that reads one command's output and detects its end. Not here: processing the bytes (capture).

use std::os::fd::{AsFd, OwnedFd};
use std::sync::MutexGuard;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::process::Child;
use crate::acp::terminals::ExitStatus;

const CHUNK: usize = 256 << 10;
/// The time to read the rest of the output after the command's end, if another process still holds the pipe.
const DRAIN: Duration = Duration::from_millis(100);
/// The bytes to read in that time: more than a pipe holds. A process that prints for ever does not delay the reply.
const DRAIN_BYTES: usize = 2 << 20;

/// Receives the pump's events.
pub(super) trait Listener {
    /// Locks reading before output is read, until the output is passed on. Waits for ever if reading is left to a
    /// next runner.
    fn begin_read(&self) -> MutexGuard<'_, ()>;
    /// The command printed this chunk.
    fn printed(&self, chunk: &[u8]);
    /// No more output is available for now: the output so far should be on disk for a next runner.
    fn paused(&self);
    /// The pipe is closed; no more output follows.
    fn closed(&self);
    /// The command ended. `held` is set if another process still holds the pipe; then more output may follow.
    fn ended(&self, status: ExitStatus, held: bool);
}

/// Reads until no process holds the pipe and the command has ended.
pub(super) fn pump(child: &Child, output: OwnedFd, listener: &impl Listener) {
    let mut reader = Reader { output, buffer: vec![0; CHUNK] };
    let mut unsaved = false;
    loop {
        if unsaved && !any_ready(&[reader.output.as_fd(), child.ended()]) {
            listener.paused();
            unsaved = false;
        }
        wait(&[reader.output.as_fd(), child.ended()], None);
        match reader.read(listener) {
            Read::Bytes(_) => unsaved = true,
            Read::Nothing => {}
            Read::Closed => {
                listener.closed();
                wait(&[child.ended()], None);
                listener.ended(status(child), false);
                return;
            }
        }
        if is_ready(child) {
            break;
        }
    }
    let status = status(child);
    if drain(&mut reader, listener) {
        listener.closed();
        listener.ended(status, false);
        return;
    }
    listener.ended(status, true);
    loop {
        if !any_ready(&[reader.output.as_fd()]) {
            listener.paused();
        }
        wait(&[reader.output.as_fd()], None);
        if let Read::Closed = reader.read(listener) {
            listener.closed();
            return;
        }
    }
}

/// Reads the rest in the pipe. Returns true if it is closed, and false if a process still holds it when the time is
/// up.
fn drain(reader: &mut Reader, listener: &impl Listener) -> bool {
    let until = Instant::now() + DRAIN;
    let mut taken = 0;
    while taken < DRAIN_BYTES {
        match reader.read(listener) {
            Read::Closed => return true,
            Read::Bytes(count) => taken += count,
            Read::Nothing => {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return false;
                }
                wait(&[reader.output.as_fd()], Some(left));
            }
        }
    }
    false
}

struct Reader {
    output: OwnedFd,
    buffer: Vec<u8>,
}

enum Read {
    Bytes(usize),
    Nothing,
    Closed,
}

impl Reader {
    fn read(&mut self, listener: &impl Listener) -> Read {
        let _reading = listener.begin_read();
        match rustix::io::read(&self.output, self.buffer.as_mut_slice()) {
            // A pipe reports that its other side is closed by an end of file, a terminal by an error.
            Ok(0) | Err(Errno::IO) => Read::Closed,
            Ok(count) => {
                listener.printed(&self.buffer[..count]);
                Read::Bytes(count)
            }
            Err(Errno::AGAIN | Errno::INTR) => Read::Nothing,
            Err(cause) => {
                tracing::warn!(%cause, "a command's output could not be read any further");
                Read::Closed
            }
        }
    }
}

fn is_ready(child: &Child) -> bool {
    any_ready(&[child.ended()])
}

fn any_ready(fds: &[std::os::fd::BorrowedFd<'_>]) -> bool {
    let mut fds: Vec<PollFd<'_>> = fds.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
    matches!(poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(1..))
}

/// Waits until one is ready or the time is up.
fn wait(fds: &[std::os::fd::BorrowedFd<'_>], limit: Option<Duration>) {
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    let mut fds: Vec<PollFd<'_>> = fds.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
    while poll(&mut fds, limit.as_ref()) == Err(Errno::INTR) {}
}

/// Returns the exit status of a child that has ended.
fn status(child: &Child) -> ExitStatus {
    match child.status() {
        Ok(Some(status)) => status,
        Ok(None) => ExitStatus::Signal("an unknown signal".to_owned()),
        Err(cause) => {
            tracing::error!(pid = child.pid(), %cause, "a command ended and its status is not to be had");
            ExitStatus::Signal("an unknown signal".to_owned())
        }
    }
}
