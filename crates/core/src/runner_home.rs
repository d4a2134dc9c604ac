//! The mark by which a folder is recognised as a home of this program, this runner's or another one's.

use std::path::Path;

/// The folders that every home has from its creation, relative to it.
const HOME_FOLDERS: &[&str] = &["tokens", "secrets", "keys", "state/switches"];

/// Returns whether a folder is a home of this program.
pub fn is_runner_home(folder: &Path) -> bool {
    HOME_FOLDERS.iter().all(|name| folder.join(name).is_dir())
}

/// Returns the home in which a path lies; a home lies in itself.
pub fn find_enclosing_home(path: &Path) -> Option<&Path> {
    path.ancestors().find(|folder| is_runner_home(folder))
}
