//! The folders that belong to commands and stand in the place of the user's.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::home_table::PRIVATE;
use super::settings_table::{ALWAYS_THERE, SHUT_FOLDERS};

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
    let folders = folders.map(make).collect();
    for name in ALWAYS_THERE {
        clear_place(&private_home.join(name), fs::FileType::is_file);
    }
    for name in SHUT_FOLDERS {
        clear_place(&private_home.join(name), fs::FileType::is_dir);
    }
    folders
}

/// Removes what a command has put where settings are shown, if they cannot be shown in its place.
fn clear_place(place: &Path, can_be_covered: impl Fn(&fs::FileType) -> bool) {
    let Ok(metadata) = place.symlink_metadata() else {
        return;
    };
    // What cannot be removed, or comes in between, is not covered.
    let _ = match metadata.file_type() {
        kind if can_be_covered(&kind) => Ok(()),
        kind if kind.is_dir() => fs::remove_dir_all(place),
        _ => fs::remove_file(place),
    };
}
