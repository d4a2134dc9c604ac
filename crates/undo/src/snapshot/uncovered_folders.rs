//! The workspaces that have no snapshots, as the last runner found, for `status`.

use std::fs;
use std::path::PathBuf;
#[cfg(target_os = "linux")]
use std::{io, path::Path};

use serde::{Deserialize, Serialize};

use super::super::manifest::ManifestPath;
#[cfg(target_os = "linux")]
use super::call_record::write_whole;
use punie_home::Home;

/// A workspace that has no snapshots.
#[derive(Serialize, Deserialize)]
struct UncoveredFolder {
    folder: ManifestPath,
    why: String,
}

/// The file beside that of a workspace's tree.
#[cfg(target_os = "linux")]
fn record_file(tree_file: &Path) -> PathBuf {
    tree_file.with_extension("uncovered")
}

/// Records the reason for `status`.
#[cfg(target_os = "linux")]
pub(super) fn record_uncovered(tree_file: &Path, top: &Path, why: String) -> io::Result<()> {
    let folder = ManifestPath(top.to_owned());
    write_whole(&record_file(tree_file), |file| {
        Ok(serde_json::to_writer(
            file,
            &UncoveredFolder { folder, why },
        )?)
    })
}

/// Removes the record of a workspace that has snapshots again.
#[cfg(target_os = "linux")]
pub(super) fn forget_uncovered(tree_file: &Path) {
    let _ = fs::remove_file(record_file(tree_file));
}

/// Lists the workspaces that have no snapshots, each with the reason.
pub fn list_uncovered_folders(home: &Home) -> Vec<(PathBuf, String)> {
    let files = fs::read_dir(home.trash_snapshot_trees_dir());
    let paths = files
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    let records = paths.filter(|path| path.extension().is_some_and(|end| end == "uncovered"));
    records
        .filter_map(|path| serde_json::from_slice(&fs::read(path).ok()?).ok())
        .map(|one: UncoveredFolder| (one.folder.0, one.why))
        .collect()
}
