//! The errors that end a runner.

use crate::backend::BackendError;
use crate::journal::JournalError;

/// An error that ends a runner.
#[derive(Debug, thiserror::Error)]
pub enum RunnerError {
    /// Crash-safe state cannot be written or read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The backend refuses this device.
    #[error("the backend will not have this device: {0}")]
    Barred(BackendError),
    /// The address now answers as another backend than the one that this process began to work for. A new process
    /// works for the new one, and leaves the other's requests as they are.
    #[error("another backend answers than before; start again to work for it")]
    OtherBackend,
    /// The one-shot pass needs a backend that answers.
    #[error(transparent)]
    Backend(BackendError),
}
