//! What a call made, compared with what it left: everything else in it would be lost with it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::path_state::read_item_content;
use super::snapshot::PathContent;

/// The paths that a call made, from the topmost of them, each with what it left there.
pub(super) type MadeTree = BTreeMap<PathBuf, PathContent>;

/// Returns a path that is not as the call left it, if there is one. What snapshots do not cover goes with its folder.
pub(super) fn find_other_content(top: &Path, made: &MadeTree) -> Option<PathBuf> {
    let mut waiting = vec![PathBuf::new()];
    while let Some(below) = waiting.pop() {
        let at = top.join(&below);
        // An empty path would add a slash at the end, which leads through a link.
        let at = if below.as_os_str().is_empty() {
            top
        } else {
            &at
        };
        let is_as_left = match made.get(&below) {
            Some(PathContent::Uncovered { .. }) => true,
            Some(PathContent::Folder { .. }) => {
                let entries = at.read_dir().into_iter().flatten().flatten();
                waiting.extend(entries.map(|entry| below.join(entry.file_name())));
                at.symlink_metadata().is_ok_and(|found| found.is_dir())
            }
            Some(left) => read_item_content(at).as_ref() == Some(left),
            None => false,
        };
        if !is_as_left {
            return Some(below);
        }
    }
    None
}
