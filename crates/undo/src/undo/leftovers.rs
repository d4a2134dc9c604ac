//! What an undo that was cut off left beside a file that it replaced.

use std::ffi::OsStr;

use super::super::content_store::hash_file;
use super::super::snapshot::PathContent;
use super::snapshot_coverage::SnapshotCoverage;
use punie_host::Workspace;
use punie_host::workspace::FolderHandle;

/// The hexadecimal digits in the name of a temporary file.
const RANDOM_DIGITS: usize = 16;

/// Removes the temporary files with what a file held before or after the call.
pub(super) fn remove_leftovers(workspace: &Workspace, coverage: &SnapshotCoverage) {
    for change in coverage.changes.values() {
        let contents = [&change.before, &change.after];
        let hashes: Vec<&str> = contents
            .into_iter()
            .flatten()
            .filter_map(|content| match content {
                PathContent::File { sha256, .. } => Some(sha256.as_str()),
                _ => None,
            })
            .collect();
        if hashes.is_empty() {
            continue;
        }
        let Some(path) = workspace.path_if_inside(&change.path.0) else {
            continue;
        };
        if let Ok((folder, name)) = path.open_parent_folder(false) {
            remove_beside(&folder, &name, &hashes);
        }
    }
}

fn remove_beside(folder: &FolderHandle, name: &OsStr, hashes: &[&str]) {
    let stem: String = name.to_string_lossy().chars().take(40).collect();
    let is_temporary = |other: &OsStr| {
        let digits = other
            .to_str()
            .and_then(|other| {
                other
                    .strip_prefix('.')?
                    .strip_prefix(&stem)?
                    .strip_prefix('.')
            })
            .and_then(|rest| rest.strip_suffix(".tmp"));
        digits.is_some_and(|digits| {
            digits.len() == RANDOM_DIGITS && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
        })
    };
    for other in folder.entry_names().unwrap_or_default() {
        if !is_temporary(&other) {
            continue;
        }
        let hash = folder
            .open_entry_file(&other)
            .and_then(|mut file| hash_file(&mut file));
        if hash.is_ok_and(|(hash, _)| hashes.contains(&hash.as_str())) {
            let _ = folder.remove_file_entry(&other);
        }
    }
}
