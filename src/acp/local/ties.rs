//! What ties a process to its command and to the runner, decided before it is made. Not here: tying (launch), and
//! finding who is tied (family).

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use super::control_group::ControlGroup;
use super::limit_mark::LimitMark;

/// What a process is started with beside its program.
#[derive(Debug, Clone, Default)]
pub(super) struct Ties {
    /// The limit that all its descendants have.
    pub limit: Option<LimitMark>,
    /// The control group that it enters.
    pub group: Option<ControlGroup>,
    /// The named pipe for its output, or the socket where its terminal is held. With it the process lives on when the
    /// runner has ended, for the next one to find and to read.
    pub fifo: Option<PathBuf>,
}

impl Ties {
    /// For the command with this mark.
    pub fn of_command(mark: &str, in_the_background: bool) -> Self {
        Self { limit: LimitMark::of(mark), group: ControlGroup::make(mark, in_the_background), fifo: None }
    }

    /// Nothing was started: what was made for it goes.
    pub fn untie(&self) {
        self.group.iter().for_each(ControlGroup::remove);
        self.fifo.iter().for_each(|fifo| remove_fifo(fifo));
    }

    /// What the child needs of them, made before it exists.
    pub fn knots(&self) -> Knots {
        Knots {
            limit: self.limit.map(LimitMark::value),
            door: self.group.as_ref().and_then(ControlGroup::door),
            outlives: self.fifo.is_some(),
        }
    }
}

/// [`Ties`] as system calls take them.
pub(super) struct Knots {
    limit: Option<u64>,
    door: Option<OwnedFd>,
    outlives: bool,
}

impl Knots {
    /// Whether the child is to live on without the runner.
    pub fn outlives(&self) -> bool {
        self.outlives
    }

    /// What is written to, to enter the control group.
    pub fn door(&self) -> Option<BorrowedFd<'_>> {
        self.door.as_ref().map(AsFd::as_fd)
    }

    /// Called in the child: the limit from here on is the mark. System calls only.
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

/// The named pipe is not needed any more.
pub(super) fn remove_fifo(fifo: &Path) {
    // One that is gone already, or that the system does not let go, is looked for at the next start.
    let _ = rustix::fs::unlink(fifo);
}
