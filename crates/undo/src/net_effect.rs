//! The net effect of a request on each path, from the lines of its manifests.

use std::path::PathBuf;

use super::inventory::TrashEntry;
use super::manifest::{FileBefore, ManifestLine};

/// The change that file tools made to one path: its state before and after the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NetChange {
    pub path: PathBuf,
    pub before: Option<FileBefore>,
    pub after: Option<String>,
    pub mode_changes: bool,
}

/// Adds up the changes by file tools, path by path.
pub(super) fn sum_file_changes(entry: &TrashEntry) -> Vec<NetChange> {
    let mut changes: Vec<NetChange> = Vec::new();
    for line in entry.manifest_lines() {
        match line {
            ManifestLine::File {
                path,
                before,
                after,
                mode_changes,
            } => {
                let before = before.clone();
                let after = after.clone();
                add_change(
                    &mut changes,
                    NetChange {
                        path: path.0.clone(),
                        before,
                        after,
                        mode_changes: *mode_changes,
                    },
                );
            }
            ManifestLine::Move { from, to, sha256 } => {
                let moved = FileBefore {
                    sha256: sha256.clone(),
                    size: 0,
                    mode: None,
                    kept: false,
                };
                let change = |path: &PathBuf, before, after| NetChange {
                    path: path.clone(),
                    before,
                    after,
                    mode_changes: false,
                };
                add_change(&mut changes, change(&from.0, Some(moved), None));
                add_change(&mut changes, change(&to.0, None, Some(sha256.clone())));
            }
            _ => {}
        }
    }
    changes
}

/// Adds a later change of a path to the earlier ones. Where the earlier one did not happen (the call was cut off, and run
/// again on something else), only the later one counts.
fn add_change(changes: &mut Vec<NetChange>, next: NetChange) {
    let Some(known) = changes.iter_mut().find(|known| known.path == next.path) else {
        return changes.push(next);
    };
    let found = next.before.as_ref().map(|before| &before.sha256);
    let was = known.before.as_ref().map(|before| &before.sha256);
    if found != known.after.as_ref() && found != was {
        known.before = next.before;
    }
    known.after = next.after;
    known.mode_changes |= next.mode_changes;
}
