//! The paths, files and bytes of one request in the trash.

use std::path::Path;

use super::display_path;
use super::inventory::{ManifestRecord, TrashEntry};
use super::manifest::{ManifestLine, ManifestPath};
use super::snapshot::SnapshotEnd;

impl TrashEntry {
    /// The paths that the request changed.
    pub fn changed_paths(&self) -> Vec<&Path> {
        let mut paths: Vec<&Path> = self
            .manifest_lines()
            .flat_map(paths_in_line)
            .map(|name| name.0.as_path())
            .collect();
        paths.sort_unstable();
        paths.dedup();
        paths
    }

    /// Returns whether anything is kept of it, besides that it was there.
    pub(super) fn keeps_anything(&self) -> bool {
        let is_record = |line: &ManifestLine| {
            matches!(line, ManifestLine::Snapshot(_) | ManifestLine::Begun { .. })
        };
        !self.manifest_lines().all(is_record)
    }

    /// Lists the workspaces without snapshots, each with the reason. `None` if there are no snapshots at all.
    pub fn snapshot_gaps(&self) -> Option<Vec<String>> {
        let ends = self.manifest_lines().filter_map(|line| match line {
            ManifestLine::Snapshot(end) => Some(end),
            _ => None,
        });
        let mut ends = ends.peekable();
        ends.peek()?;
        let gap = |end: &SnapshotEnd| {
            let why = end.off.as_ref()?;
            Some(format!("{} ({why})", display_path(&end.folder.0)))
        };
        Some(ends.filter_map(gap).collect())
    }

    /// The number of files that are kept, or were there to be kept.
    pub fn file_count(&self) -> u64 {
        self.sum_lines(|line| match line {
            ManifestLine::File { .. }
            | ManifestLine::Move { .. }
            | ManifestLine::Removed { .. } => (1, 0),
            ManifestLine::Changed(change) => (0, u64::from(change.is_of_file())),
            _ => (0, 0),
        })
    }

    /// The bytes that they had.
    pub fn total_bytes(&self) -> u64 {
        let of_undo: u64 = self.records.iter().map(ManifestRecord::disk_bytes).sum();
        let of_call = self.sum_lines(|line| match line {
            ManifestLine::File {
                before: Some(before),
                ..
            } if before.kept => (before.size, 0),
            ManifestLine::Changed(change) => (0, change.size_before()),
            _ => (0, 0),
        });
        of_undo + of_call
    }

    /// Adds up what the lines of file tools say, and what snapshots say. The two overlap, so the larger counts.
    fn sum_lines(&self, count: impl Fn(&ManifestLine) -> (u64, u64)) -> u64 {
        let add = |sum: (u64, u64), line: (u64, u64)| (sum.0 + line.0, sum.1 + line.1);
        let (tools, snapshots) = self.manifest_lines().map(count).fold((0, 0), add);
        tools.max(snapshots)
    }

    /// Returns whether it changed this path, or something above or below it.
    pub(super) fn overlaps_path(&self, path: &Path) -> bool {
        self.manifest_lines()
            .flat_map(paths_in_line)
            .any(|name| path.starts_with(&name.0) || name.0.starts_with(path))
    }
}

fn paths_in_line(line: &ManifestLine) -> Vec<&ManifestPath> {
    match line {
        ManifestLine::File { path, .. } | ManifestLine::Removed { path, .. } => vec![path],
        ManifestLine::Move { from, to, .. } => vec![from, to],
        ManifestLine::Changed(change) => vec![&change.path],
        ManifestLine::Begun { .. } | ManifestLine::Snapshot(_) => Vec::new(),
    }
}
