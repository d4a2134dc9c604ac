//! How a runner may end without being asked to.

use crate::backend::BackendError;
use crate::journal::JournalError;

/// Why the runner ended without being asked to.
#[derive(Debug, thiserror::Error)]
pub enum RunnerError {
    /// What must survive a crash cannot be written or read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The backend will not have this device.
    #[error("the backend will not have this device: {0}")]
    Barred(BackendError),
    /// Another backend answers at the address than the one that this process began to work for. A new start works for
    /// it, and leaves what is the other's as it is.
    #[error("another backend answers than before; start again to work for it")]
    OtherBackend,
    /// One pass needs a backend that answers.
    #[error(transparent)]
    Backend(BackendError),
}
