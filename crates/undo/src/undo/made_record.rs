//! The record of what goes to the trash because a request had made it.

use std::io;
use std::path::Path;

#[cfg(target_os = "linux")]
use super::super::FolderSnapshots;
use super::super::Trash;
use super::super::inventory::{MANIFEST, TrashEntry};
use super::super::manifest::{ManifestLine, ManifestPath};
use punie_core::clock::unix_time_ms;
use punie_core::durable::append_json_lines;
use punie_core::ids::RequestId;

impl Trash {
    /// Ends the snapshots of calls whose runner is gone.
    #[cfg(target_os = "linux")]
    pub(super) fn finish_abandoned_snapshots(&self) {
        for fault in FolderSnapshots::new(self, []).finish_abandoned() {
            tracing::warn!("{fault}");
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn finish_abandoned_snapshots(&self) {}

    /// Writes down what goes to the trash because a request had made it: it is a removal of its own, which can be undone.
    pub(super) fn record_made(
        entry: &TrashEntry,
        folder: &Path,
        items: Vec<(ManifestPath, String)>,
    ) -> io::Result<()> {
        if items.is_empty() {
            return Ok(());
        }
        make_made_folder(folder)?;
        let begun = ManifestLine::Begun {
            request: RequestId::new(),
            tool: format!("undo {}", entry.request),
            at_ms: unix_time_ms(),
        };
        let removed = items
            .into_iter()
            .map(|(path, item)| ManifestLine::Removed { path, item });
        let lines: Vec<ManifestLine> = std::iter::once(begun).chain(removed).collect();
        append_json_lines(&folder.join(MANIFEST), &lines).map(drop)
    }
}

fn make_made_folder(folder: &Path) -> io::Result<()> {
    std::fs::create_dir(folder)
}

/// Everything is back where it was.
pub(super) fn discard_made_record(folder: &Path) {
    let _ = std::fs::remove_file(folder.join(MANIFEST));
    let _ = std::fs::remove_dir(folder);
}
