//! The folders that belong to commands and stand in the place of the user's. Not here: which folders (home_table), and
//! the caches in them that show what the user's own have (cache_layers).
#![expect(
    clippy::disallowed_methods,
    reason = "the folders of commands are made here, by names that no command chooses"
)]

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::home_table::PRIVATE;

/// Makes the folders of commands that are not there yet, below the folder that commands see as the home.
pub(super) fn make_private_folders(private_home: &Path) -> io::Result<Vec<PathBuf>> {
    let folders = PRIVATE
        .iter()
        .map(|private| private_home.join(private.path));
    let make = |folder: PathBuf| {
        fs::create_dir_all(&folder)?;
        // A command may have closed it to all later ones.
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700))?;
        Ok(folder)
    };
    folders.map(make).collect()
}
