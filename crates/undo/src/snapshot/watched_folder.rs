//! A workspace that has snapshots: its tree as it was last, and the reason if it has none. The reason is kept, so that
//! not every command pays for a snapshot that is never taken.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use super::folder_count::{CountedFolder, FolderRules, hold_more_than, read_rules_above};
use super::scan_limits::ScanError;
use super::tree_node::TreeNode;
use super::uncovered_folders::{forget_uncovered, record_uncovered};
use punie_core::ids::to_hex;

/// The entries of a workspace.
pub(super) type FolderTree = Arc<Vec<TreeNode>>;

/// A workspace that has snapshots.
#[derive(Debug)]
pub(super) struct WatchedFolder {
    pub top: PathBuf,
    /// The file of the tree as it was last, for the next process.
    pub file: PathBuf,
    pub last: Mutex<Option<FolderTree>>,
    /// Letting go of older requests made no room for it.
    pub is_without_room: AtomicBool,
    obstacle: Mutex<Option<SnapshotObstacle>>,
}

/// The reason why a workspace has no snapshots.
#[derive(Debug)]
struct SnapshotObstacle {
    why: String,
    /// The most names, the rules above the folder, and the folders that hold more.
    over: Option<(usize, Vec<FolderRules>, Vec<CountedFolder>)>,
    /// Its names are too many, or its files too large.
    is_size: bool,
    is_told: bool,
}

impl WatchedFolder {
    /// Describes a folder whose tree is kept in `trees`. Nothing is read yet.
    pub fn new(top: PathBuf, trees: &Path) -> Self {
        let name = to_hex(&Sha256::digest(top.as_os_str().as_encoded_bytes())[..16]);
        Self {
            file: trees.join(format!("{name}.tree")),
            top,
            last: Mutex::default(),
            is_without_room: AtomicBool::new(false),
            obstacle: Mutex::default(),
        }
    }

    /// Returns whether the folder is there. One on an unplugged disk is not; a link in its place is not followed.
    pub fn is_there(&self) -> bool {
        let found = self.top.symlink_metadata();
        found.is_ok_and(|found| found.is_dir())
    }

    /// Forgets the tree. What it covered counts no more where git ignores it by now.
    pub fn forget_tree(&self) {
        *self.last.lock() = Some(FolderTree::default());
    }

    /// Returns whether its names and sizes are counted before it is read: they were too many or too large, or no tree of
    /// it is known, so that many files have to be read.
    pub fn needs_count(&self) -> bool {
        match &*self.obstacle.lock() {
            Some(obstacle) => obstacle.is_size,
            None => self.last.lock().is_none() && !self.file.is_file(),
        }
    }

    /// Fails where the folder still holds more files than a snapshot may have.
    pub fn check_known_count(&self) -> Result<(), ScanError> {
        let mut obstacle = self.obstacle.lock();
        let Some(SnapshotObstacle {
            why,
            over: Some((max, above, folders)),
            ..
        }) = &mut *obstacle
        else {
            return Ok(());
        };
        if *above == read_rules_above(&self.top) && hold_more_than(*max, &self.top, folders) {
            return Err(ScanError::Known(why.clone()));
        }
        Ok(())
    }

    /// Records that the folder can be read, also against what an earlier process has recorded.
    pub fn clear_obstacle(&self) {
        *self.obstacle.lock() = None;
        forget_uncovered(&self.file);
    }

    /// Records why there is no snapshot, in the log and for `status`, once for each reason.
    pub fn record_obstacle(&self, cause: &ScanError, folders: Vec<CountedFolder>) {
        let why = cause.to_string();
        let mut obstacle = self.obstacle.lock();
        let is_new = obstacle.as_ref().is_none_or(|known| known.why != why);
        let over = match cause {
            ScanError::TooMany(max) => Some((*max, read_rules_above(&self.top), folders)),
            _ => None,
        };
        *obstacle = Some(SnapshotObstacle {
            is_told: !is_new && obstacle.as_ref().is_some_and(|known| known.is_told),
            why: why.clone(),
            over,
            is_size: matches!(cause, ScanError::TooMany(_) | ScanError::TooLarge(_)),
        });
        drop(obstacle);
        if !is_new {
            return;
        }
        let top = self.top.display();
        tracing::info!(%top, %cause, "what commands change there cannot be undone");
        if let Err(error) = record_uncovered(&self.file, &self.top, why) {
            tracing::warn!(%error, "`status` cannot be told where commands cannot be undone");
        }
    }

    /// Returns what the next answer says about the missing snapshots; `None` if an answer has said it.
    pub fn take_remark(&self) -> Option<String> {
        let mut obstacle = self.obstacle.lock();
        let obstacle = obstacle.as_mut().filter(|obstacle| !obstacle.is_told)?;
        obstacle.is_told = true;
        Some(format!(
            "What commands change in {} cannot be undone: {}. This is said once; `punie-runner status` shows it.",
            self.top.display(),
            obstacle.why
        ))
    }
}
