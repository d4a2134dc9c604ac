//! The thread that reads one command's output and detects its end.

use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use parking_lot::MutexGuard;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::child_process::ChildProcess;
use crate::terminals::ExitStatus;

const READ_BUFFER_BYTES: usize = 256 << 10;
/// The time to read the rest of the output after the command's end, if another process still holds the pipe.
const DRAIN_TIMEOUT: Duration = Duration::from_millis(100);
/// The same, if no process of the command's is found: another child of the runner has the pipe until it executes its
/// program, which takes long on a busy machine.
const FOREIGN_TIMEOUT: Duration = Duration::from_secs(5);
/// The bytes to read in that time: more than a pipe holds. A process that prints for ever does not delay the reply.
const MAX_DRAIN_BYTES: usize = 2 << 20;

/// Receives the pump's events.
pub(super) trait PumpListener {
    /// Locks reading before output is read, until the output is passed on. Waits for ever if reading is left to a
    /// next runner.
    fn lock_reading(&self) -> MutexGuard<'_, ()>;
    /// The command printed this chunk.
    fn on_output(&self, chunk: &[u8]);
    /// No more output is available for now: the output so far should be on disk for a next runner.
    fn on_pause(&self);
    /// Returns whether a process of the command's may hold the pipe after the command's end.
    fn may_be_held(&self) -> bool;
    /// The pipe is closed; no more output follows.
    fn on_closed(&self);
    /// The command ended. `held` is set if another process still holds the pipe; then more output may follow.
    fn on_exit(&self, status: ExitStatus, held: bool);
}

/// Reads until no process holds the pipe and the command has ended.
pub(super) fn pump_output(child: &ChildProcess, output: OwnedFd, listener: &impl PumpListener) {
    let mut reader = OutputReader {
        output,
        buffer: vec![0; READ_BUFFER_BYTES],
    };
    let mut unsaved = false;
    loop {
        if unsaved && !is_any_readable(&[reader.output.as_fd(), child.end_descriptor()]) {
            listener.on_pause();
            unsaved = false;
        }
        wait_readable(&[reader.output.as_fd(), child.end_descriptor()], None);
        match reader.read_once(listener) {
            ReadResult::Bytes(_) => unsaved = true,
            ReadResult::Nothing => {}
            ReadResult::Closed => {
                listener.on_closed();
                wait_readable(&[child.end_descriptor()], None);
                listener.on_exit(collect_exit_status(child), false);
                return;
            }
        }
        if has_exited(child) {
            break;
        }
    }
    let status = collect_exit_status(child);
    let is_closed = drain_output(&mut reader, listener, DRAIN_TIMEOUT)
        || !listener.may_be_held() && drain_output(&mut reader, listener, FOREIGN_TIMEOUT);
    if is_closed {
        listener.on_closed();
        listener.on_exit(status, false);
        return;
    }
    listener.on_exit(status, true);
    loop {
        if !is_any_readable(&[reader.output.as_fd()]) {
            listener.on_pause();
        }
        wait_readable(&[reader.output.as_fd()], None);
        if let ReadResult::Closed = reader.read_once(listener) {
            listener.on_closed();
            return;
        }
    }
}

/// Reads the rest in the pipe. Returns true if it is closed, and false if a process still holds it when the time is
/// up.
fn drain_output(reader: &mut OutputReader, listener: &impl PumpListener, limit: Duration) -> bool {
    let until = Instant::now() + limit;
    let mut taken = 0;
    while taken < MAX_DRAIN_BYTES {
        match reader.read_once(listener) {
            ReadResult::Closed => return true,
            ReadResult::Bytes(count) => taken += count,
            ReadResult::Nothing => {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return false;
                }
                wait_readable(&[reader.output.as_fd()], Some(left));
            }
        }
    }
    false
}

struct OutputReader {
    output: OwnedFd,
    buffer: Vec<u8>,
}

enum ReadResult {
    Bytes(usize),
    Nothing,
    Closed,
}

