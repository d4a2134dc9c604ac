//! Turns this home into a new device: sets the old identity and its open work aside, so that the next identity starts
//! empty.

use std::fs;
use std::path::{Path, PathBuf};

use super::error::HomeError;
use super::layout::Home;
use super::tokens::{BackendTokens, TokenName};
use punie_core::clock::unix_time_ms;
use punie_core::durable;

/// Renames the identity, its session and its journal to unused names, so that the owner keeps them. No runner may use
/// this home meanwhile. Returns the new names.
///
/// # Errors
/// [`HomeError::Unwritable`] when a file cannot be renamed. The journal is renamed first and the identity last, so that
/// an interrupted call can be repeated.
pub fn set_identity_aside(home: &Home) -> Result<Vec<PathBuf>, HomeError> {
    let suffix = format!("aside-{}", unix_time_ms());
    let journal = home.journal_file();
    let beside = |ending: &str| PathBuf::from(format!("{}{ending}", journal.display()));
    let mut files = vec![beside(""), beside("-wal"), beside("-shm")];
    let sessions = BackendTokens::for_all(home)?
        .into_iter()
        .chain([BackendTokens::unassigned(home)]);
    files.extend(sessions.map(|tokens| tokens.path(TokenName::Device)));
    files.extend([
        home.key_file(),
        home.unfinished_device_file(),
        home.device_file(),
    ]);
    let mut moved = Vec::new();
    for file in files {
        moved.extend(rename_aside(&file, &suffix)?);
    }
    for folder in [
        home.state_dir(),
        home.keys_dir(),
        home.root_dir().to_owned(),
    ] {
        durable::sync_folder(&folder).map_err(HomeError::unwritable(&folder))?;
    }
    Ok(moved)
}

fn rename_aside(file: &Path, suffix: &str) -> Result<Option<PathBuf>, HomeError> {
    let aside = PathBuf::from(format!("{}.{suffix}", file.display()));
    let renamed = durable::allow_missing(fs::rename(file, &aside));
    let renamed = renamed.map_err(HomeError::unwritable(file))?;
    Ok(renamed.map(|()| aside))
}
