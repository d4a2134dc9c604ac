//! Checks for free file descriptors: a call that begins without them fails midway, and takes those that the journal and
//! the backend need.

#[cfg(unix)]
use std::os::fd::{AsFd, OwnedFd};

use punie_tool::{ErrorCode, ToolError};

/// The descriptors that must be free for a call to begin. Starting a command opens most of them at once; the rest is
/// for the journal's readers and the next delivery.
#[cfg(unix)]
const REQUIRED_DESCRIPTORS: usize = 16;

/// Returns whether enough descriptors are free for one more call. Tested and not computed, because the limit may have
/// been lowered, or the whole system may have none left.
#[cfg(unix)]
pub fn has_free_descriptors() -> bool {
    // Two tests at a time would take each other's.
    static ONE_TEST: parking_lot::Mutex<()> = parking_lot::Mutex::new(());
    let _one = ONE_TEST.lock();
    // A descriptor that stays open as long as the process.
    let origin = std::io::stderr();
    let spare: Result<Vec<OwnedFd>, _> = (0..REQUIRED_DESCRIPTORS)
        .map(|_| rustix::io::fcntl_dupfd_cloexec(origin.as_fd(), 3))
        .collect();
    // A closed standard error does not mean a lack of descriptors.
    !matches!(
        spare,
        Err(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE)
    )
}

/// Returns true: this system has no relevant limit.
#[cfg(not(unix))]
pub fn has_free_descriptors() -> bool {
    true
}

/// The error for a call that begins without free descriptors.
pub fn no_descriptors_error() -> ToolError {
    ToolError::new(
        ErrorCode::Busy,
        "This device has too many files open to begin another call (its limit of open files is reached). Nothing was \
         run. Ask again when something that runs now has ended, or end a shell in the background with KillShell.",
    )
}
