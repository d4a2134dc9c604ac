//! The layout of the trash in the home.

use std::ffi::OsStr;
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
    /// Returns `state/trash/incoming/`: files that commands are removing now; the only folder in the home that they may
    /// write.
    pub fn trash_incoming_dir(&self) -> PathBuf {
        self.trash_dir().join("incoming")
    }
    /// Returns `state/trash/removed/`: files that commands have removed.
    pub fn trash_removed_dir(&self) -> PathBuf {
        self.trash_dir().join("removed")
    }
    /// Returns `state/trash/doomed/`: entries that are being deleted.
    pub fn trash_doomed_dir(&self) -> PathBuf {
        self.trash_dir().join("doomed")
    }
    /// Returns `state/trash/programs/`: the names under which commands find this program first.
    pub fn trash_programs_dir(&self) -> PathBuf {
        self.trash_dir().join("programs")
    }
    /// Returns `state/trash/programs/mover-PID.sock`: the socket by which commands of this process have items moved to the
    /// trash.
    pub fn trash_mover_socket(&self) -> PathBuf {
        self.trash_programs_dir()
            .join(format!("mover-{}.sock", std::process::id()))
    }
    /// Returns the process whose socket has this name.
    pub fn mover_socket_process(name: &OsStr) -> Option<u32> {
        let name = name.to_str()?.strip_prefix("mover-")?;
        name.strip_suffix(".sock")?.parse().ok()
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
    /// Returns `state/trash/key`, which authenticates the manifests.
    pub fn trash_key_file(&self) -> PathBuf {
        self.trash_dir().join("key")
    }
    /// Returns `state/trash/lock`, held while an entry of the trash is moved.
    pub fn trash_lock_file(&self) -> PathBuf {
        self.trash_dir().join("lock")
    }
}
