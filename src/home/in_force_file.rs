//! Stores the settings that the running runner uses, for commands in other processes.

use std::path::PathBuf;

use super::error::HomeError;
use super::layout::Home;
use super::private_files::{remove_file_if_exists, replace_private_file};

/// The file with the published settings.
#[derive(Debug, Clone)]
pub struct InForceFile {
    path: PathBuf,
}

impl InForceFile {
    /// Returns the file of this home.
    pub fn in_home(home: &Home) -> Self {
        Self {
            path: home.in_force_file(),
        }
    }

    /// Replaces the text in one step.
    ///
    /// # Errors
    /// [`HomeError`] when it cannot be written.
    pub fn write_text(&self, text: &[u8]) -> Result<(), HomeError> {
        replace_private_file(&self.path, text)
    }

    /// Returns the text, if there is one that can be read.
    pub fn read_text(&self) -> Option<Vec<u8>> {
        std::fs::read(&self.path).ok()
    }

    /// Removes the text of an earlier runner.
    ///
    /// # Errors
    /// [`HomeError`] when it cannot be removed.
    pub fn remove_text(&self) -> Result<(), HomeError> {
        remove_file_if_exists(&self.path).map(|_| ())
    }
}
