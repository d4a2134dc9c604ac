//! What the snapshots of a call cover, and which of the things that its commands removed come back by the trash all the
//! same: whole, with times and with what git ignores in them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::super::inventory::TrashEntry;
use super::super::manifest::ManifestLine;
use super::super::net_effect::{RemovedPath, RemovedThing};
use super::super::path_state::read_item_content;
use super::super::snapshot::{PathChange, PathContent, SnapshotEnd};
use super::super::undo_steps::RemovedContent;

/// The snapshots of a call. Without any, nothing is covered.
#[derive(Debug, Default)]
pub(super) struct SnapshotCoverage {
    pub ends: Vec<SnapshotEnd>,
    /// The paths that differ, in order: a folder comes before its entries.
    pub changes: BTreeMap<PathBuf, PathChange>,
}

/// The way in which something that a command removed comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ReturnBy {
    /// Out of the trash.
    Trash,
    /// By the snapshot, if it was there before the call at all.
    Snapshot,
}

impl SnapshotCoverage {
    pub fn from_entry(entry: &TrashEntry) -> Self {
        let mut coverage = Self::default();
        for line in entry.tool_lines() {
            match line {
                ManifestLine::Snapshot(end) => coverage.ends.push(end.clone()),
                ManifestLine::Changed(change) => {
                    let path = change.path.0.clone();
                    coverage.changes.insert(path, change.clone());
                }
                _ => {}
            }
        }
        coverage
    }

    /// Returns whether there were snapshots of all workspaces.
    pub fn is_whole(&self) -> bool {
        !self.ends.is_empty() && self.ends.iter().all(|end| end.off.is_none())
    }

    /// Returns whether a snapshot shows that this path changed, and has what it was.
    pub fn has_before(&self, path: &Path) -> bool {
        let before = self
            .changes
            .get(path)
            .and_then(|change| change.before.as_ref());
        before.is_some_and(|before| !matches!(before, PathContent::Uncovered { .. }))
    }

    /// Chooses the way in which something comes back that a command removed at this time.
    pub fn choose_return(&self, removed: &RemovedPath) -> ReturnBy {
        let RemovedPath { path, what, at_us } = removed;
        let covered = self.ends.iter().filter(|end| end.off.is_none());
        let mut around = covered.filter(|end| path.starts_with(&end.folder.0));
        let top = match around.next() {
            // A process of the call may have removed it later.
            Some(end) if *at_us <= end.ended_us => end.folder.0.as_path(),
            _ => return ReturnBy::Trash,
        };
        let around = path.ancestors().take_while(|above| *above != top);
        let is_uncovered = around
            .filter_map(|above| self.changes.get(above)?.before.as_ref())
            .any(|before| matches!(before, PathContent::Uncovered { .. }));
        let is_there = path.symlink_metadata().is_ok();
        match (self.changes.get(path.as_path()), what) {
            _ if is_uncovered => ReturnBy::Trash,
            _ if is_there => ReturnBy::Snapshot,
            (Some(_), RemovedThing::Kept(RemovedContent::Item(item)))
                if self.find_difference(path, item).is_none() =>
            {
                ReturnBy::Trash
            }
            (None, _) if is_outside_of_snapshots(top, path) => ReturnBy::Trash,
            _ => ReturnBy::Snapshot,
        }
    }

    /// Returns a path in an item of the trash that is not as it was before the call.
    fn find_difference(&self, path: &Path, item: &Path) -> Option<PathBuf> {
        let mut waiting = vec![(path.to_owned(), item.to_owned())];
        while let Some((path, at)) = waiting.pop() {
            let found = read_item_content(&at);
            match (
                self.changes
                    .get(&path)
                    .and_then(|change| change.before.as_ref()),
                found,
            ) {
                (Some(PathContent::Uncovered { .. }), _) => {}
                (Some(before), Some(found)) if *before == found => {
                    waiting.extend(list_below(&path, &at));
                }
                _ => return Some(path),
            }
        }
        None
    }

    /// Lists the parts of an item of the trash that no snapshot has, and that were there before the call. Each comes with
    /// its path.
    pub fn list_uncovered_parts(&self, removed: &RemovedPath) -> Vec<(PathBuf, PathBuf)> {
        let RemovedThing::Kept(RemovedContent::Item(item)) = &removed.what else {
            return Vec::new();
        };
        let mut parts = Vec::new();
        let mut waiting = vec![(removed.path.clone(), item.clone())];
        while let Some((path, at)) = waiting.pop() {
            match self
                .changes
                .get(&path)
                .map(|change| (&change.before, &change.after))
            {
                Some((Some(PathContent::Uncovered { .. }), None)) => parts.push((path, at)),
                _ => waiting.extend(list_below(&path, &at)),
            }
        }
        parts
    }

    /// Lists the paths that come back with an item of the trash.
    pub fn add_returning(path: &Path, item: &Path, returning: &mut BTreeSet<PathBuf>) {
        let mut waiting = vec![(path.to_owned(), item.to_owned())];
        while let Some((path, at)) = waiting.pop() {
            waiting.extend(list_below(&path, &at));
            returning.insert(path);
        }
    }
}

/// The entries of a folder in the trash, each with the path that it has when it is back.
fn list_below(path: &Path, at: &Path) -> Vec<(PathBuf, PathBuf)> {
    if !at.symlink_metadata().is_ok_and(|found| found.is_dir()) {
        return Vec::new();
    }
    let entries = at.read_dir().into_iter().flatten().flatten();
    entries
        .map(|entry| (path.join(entry.file_name()), entry.path()))
        .collect()
}

/// Returns whether no snapshot covers a path that is not there any more.
fn is_outside_of_snapshots(top: &Path, path: &Path) -> bool {
    let Ok(below) = path.strip_prefix(top) else {
        return true;
    };
    let is_in_repository = below.iter().any(|part| part == ".git");
    #[cfg(target_os = "linux")]
    let is_ignored = super::super::snapshot::is_ignored_now(top, below);
    #[cfg(not(target_os = "linux"))]
    let is_ignored = false;
    is_in_repository || is_ignored
}
