//! Whether the process may still open files: a call that begins without room for them fails in the middle, and takes
//! what the journal and the backend need with it. Not here: who refuses the call (permission).

#[cfg(unix)]
use std::os::fd::{AsFd, OwnedFd};

use crate::tool::{ErrorCode, ToolError};

/// What must be free for a call to begin: the most that starting a command opens at once, and what it leaves to the
/// journal's readers and the next delivery.
#[cfg(unix)]
const SPARE: usize = 16;

/// Whether there is room for one more call. Tried and not computed: the limit may have been lowered meanwhile, and
/// the system as a whole may have none left.
#[cfg(unix)]
pub fn are_to_be_had() -> bool {
    // Something that is open for as long as the process is.
    let origin = std::io::stderr();
    let spare: Result<Vec<OwnedFd>, _> =
        (0..SPARE).map(|_| rustix::io::fcntl_dupfd_cloexec(origin.as_fd(), 3)).collect();
    // A process whose standard error was closed has no less room for that.
    !matches!(spare, Err(rustix::io::Errno::MFILE | rustix::io::Errno::NFILE))
}

/// Yes: this system has no such limit to speak of.
#[cfg(not(unix))]
pub fn are_to_be_had() -> bool {
    true
}

/// The refusal of a call for which no files can be opened.
pub fn no_descriptors() -> ToolError {
    ToolError::new(
        ErrorCode::Busy,
        "This device has too many files open to begin another call (its limit of open files is reached). Nothing was \
         run. Ask again when something that runs now has ended, or end a shell in the background with KillShell.",
    )
}
