//! Reads a file that git ignores, such as `.env`: short text comes back if a call removes it. That it changes is not looked
//! for, since programs write logs and caches all the time.

use std::ffi::OsString;
use std::os::fd::OwnedFd;

use super::super::file_reading::{change_stamp, file_size, read_whole_file, stat_entry};
use super::super::scan_limits::ScanError;
use super::super::tree_node::{TreeNode, UncoveredReason};
use super::TreeScan;

/// The largest file of which the content is stored, in bytes.
const LARGEST_IGNORED: u64 = 64 << 10;
/// The most bytes of all of them in a workspace. Those that come later, by their paths, are not stored.
const MAX_IGNORED_BYTES: u64 = 16 << 20;

impl TreeScan<'_> {
    /// Reads an ignored file. `None` if it is gone.
    pub(super) fn scan_ignored_file(
        &mut self,
        folder: &OwnedFd,
        name: OsString,
        known: Option<&TreeNode>,
    ) -> Result<Option<TreeNode>, ScanError> {
        let mut node = TreeNode::uncovered(name, UncoveredReason::Ignored, None);
        let Some(status) = stat_entry(folder, &node.name)? else {
            return Ok(None);
        };
        let size = file_size(&status);
        let is_over_limit = self.ignored_bytes.saturating_add(size) > MAX_IGNORED_BYTES;
        if self.counted.is_some() || size > LARGEST_IGNORED || is_over_limit {
            return Ok(Some(node));
        }
        if let Some(known) = known.filter(|known| known.stamp == Some(change_stamp(&status))) {
            node.stamp = known.stamp;
            node.removable.clone_from(&known.removable);
        } else if size > self.ignored_room {
            self.context.contents.mark_full();
        } else if let Ok((read, Some(status))) = read_whole_file(folder, &node.name) {
            self.ignored_room -= size;
            // One that cannot be read, has become larger, or has no room in the store, is not covered.
            let is_short_text = !read.contains(&0) && read.len() as u64 <= LARGEST_IGNORED;
            if is_short_text {
                let stored = self.store_file(&read, status.st_mode & 0o7777);
                node.removable = stored.ok().map(Box::new);
            }
            if !is_short_text || node.removable.is_some() {
                node.stamp = self.settled_stamp(&status);
            }
        }
        if node.removable.is_some() {
            self.ignored_bytes += size;
        }
        Ok(Some(node))
    }
}