impl OutputReader {
    fn read_once(&mut self, listener: &impl PumpListener) -> ReadResult {
        let _reading = listener.lock_reading();
        match rustix::io::read(&self.output, self.buffer.as_mut_slice()) {
            // A pipe reports that its other side is closed by an end of file, a terminal by an error.
            Ok(0) | Err(Errno::IO) => ReadResult::Closed,
            Ok(count) => {
                listener.on_output(&self.buffer[..count]);
                ReadResult::Bytes(count)
            }
            Err(Errno::AGAIN | Errno::INTR) => ReadResult::Nothing,
            Err(cause) => {
                tracing::warn!(%cause, "a command's output could not be read any further");
                ReadResult::Closed
            }
        }
    }
}

fn has_exited(child: &ChildProcess) -> bool {
    is_any_readable(&[child.end_descriptor()])
}

fn is_any_readable(fds: &[std::os::fd::BorrowedFd<'_>]) -> bool {
    let mut fds: Vec<PollFd<'_>> = fds
        .iter()
        .map(|fd| PollFd::new(fd, PollFlags::IN))
        .collect();
    matches!(
        poll(
            &mut fds,
            Some(&Timespec {
                tv_sec: 0,
                tv_nsec: 0
            })
        ),
        Ok(1..)
    )
}

/// Waits until one is ready or the time is up.
fn wait_readable(fds: &[std::os::fd::BorrowedFd<'_>], limit: Option<Duration>) {
    let limit = limit.and_then(|limit| Timespec::try_from(limit).ok());
    let mut fds: Vec<PollFd<'_>> = fds
        .iter()
        .map(|fd| PollFd::new(fd, PollFlags::IN))
        .collect();
    while poll(&mut fds, limit.as_ref()) == Err(Errno::INTR) {}
}

/// Returns the exit status of a child that has ended.
fn collect_exit_status(child: &ChildProcess) -> ExitStatus {
    match child.poll_exit_status() {
        Ok(Some(status)) => status,
        Ok(None) => ExitStatus::Signal("an unknown signal".to_owned()),
        Err(cause) => {
            tracing::error!(pid = child.pid(), %cause, "a command ended and its status is not to be had");
            ExitStatus::Signal("an unknown signal".to_owned())
        }
    }
}

#[cfg(test)]
#[expect(
    clippy::zombie_processes,
    reason = "the tests start a process themselves; the pump waits for it"
)]
mod tests {
    use parking_lot::Mutex;

    use super::super::child_process::watch_process;
    use super::super::output_pipe::create_output_pipe;
    use super::*;

    /// Keeps a writing end of the pipe until it is asked who may hold it.
    struct HeldPipe {
        writing_end: Mutex<Option<OwnedFd>>,
        is_held_by_command: bool,
        reading: Mutex<()>,
        exits: Mutex<Vec<bool>>,
    }

    impl PumpListener for HeldPipe {
        fn lock_reading(&self) -> MutexGuard<'_, ()> {
            self.reading.lock()
        }
        fn on_output(&self, _chunk: &[u8]) {}
        fn on_pause(&self) {}
        fn may_be_held(&self) -> bool {
            self.writing_end.lock().take();
            self.is_held_by_command
        }
        fn on_closed(&self) {}
        fn on_exit(&self, _status: ExitStatus, held: bool) {
            self.exits.lock().push(held);
        }
    }

    #[test]
    fn a_pipe_that_only_a_foreign_process_holds_is_waited_for() {
        for is_held_by_command in [false, true] {
            let (output, writing_end) = create_output_pipe().expect("a pipe");
            let spare = writing_end.try_clone().expect("a descriptor");
            let listener = HeldPipe {
                writing_end: Mutex::new(Some(writing_end)),
                is_held_by_command,
                reading: Mutex::new(()),
                exits: Mutex::new(Vec::new()),
            };
            let command = std::process::Command::new("true").spawn().expect("started");
            let pid = rustix::process::Pid::from_child(&command);
            let child = watch_process(pid, spare).expect("watched");
            pump_output(&child, output, &listener);
            assert_eq!(*listener.exits.lock(), [is_held_by_command]);
        }
    }
}
