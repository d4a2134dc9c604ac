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
    /// One pass needs a backend that answers.
    #[error(transparent)]
    Backend(BackendError),
}
