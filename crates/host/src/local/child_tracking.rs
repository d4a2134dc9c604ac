//! The marks that track a process for its command and its runner, prepared before it is started.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use super::control_group::ControlGroup;
use super::limit_mark::LimitMark;

/// The tracking of a process, set up at its start.
#[derive(Debug, Clone, Default)]
pub(super) struct ChildTracking {
    /// The resource limit that all its descendants have.
    pub limit: Option<LimitMark>,
    /// The control group that it enters.
    pub group: Option<ControlGroup>,
    /// The named pipe for its output, or the socket of its terminal's holder. With it, the process outlives the
    /// runner, and the next one can find and read it.
    pub fifo: Option<PathBuf>,
}

impl ChildTracking {
    /// Prepares the tracking of the command with this mark.
    pub fn from_mark(mark: &str, in_the_background: bool) -> Self {
        Self {
            limit: LimitMark::from_name(mark),
            group: ControlGroup::create(mark, in_the_background),
            fifo: None,
        }
    }

    /// Removes the control group and the pipe if nothing was started.
    pub fn cleanup(&self) {
        self.group.iter().for_each(ControlGroup::remove);
        self.fifo.iter().for_each(|fifo| remove_fifo(fifo));
    }

    /// Prepares the values that the child needs, before it exists.
    pub fn prepare(&self) -> PreparedTracking {
        PreparedTracking {
            limit: self.limit.map(LimitMark::value),
            procs_file: self.group.as_ref().and_then(ControlGroup::open_procs_file),
            outlives: self.fifo.is_some(),
        }
    }
}

/// [`ChildTracking`] in the form that system calls take.
pub(super) struct PreparedTracking {
    limit: Option<u64>,
    procs_file: Option<OwnedFd>,
    outlives: bool,
}

impl PreparedTracking {
    /// Returns whether the child outlives the runner.
    pub fn outlives_runner(&self) -> bool {
        self.outlives
    }

    /// Returns the descriptor to which the child writes to enter the control group.
    pub fn procs_descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.procs_file.as_ref().map(AsFd::as_fd)
    }

    /// Sets the limit that is the mark. Called in the child; makes system calls only.
    pub fn apply_limit_mark(&self) -> io::Result<()> {
        #[cfg(target_os = "linux")]
        if let Some(limit) = self.limit {
            let mark = rustix::process::Rlimit {
                current: Some(limit),
                maximum: Some(limit),
            };
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
