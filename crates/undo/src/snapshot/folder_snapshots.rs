//! Takes the snapshots of calls: the trees before and after, and from them the lines of the call's manifest. Not here:
//! reading a folder (tree_scan), and which calls have snapshots (before_images).

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use super::super::manifest::{self, ManifestLine, ManifestPath};
use super::super::{Trash, unix_time_ms};
use super::call_record::{
    CallStart, CallsFolder, FolderStart, MovedRef, RepositoryRefs, SnapshotEnd, link_file,
    read_tree_file, share_tree_file, write_tree_file, write_whole,
};
use super::git_index::{find_git_folder, read_refs};
use super::ignore_rules::{RulesCache, find_repository_above};
use super::scan_limits::{ScanError, ScanLimits};
use super::snapshot_contents::SnapshotContents;
use super::tree_node::{PathChange, TreeNode, compare_trees};
use super::tree_scan::{ScanContext, scan_tree};
use punie_core::durable::open_lock_file;
use punie_core::failpoint::reach_of;
use punie_core::ids::{RequestId, to_hex};

/// The limits of a snapshot.
const LIMITS: ScanLimits = ScanLimits {
    files: 20_000,
    repository_files: 50_000,
    bytes: 1 << 30,
};

/// The entries of a workspace.
type FolderTree = Arc<Vec<TreeNode>>;

/// Takes snapshots of these workspaces.
#[derive(Debug)]
pub struct FolderSnapshots {
    trash: Trash,
    folders: Vec<WatchedFolder>,
    contents: SnapshotContents,
    rules: RulesCache,
    home: Option<(u64, u64)>,
    calls: OnceLock<CallsFolder>,
    running: Mutex<HashMap<RequestId, RunningCall>>,
    is_room_known: Mutex<bool>,
}

#[derive(Debug)]
struct WatchedFolder {
    top: PathBuf,
    /// The file of the tree as it was last, for the next process.
    file: PathBuf,
    last: Mutex<Option<FolderTree>>,
    /// Letting go of older requests made no room for it.
    is_without_room: AtomicBool,
}

#[derive(Debug)]
struct RunningCall {
    start: CallStart,
    trees: Vec<Option<FolderTree>>,
}

impl FolderSnapshots {
    /// Takes snapshots of these folders. Nothing is read yet.
    pub fn new(trash: &Trash, tops: impl IntoIterator<Item = PathBuf>) -> Self {
        let home = &trash.home;
        let folder = |top: PathBuf| WatchedFolder {
            file: home.trash_snapshot_trees_dir().join(format!(
                "{}.tree",
                to_hex(&Sha256::digest(top.as_os_str().as_encoded_bytes())[..16])
            )),
            top,
            last: Mutex::default(),
            is_without_room: AtomicBool::new(false),
        };
        let root = rustix::fs::stat(home.root_dir()).ok();
        Self {
            folders: tops.into_iter().map(folder).collect(),
            contents: SnapshotContents::in_folder(home.trash_snapshot_contents_dir(), 0),
            rules: RulesCache::default(),
            home: root.map(|root| (root.st_dev, root.st_ino)),
            calls: OnceLock::new(),
            running: Mutex::default(),
            is_room_known: Mutex::default(),
            trash: trash.clone(),
        }
    }

    /// Reads the folders for the first time, and ends the snapshots of calls whose runner is gone.
    pub fn prepare(&self) {
        for folder in self.finish_abandoned() {
            tracing::warn!("{folder}");
        }
        let Ok(mut lock) = self.lock_shared() else {
            return;
        };
        for (number, folder) in self.folders.iter().enumerate() {
            if let Err(cause) = self.read_folder(number, None, &mut lock) {
                let top = folder.top.display();
                tracing::info!(%top, %cause, "what commands change there cannot be undone");
            }
        }
    }

    /// Takes the snapshots before a call. When it returns, the next process can find what the call changes.
    pub fn begin_call(&self, request: &RequestId, tool: &str) -> io::Result<()> {
        let calls = self.own_calls()?;
        let mut trees = Vec::new();
        let mut start = CallStart {
            request: request.clone(),
            tool: tool.to_owned(),
            at_ms: unix_time_ms(),
            folders: Vec::new(),
        };
        let mut lock = self.lock_shared()?;
        for (number, folder) in self.folders.iter().enumerate() {
            let name = format!("{}-{number}.tree", request.as_str());
            let tree_file = calls.tree_file(&name);
            let (tree, named) = match self.read_folder(number, Some(&tree_file), &mut lock) {
                Ok(tree) => (Some(tree), Ok(name)),
                Err(cause) => (None, Err(cause.to_string())),
            };
            trees.push(tree);
            start.folders.push(FolderStart {
                top: ManifestPath(folder.top.clone()),
                tree: named,
                refs: read_folder_refs(&folder.top),
            });
        }
        calls
            .write_start(&start)
            .inspect_err(|_| calls.remove_call(&start))?;
        reach_of("snapshot.begun", request.as_str());
        let call = RunningCall { start, trees };
        self.running.lock().insert(request.clone(), call);
        Ok(())
    }

