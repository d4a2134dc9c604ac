//! The attempts to read and to write in the home, which show that its disk works.

use std::io::{self, Write as _};
use std::path::PathBuf;

use super::layout::Home;
use punie_core::durable::open_private_file;

/// A file that exists only while an attempt to write runs.
#[derive(Debug, Clone)]
pub struct CanaryFile {
    path: PathBuf,
    /// A file that each home of a runner has.
    device_file: PathBuf,
}

impl CanaryFile {
    /// Returns the file of this home.
    pub fn in_home(home: &Home) -> Self {
        Self {
            path: home.canary_file(),
            device_file: home.device_file(),
        }
    }

    /// Reads a file of the home.
    ///
    /// # Errors
    /// The system's.
    pub fn try_read(&self) -> io::Result<()> {
        std::fs::read(&self.device_file).map(drop)
    }

    /// Writes the file and removes it.
    ///
    /// # Errors
    /// The system's.
    pub fn try_write(&self) -> io::Result<()> {
        let file = open_private_file(&self.path, |options| {
            options.write(true).create(true).truncate(true)
        });
        let written = file.and_then(|mut file| file.write_all(b"canary\n"));
        let removed = std::fs::remove_file(&self.path);
        written.and(removed)
    }
}
