//! The marks that track a process for its command and its runner, prepared before it is started. Not here: applying
//! them (launch), and finding marked processes.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use super::control_group::ControlGroup;
use super::limit_mark::LimitMark;

/// The tracking of a process, set up at its start.
#[derive(Debug, Clone, Default)]
pub(super) struct Ties {
    /// The resource limit that all its descendants have.
    pub limit: Option<LimitMark>,
    /// The control group that it enters.
    pub group: Option<ControlGroup>,
    /// The named pipe for its output, or the socket of its terminal's holder. With it, the process outlives the
    /// runner, and the next one can find and read it.
    pub fifo: Option<PathBuf>,
}

impl Ties {
    /// Prepares the tracking of the command with this mark.
    pub fn of_command(mark: &str, in_the_background: bool) -> Self {
        Self { limit: LimitMark::of(mark), group: ControlGroup::make(mark, in_the_background), fifo: None }
    }

    /// Removes the control group and the pipe if nothing was started.
    pub fn untie(&self) {
        self.group.iter().for_each(ControlGroup::remove);
        self.fifo.iter().for_each(|fifo| remove_fifo(fifo));
    }

    /// Prepares the values that the child needs, before it exists.
    pub fn knots(&self) -> Knots {
        Knots {
            limit: self.limit.map(LimitMark::value),
            door: self.group.as_ref().and_then(ControlGroup::door),
            outlives: self.fifo.is_some(),
        }
    }
}

/// [`Ties`] in the form that system calls take.
pub(super) struct Knots {
    limit: Option<u64>,
    door: Option<OwnedFd>,
    outlives: bool,
}

impl Knots {
    /// Returns whether the child outlives the runner.
    pub fn outlives(&self) -> bool {
        self.outlives
    }

    /// Returns the descriptor to which the child writes to enter the control group.
    pub fn door(&self) -> Option<BorrowedFd<'_>> {
        self.door.as_ref().map(AsFd::as_fd)
    }

    /// Sets the limit that is the mark. Called in the child; makes system calls only.
    pub fn mark(&self) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        if let Some(limit) = self.limit {
            let mark = rustix::process::Rlimit { current: Some(limit), maximum: Some(limit) };
            rustix::process::setrlimit(rustix::process::Resource::Locks, mark)?;
        }
        #[cfg(not(target_os = "linux"))]
        let _ = self.limit;
        Ok(())
    }
}

/// Removes a named pipe that is not needed any more.
pub(super) fn remove_fifo(fifo: &Path) {
    // If it cannot be removed now, the next start of the runner tries again.
    let _ = rustix::fs::unlink(fifo);
}
