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

/// Checks that tools may work in this folder, which has no links: they could read the keys of a home that it lies in or
/// holds, and change the owner's rules there. `home` is this runner's.
///
/// # Errors
/// The rest of a sentence that begins with the folder, and the remedy.
pub fn check_outside_homes(folder: &Path, home: &Path) -> Result<(), String> {
    let shown = home.display();
    if folder.starts_with(home) {
        return Err(format!(
            "lies in the runner's home {shown}. Name a folder outside of it"
        ));
    }
    if home.starts_with(folder) {
        return Err(format!(
            "contains the runner's home {shown}, whose keys the tools could then read. Name a folder below it \
             (--workspace DIR), or put the home elsewhere (--home DIR)"
        ));
    }
    match find_enclosing_home(folder) {
        None => Ok(()),
        Some(other) => Err(format!(
            "lies in a home of punie-runner ({}), which holds keys and tokens. Name a folder outside of it",
            other.display()
        )),
    }
}
