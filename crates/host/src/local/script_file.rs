//! A script file for another program's terminal, readable by its owner only and removed when dropped. Not here: the
//! script's text.

#![expect(
    clippy::disallowed_methods,
    reason = "the folder of scripts is this file's alone"
)]

use std::fs::DirBuilder;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use punie_core::durable::open_private_file;
use punie_core::ids::to_hex;

/// The age from which a script left by a crash is removed: no command of a call runs so long.
const STALE_AGE: Duration = Duration::from_hours(24);

/// A script on disk.
#[derive(Debug)]
pub struct ScriptFile(PathBuf);

impl ScriptFile {
    /// Writes a script into this folder, which is created if it does not exist. Blocks.
    ///
    /// # Errors
    /// The disk's.
    pub fn write_script(folder: &Path, text: &str) -> io::Result<Self> {
        let mut folders = DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut folders, 0o700);
        folders.recursive(true).create(folder)?;
        remove_stale_scripts(folder);
        let mut random = [0_u8; 12];
        getrandom::fill(&mut random).map_err(|cause| io::Error::other(cause.to_string()))?;
        let path = folder.join(format!("{}.sh", to_hex(&random)));
        let mut file = open_private_file(&path, |options| options.write(true).create_new(true))?;
        let script = Self(path);
        file.write_all(text.as_bytes())?;
        Ok(script)
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

/// Removes scripts that crashes left behind.
fn remove_stale_scripts(folder: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries.filter_map(Result::ok) {
        let made = entry.metadata().and_then(|metadata| metadata.modified());
        let age = made
            .ok()
            .and_then(|made| SystemTime::now().duration_since(made).ok());
        if age.is_some_and(|age| age > STALE_AGE) && std::fs::remove_file(entry.path()).is_err() {
            tracing::debug!(path = %entry.path().display(), "an old script is left");
        }
    }
}
