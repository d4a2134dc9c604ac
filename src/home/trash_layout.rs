//! The layout of the trash in the home.

use std::path::PathBuf;

use super::layout::Home;

impl Home {
    /// Returns `state/trash/`: files that tools deleted, kept for a while.
    pub fn trash_dir(&self) -> PathBuf {
        self.state_dir().join("trash")
    }
    /// Returns `state/trash/requests/`: a manifest for each request with stored before-images.
    pub fn trash_manifests_dir(&self) -> PathBuf {
        self.trash_dir().join("requests")
    }
    /// Returns `state/trash/objects/`: the before-images, each by its hash.
    pub fn trash_objects_dir(&self) -> PathBuf {
        self.trash_dir().join("objects")
    }
    /// Returns `state/trash/made/`: files that requests had made and undos took away.
    pub fn trash_made_dir(&self) -> PathBuf {
        self.trash_dir().join("made")
    }
    /// Returns `state/trash/doomed/`: entries that are being deleted.
    pub fn trash_doomed_dir(&self) -> PathBuf {
        self.trash_dir().join("doomed")
    }
    /// Returns what earlier versions kept of files that commands removed by `rm`, and the programs that did it.
    pub fn outdated_trash_paths(&self) -> [PathBuf; 4] {
        ["incoming", "removed", "programs", "key"].map(|name| self.trash_dir().join(name))
    }
    /// Returns `state/trash/snapshots/`: the snapshots of workspaces.
    pub fn trash_snapshots_dir(&self) -> PathBuf {
        self.trash_dir().join("snapshots")
    }
    /// Returns `state/trash/snapshots/contents/`: the contents of files in snapshots, each by its hash.
    pub fn trash_snapshot_contents_dir(&self) -> PathBuf {
        self.trash_snapshots_dir().join("contents")
    }
    /// Returns `state/trash/snapshots/trees/`: each workspace as it was last.
    pub fn trash_snapshot_trees_dir(&self) -> PathBuf {
        self.trash_snapshots_dir().join("trees")
    }
    /// Returns `state/trash/snapshots/calls/`: the starts of calls that run, a folder for each process.
    pub fn trash_snapshot_calls_dir(&self) -> PathBuf {
        self.trash_snapshots_dir().join("calls")
    }
    /// Returns `state/trash/snapshots/lock`, held while contents are stored or deleted.
    pub fn trash_snapshot_lock_file(&self) -> PathBuf {
        self.trash_snapshots_dir().join("lock")
    }
    /// Returns `state/trash/undone.jsonl`: the log of undone changes.
    pub fn trash_log_file(&self) -> PathBuf {
        self.trash_dir().join("undone.jsonl")
    }
    /// Returns `state/trash/lock`, held while an entry of the trash is moved.
    pub fn trash_lock_file(&self) -> PathBuf {
        self.trash_dir().join("lock")
    }
}