    /// Forgets a call that did not begin.
    pub fn abandon_call(&self, request: &RequestId) {
        if let (Some(call), Some(calls)) = (self.running.lock().remove(request), self.calls.get()) {
            calls.remove_call(&call.start);
        }
    }

    /// Takes the snapshots after a call, and writes down what it changed.
    pub fn end_call(&self, request: &RequestId) -> io::Result<()> {
        let Some(call) = self.running.lock().remove(request) else {
            return Ok(());
        };
        let written = self.write_end(&call);
        // Also where that failed: later changes are not to count as the call's.
        if let Some(calls) = self.calls.get() {
            calls.remove_call(&call.start);
        }
        written
    }

    fn write_end(&self, call: &RunningCall) -> io::Result<()> {
        let request = &call.start.request;
        let mut lock = self.lock_shared()?;
        let mut lines = Vec::new();
        for (number, (start, before)) in call.start.folders.iter().zip(&call.trees).enumerate() {
            let after = match before {
                Some(before) => self
                    .read_folder(number, None, &mut lock)
                    .map(|after| (Arc::clone(before), after))
                    .map_err(|cause| cause.to_string()),
                None => Err(start.tree.clone().err().unwrap_or_default()),
            };
            lines.extend(describe_end(start, after, false));
        }
        reach_of("snapshot.compared", request.as_str());
        self.write_manifest(&call.start, lines)?;
        reach_of("snapshot.written", request.as_str());
        Ok(())
    }

    /// Ends the snapshots of calls whose process is gone, with the folders as they are now. Returns what went wrong.
    pub fn finish_abandoned(&self) -> Vec<String> {
        let mut faults = Vec::new();
        for calls in CallsFolder::take_over_abandoned(&self.trash.home.trash_snapshot_calls_dir()) {
            for start in calls.read_starts() {
                if let Err(cause) = self.finish_call_of(&calls, &start) {
                    faults.push(format!(
                        "what request {} changed is not known ({cause})",
                        start.request
                    ));
                }
            }
            calls.remove_folder();
        }
        faults
    }

    fn finish_call_of(&self, calls: &CallsFolder, start: &CallStart) -> io::Result<()> {
        let file = self.manifest_file(&start.request);
        let is_written = manifest::read_lines::<ManifestLine>(&file)?
            .iter()
            .any(|line| matches!(line, ManifestLine::Snapshot(_)));
        if is_written {
            return Ok(());
        }
        let _lock = self.lock_shared()?;
        let mut lines = Vec::new();
        for one in &start.folders {
            let read = one.tree.clone().and_then(|name| {
                let text = |cause: ScanError| cause.to_string();
                let before = read_tree_file(&calls.tree_file(&name))
                    .map_err(|cause| text(ScanError::Failed(cause)))?;
                let after = self.scan(&one.top.0, &before).map_err(text)?;
                Ok((Arc::new(before), Arc::new(after)))
            });
            lines.extend(describe_end(one, read, true));
        }
        self.write_manifest(start, lines)
    }

    fn own_calls(&self) -> io::Result<&CallsFolder> {
        if self.calls.get().is_none() {
            let made = CallsFolder::create_in(&self.trash.home.trash_snapshot_calls_dir())?;
            if let Err(second) = self.calls.set(made) {
                second.remove_folder();
            }
        }
        self.calls
            .get()
            .ok_or_else(|| io::Error::other("there is no folder for calls"))
    }

    /// Keeps contents from being deleted until the file is dropped.
    fn lock_shared(&self) -> io::Result<File> {
        let lock = open_lock_file(&self.trash.home.trash_snapshot_lock_file())?;
        lock.lock_shared()?;
        Ok(lock)
    }

    /// Reads a folder as `read_and_store_tree` does. Where there is no room, older requests are let go of once.
    fn read_folder(
        &self,
        number: usize,
        call_tree: Option<&Path>,
        lock: &mut File,
    ) -> Result<FolderTree, ScanError> {
        let folder = &self.folders[number];
        let mut read = self.read_and_store_tree(number, call_tree);
        if matches!(read, Err(ScanError::NoRoom))
            && !folder.is_without_room.swap(true, Ordering::Relaxed)
        {
            lock.unlock()?;
            let freed = self.trash.free_snapshot_room();
            lock.lock_shared()?;
            freed?;
            read = self.read_and_store_tree(number, call_tree);
        }
        if read.is_ok() {
            folder.is_without_room.store(false, Ordering::Relaxed);
        }
        read
    }

