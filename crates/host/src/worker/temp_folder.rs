//! Private temporary folders: SQLite's temporary files, and copies of databases.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use punie_core::durable::private_folder_builder;

/// A private folder that is removed with all that is in it.
#[derive(Debug)]
pub struct TempFolder(PathBuf);

impl TempFolder {
    /// Creates one below this folder, which is created where it is missing.
    ///
    /// # Errors
    /// The system refuses.
    pub fn create_below(root: &Path) -> io::Result<Self> {
        fs::create_dir_all(root)?;
        let folder = root.join(format!("worker-{}", uuid::Uuid::new_v4()));
        private_folder_builder().create(&folder)?;
        Ok(Self(folder))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        if let Err(cause) = fs::remove_dir_all(&self.0) {
            tracing::warn!(%cause, "a temporary folder could not be removed");
        }
    }
}
