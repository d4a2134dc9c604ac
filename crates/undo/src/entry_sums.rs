//! The paths, files and bytes of one request in the trash.

use std::path::Path;

use super::display_path;
use super::inventory::TrashEntry;
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
            matches!(
                line,
                ManifestLine::Snapshot(_) | ManifestLine::Begun { .. } | ManifestLine::Now { .. }
            )
        };
        !self.manifest_lines().all(is_record)
    }

    /// Lists the workspaces without snapshots, each with the reason. `None` if there are no snapshots at all.
    pub fn snapshot_gaps(&self) -> Option<Vec<String>> {
        let ends = self.tool_lines().filter_map(|line| match line {
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

    /// The commands of which nothing is kept.
    pub fn untracked_commands(&self) -> impl Iterator<Item = &str> {
        self.manifest_lines().filter_map(|line| match line {
            ManifestLine::Untracked { command } => Some(command.as_str()),
            _ => None,
        })
    }

    /// The number of files that are kept, or were there to be kept.
    pub fn file_count(&self) -> u64 {
        self.sum_lines(|line| match line {
            ManifestLine::File { .. } | ManifestLine::Move { .. } => (1, 0),
            ManifestLine::Changed(change) => (0, u64::from(change.is_of_file())),
            ManifestLine::Removed { files, .. } => (*files, 0),
            _ => (0, 0),
        })
    }

    /// The bytes that they had.
    pub fn total_bytes(&self) -> u64 {
        self.sum_lines(|line| match line {
            ManifestLine::File {
                before: Some(before),
                ..
            } if before.kept => (before.size, 0),
            ManifestLine::Changed(change) => (0, change.size_before()),
            ManifestLine::Removed { bytes, .. } => (*bytes, 0),
            _ => (0, 0),
        })
    }

    /// Adds up what the lines of tools and shims say, and what snapshots say. The two overlap, so the larger counts.
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
        ManifestLine::File { path, .. }
        | ManifestLine::Removed { path, .. }
        | ManifestLine::EmptyFolder { path, .. }
        | ManifestLine::ForGood { path } => vec![path],
        ManifestLine::Move { from, to, .. } => vec![from, to],
        ManifestLine::Changed(change) => vec![&change.path],
        ManifestLine::Now { .. }
        | ManifestLine::Begun { .. }
        | ManifestLine::Stayed { .. }
        | ManifestLine::Snapshot(_)
        | ManifestLine::Untracked { .. } => Vec::new(),
    }
}
