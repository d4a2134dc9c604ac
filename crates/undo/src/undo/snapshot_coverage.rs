//! What the snapshots of a call cover.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::super::inventory::TrashEntry;
use super::super::manifest::ManifestLine;
use super::super::snapshot::{PathChange, SnapshotEnd};

/// The snapshots of a call. Without any, nothing is covered.
#[derive(Debug, Default)]
pub(super) struct SnapshotCoverage {
    pub ends: Vec<SnapshotEnd>,
    /// The paths that differ, in order: a folder comes before its entries.
    pub changes: BTreeMap<PathBuf, PathChange>,
}

impl SnapshotCoverage {
    pub fn from_entry(entry: &TrashEntry) -> Self {
        let mut coverage = Self::default();
        for line in entry.manifest_lines() {
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
}
