//! Removes a home with everything in it.

use std::fs;
use std::io::{Error, ErrorKind};
use std::path::Path;

use super::disk_usage::open_folders;
use super::error::HomeError;
use super::layout::Home;
use super::runner_lock::RunnerLock;

impl Home {
    /// Removes this home for good, and the link that leads to it if its path is one. `kept` are folders that must not go
    /// with it, such as the workspaces. The lock keeps a runner from starting in it meanwhile.
    ///
    /// # Errors
    /// [`HomeError`] when the folder is no home, when a folder to keep lies in it, or when something in it cannot be
    /// removed.
    pub fn remove_home(self, _lock: RunnerLock, kept: &[&Path]) -> Result<(), HomeError> {
        let path = self.root_dir();
        let refuse =
            |why: &str| HomeError::unwritable(path)(Error::new(ErrorKind::InvalidInput, why));
        if !self.device_file().is_file() {
            return Err(refuse("it has no device.json, so it may be another folder"));
        }
        let folder = fs::canonicalize(path).map_err(HomeError::unreadable(path))?;
        let lies_inside =
            |kept: &&Path| fs::canonicalize(kept).is_ok_and(|kept| kept.starts_with(&folder));
        if let Some(kept) = kept.iter().find(|kept| lies_inside(kept)) {
            return Err(refuse(&format!("{} lies in it", kept.display())));
        }
        open_folders(&folder).map_err(HomeError::unwritable(path))?;
        fs::remove_dir_all(&folder).map_err(HomeError::unwritable(path))?;
        if path.is_symlink() {
            fs::remove_file(path).map_err(HomeError::unwritable(path))?;
        }
        Ok(())
    }
}
