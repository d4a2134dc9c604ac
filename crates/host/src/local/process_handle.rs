//! A process that is held open: signals reach it and no other one, and its end can be waited for.

use std::time::Instant;

use rustix::event::{PollFd, PollFlags, poll};

use super::child_process::signal_number;
use super::process_kill::to_timespec;
use super::process_stat::{ProcessStat, TreeMember, ignores_signal, to_pid};
use crate::terminals::StopSignal;

/// An open process: a signal through it cannot reach another one that got the same id.
pub(super) struct ProcessHandle {
    fd: std::os::fd::OwnedFd,
    pid: u32,
}

impl ProcessHandle {
    /// Opens a process, unless its id is that of another one by now.
    pub fn open(member: TreeMember) -> Option<Self> {
        let pid = to_pid(member.pid)?;
        let fd = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()).ok()?;
        let still =
            ProcessStat::read_proc(member.pid).is_some_and(|stat| stat.start == member.start);
        still.then_some(Self {
            fd,
            pid: member.pid,
        })
    }

    /// Returns whether the process ignores SIGINT.
    pub fn ignores_interrupt(&self) -> bool {
        ignores_signal(self.pid, rustix::process::Signal::INT)
    }

    /// Stops the process, and forbids it and what it has begun to start to start others: one that is stopped could be
    /// told to go on by another one.
    pub fn halt(&self) {
        // A process that has just ended is absent from the next scan.
        let stopped = rustix::process::pidfd_send_signal(&self.fd, rustix::process::Signal::STOP);
        let none = rustix::process::Rlimit {
            current: Some(0),
            maximum: Some(0),
        };
        // One that is stopped keeps its number.
        if stopped.is_ok()
            && let Some(pid) = to_pid(self.pid)
        {
            let _ = rustix::process::prlimit(Some(pid), rustix::process::Resource::Nproc, none);
        }
    }

    /// Stops the process for a while.
    pub fn pause(&self) {
        // One that has just ended is absent from the next scan.
        let _ = rustix::process::pidfd_send_signal(&self.fd, rustix::process::Signal::STOP);
    }

    /// Lets a stopped process go on.
    pub fn resume(&self) {
        let _ = rustix::process::pidfd_send_signal(&self.fd, rustix::process::Signal::CONT);
    }

    /// Sends a signal; one that is stopped goes on, to receive it.
    pub fn send_signal(&self, signal: StopSignal) {
        // A process that has just ended, or that we may not signal, shows in the next scan.
        let _ = rustix::process::pidfd_send_signal(&self.fd, signal_number(signal));
        if signal != StopSignal::Kill {
            let _ = rustix::process::pidfd_send_signal(&self.fd, rustix::process::Signal::CONT);
        }
    }
}

/// Waits until all have ended; returns false on timeout.
pub(super) fn wait_until_all_ended(handles: &[ProcessHandle], until: Instant) -> bool {
    wait_until_few_left(handles, until, 0)
}

/// Waits until one has ended, or there is none; returns false on timeout.
pub(super) fn wait_until_any_ended(handles: &[ProcessHandle], until: Instant) -> bool {
    wait_until_few_left(handles, until, handles.len().saturating_sub(1))
}

/// Waits until at most so many are left.
fn wait_until_few_left(handles: &[ProcessHandle], until: Instant, left: usize) -> bool {
    let mut open: Vec<&ProcessHandle> = handles.iter().collect();
    while open.len() > left {
        let time = until.saturating_duration_since(Instant::now());
        let mut fds: Vec<PollFd<'_>> = open
            .iter()
            .map(|handle| PollFd::new(&handle.fd, PollFlags::IN))
            .collect();
        match poll(&mut fds, Some(&to_timespec(time))) {
            Ok(0) => return false,
            Ok(_) => {
                let ended: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
                let mut ended = ended.into_iter();
                open.retain(|_| !ended.next().unwrap_or(false));
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
    true
}
