//! A script file for another program's terminal, readable by its owner only and removed when dropped.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use punie_core::durable::{allow_missing, open_private_file, private_folder_builder};
use punie_core::ids::to_hex;

/// A script on disk.
#[derive(Debug)]
pub struct ScriptFile(PathBuf);

impl ScriptFile {
    /// Writes a script into this folder, which is created if it does not exist. Blocks.
    ///
    /// # Errors
    /// The disk's.
    pub fn write_script(folder: &Path, text: &str) -> io::Result<Self> {
        private_folder_builder().recursive(true).create(folder)?;
        let mut random = [0_u8; 12];
        getrandom::fill(&mut random).map_err(|cause| io::Error::other(cause.to_string()))?;
        let path = folder.join(format!("{}.sh", to_hex(&random)));
        let mut file = open_private_file(&path, |options| options.write(true).create_new(true))?;
        let script = Self(path);
        file.write_all(text.as_bytes())?;
        Ok(script)
    }

    /// Removes the scripts that a killed process left in this folder. For a process that begins to write there.
    ///
    /// # Errors
    /// The disk's.
    pub fn remove_left(folder: &Path) -> io::Result<()> {
        allow_missing(std::fs::remove_dir_all(folder)).map(drop)
    }

    /// Returns the script's path.
    pub fn script_path(&self) -> &Path {
        &self.0
    }
}

impl Drop for ScriptFile {
    fn drop(&mut self) {
        if let Err(cause) = std::fs::remove_file(&self.0) {
            tracing::debug!(path = %self.0.display(), %cause, "a script is left");
        }
    }
}