    /// Reads a folder, and stores its tree if something changed since the last time. The file of a call's tree is a
    /// second name of the file that only this process writes, so that it always has the tree that this returns.
    fn read_and_store_tree(
        &self,
        number: usize,
        call_tree: Option<&Path>,
    ) -> Result<FolderTree, ScanError> {
        let folder = &self.folders[number];
        let own_file = self.own_calls()?.tree_file(&format!("last-{number}.tree"));
        let mut last = folder.last.lock();
        let earlier = match last.take() {
            Some(tree) => tree,
            None => Arc::new(read_tree_file(&folder.file).unwrap_or_default()),
        };
        let tree = self.scan(&folder.top, &earlier);
        let tree = tree.inspect_err(|_| *last = Some(Arc::clone(&earlier)))?;
        let mut changes = Vec::new();
        compare_trees(&folder.top, &earlier, &tree, &mut changes);
        if !changes.is_empty() || own_file.symlink_metadata().is_err() {
            write_tree_file(&own_file, &tree)?;
            share_tree_file(&own_file, &folder.file)?;
        }
        if let Some(call_tree) = call_tree {
            link_file(&own_file, call_tree)?;
        }
        let tree = Arc::new(tree);
        *last = Some(Arc::clone(&tree));
        Ok(tree)
    }

    fn scan(&self, top: &Path, earlier: &[TreeNode]) -> Result<Vec<TreeNode>, ScanError> {
        let mut is_known = self.is_room_known.lock();
        if !*is_known {
            self.contents.set_room(self.trash.measure_snapshot_room()?);
            *is_known = true;
        }
        drop(is_known);
        let context = ScanContext {
            contents: &self.contents,
            rules: &self.rules,
            limits: LIMITS,
            home: self.home,
        };
        let scanned = scan_tree(top, earlier, &context);
        self.trash
            .add_used_bytes(self.contents.take_uncounted_bytes());
        if matches!(scanned, Err(ScanError::NoRoom)) {
            // By the next call, older requests may have been let go of.
            *self.is_room_known.lock() = false;
        }
        scanned
    }

    fn manifest_file(&self, request: &RequestId) -> PathBuf {
        let folder = self.trash.home.trash_manifests_dir();
        folder.join(format!("{request}.jsonl"))
    }

    /// Adds these lines to the manifest of a call, all or none.
    fn write_manifest(&self, start: &CallStart, lines: Vec<ManifestLine>) -> io::Result<()> {
        let file = self.manifest_file(&start.request);
        self.trash.with_trash_lock(|| {
            let mut all = manifest::read_lines::<ManifestLine>(&file)?;
            if all.is_empty() {
                all.push(ManifestLine::Begun {
                    request: start.request.clone(),
                    tool: start.tool.clone(),
                    at_ms: start.at_ms,
                    proof: String::new(),
                });
            }
            all.extend(lines);
            write_whole(&file, |to| {
                for line in &all {
                    serde_json::to_writer(&mut *to, line)?;
                    io::Write::write_all(to, b"\n")?;
                }
                Ok(())
            })
        })
    }
}

/// The lines that say what a call changed in one folder.
fn describe_end(
    start: &FolderStart,
    trees: Result<(FolderTree, FolderTree), String>,
    is_end_unseen: bool,
) -> Vec<ManifestLine> {
    let (mut changes, mut off): (Vec<PathChange>, Option<String>) = (Vec::new(), None);
    match trees {
        Ok((before, after)) => compare_trees(&start.top.0, &before, &after, &mut changes),
        Err(why) => off = Some(why),
    }
    let end = ManifestLine::Snapshot(SnapshotEnd {
        folder: start.top.clone(),
        ended_at_ms: unix_time_ms(),
        ended_us: microseconds_since_start(),
        off,
        is_end_unseen,
        moved_refs: list_moved_refs(&start.refs, &read_folder_refs(&start.top.0)),
    });
    let changes = changes.into_iter().map(ManifestLine::Changed);
    std::iter::once(end).chain(changes).collect()
}

fn microseconds_since_start() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let us = now.tv_sec.saturating_mul(1_000_000);
    us.saturating_add(now.tv_nsec / 1_000).unsigned_abs()
}

/// The refs of the repository that a folder is, or lies in.
fn read_folder_refs(top: &Path) -> RepositoryRefs {
    let repository = find_repository_above(top).unwrap_or(top);
    find_git_folder(&repository.join(".git"))
        .map(|git_folder| read_refs(&git_folder))
        .unwrap_or_default()
}

fn list_moved_refs(before: &RepositoryRefs, after: &RepositoryRefs) -> Vec<MovedRef> {
    let names: std::collections::BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let moved = names
        .into_iter()
        .filter(|name| before.get(*name) != after.get(*name));
    moved
        .map(|name| MovedRef {
            name: name.clone(),
            before: before.get(name).cloned(),
            after: after.get(name).cloned(),
        })
        .collect()
}
