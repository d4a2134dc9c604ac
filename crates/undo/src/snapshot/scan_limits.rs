//! The limits of a snapshot, and the reasons why there is none.

use std::io;

/// The limits of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ScanLimits {
    /// Files and folders where no git repository is.
    pub files: usize,
    pub repository_files: usize,
    /// The bytes of all files.
    pub bytes: u64,
}

/// The reason why there is no snapshot, as it follows "not covered: ".
#[derive(Debug, thiserror::Error)]
pub(crate) enum ScanError {
    #[error("it holds more than {0} files that git does not ignore")]
    TooMany(usize),
    #[error("its files are larger than {0} together")]
    TooLarge(String),
    #[error("it does not fit into the trash (max_mb under [trash]), or on its disk")]
    NoRoom,
    #[error("reading it took longer than two minutes")]
    TooSlow,
    /// The reason of an earlier scan, since which nothing can have changed.
    #[error("{0}")]
    Known(String),
    #[error("{0}")]
    Failed(#[from] io::Error),
}

impl ScanError {
    /// Returns whether something may not be read.
    pub fn is_denied(&self) -> bool {
        matches!(self, Self::Failed(cause) if cause.kind() == io::ErrorKind::PermissionDenied)
    }
}
