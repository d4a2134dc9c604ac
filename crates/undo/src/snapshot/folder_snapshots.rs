//! Takes the snapshots of calls: the trees before and after, and from them the lines of the call's manifest.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::super::Trash;
use super::super::manifest::{self, ManifestLine, ManifestPath};
use super::call_end::{describe_end, read_folder_refs};
use super::call_record::{
    CallStart, CallsFolder, FolderStart, link_file, read_tree_file, share_tree_file,
    write_tree_file, write_whole,
};
use super::scan_limits::{ScanError, ScanLimits};
use super::snapshot_contents::SnapshotContents;
use super::tree_node::{TreeNode, compare_trees, have_same_removables};
use super::tree_scan::{ScanContext, count_tree, scan_tree};
use super::watched_folder::{FolderTree, WatchedFolder};
use punie_core::clock::unix_time_ms;
use punie_core::durable::open_lock_file;
use punie_core::failpoint::reach_of;
use punie_core::ids::RequestId;
use punie_host::ignore_rules::RulesCache;

/// The limits of a snapshot.
const LIMITS: ScanLimits = ScanLimits {
    files: 20_000,
    repository_files: 50_000,
    bytes: 1 << 30,
};

/// Takes snapshots of these workspaces.
#[derive(Debug)]
pub struct FolderSnapshots {
    trash: Trash,
    folders: Vec<WatchedFolder>,
    contents: SnapshotContents,
    rules: RulesCache,
    limits: ScanLimits,
    home: Option<(u64, u64)>,
    calls: OnceLock<CallsFolder>,
    running: Mutex<HashMap<RequestId, RunningCall>>,
    is_room_known: Mutex<bool>,
}

#[derive(Debug)]
struct RunningCall {
    start: CallStart,
    /// The trees of the folders in `start`, each with its number among all.
    trees: Vec<(usize, Option<FolderTree>)>,
}

impl FolderSnapshots {
    /// Takes snapshots of these folders. Nothing is read yet.
    pub fn new(trash: &Trash, tops: impl IntoIterator<Item = PathBuf>) -> Self {
        let home = &trash.home;
        let trees = home.trash_snapshot_trees_dir();
        let folder = |top: PathBuf| WatchedFolder::new(top, &trees);
        let root = rustix::fs::stat(home.root_dir()).ok();
        Self {
            folders: tops.into_iter().map(folder).collect(),
            contents: SnapshotContents::in_folder(home.trash_snapshot_contents_dir(), 0),
            rules: RulesCache::default(),
            limits: LIMITS,
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
            if folder.is_there()
                && let Err(cause) = self.read(number, None, &mut lock)
            {
                let top = folder.top.display();
                tracing::debug!(%top, %cause, "there is no first snapshot");
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
        let folders = self.folders.iter().enumerate();
        for (number, folder) in folders.filter(|(_, folder)| folder.is_there()) {
            let name = format!("{}-{number}.tree", request.as_str());
            let tree_file = calls.tree_file(&name);
            let (tree, named) = match self.read(number, Some(&tree_file), &mut lock) {
                Ok(tree) => (Some(tree), Ok(name)),
                Err(cause) => (None, Err(cause.to_string())),
            };
            trees.push((number, tree));
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

    /// Takes what the next answer says about workspaces without snapshots.
    pub fn take_remarks(&self) -> Vec<String> {
        let folders = self.folders.iter();
        folders.filter_map(WatchedFolder::take_remark).collect()
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
        for (start, (number, before)) in call.start.folders.iter().zip(&call.trees) {
            let after = match before {
                Some(before) => self
                    .read(*number, None, &mut lock)
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

    /// Reads a folder, unless it is known to hold too much for a snapshot. Its names and sizes are counted before the
    /// first file is read.
    fn read(
        &self,
        number: usize,
        call_tree: Option<&Path>,
        lock: &mut File,
    ) -> Result<FolderTree, ScanError> {
        let folder = &self.folders[number];
        folder.check_known_count()?;
        let mut count = Ok(());
        let mut counted = None;
        if folder.needs_count() {
            let (result, folders) = count_tree(&folder.top, &self.scan_context());
            (count, counted) = (result, Some(folders));
        }
        let read = count.and_then(|()| {
            let read = self.read_with_room(number, call_tree, lock);
            if counted.is_none() || !matches!(read, Err(ScanError::TooMany(_))) {
                return read;
            }
            folder.forget_tree();
            self.read_with_room(number, call_tree, lock)
        });
        match &read {
            Ok(_) => folder.clear_obstacle(),
            Err(cause) if folder.is_there() => {
                if counted.is_none() && matches!(cause, ScanError::TooMany(_)) {
                    counted = Some(count_tree(&folder.top, &self.scan_context()).1);
                }
                folder.record_obstacle(cause, counted.unwrap_or_default());
            }
            // Its disk was unplugged meanwhile.
            Err(_) => {}
        }
        read
    }

    /// Reads a folder as `read_and_store_tree` does. Where there is no room, older requests are let go of once.
    fn read_with_room(
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
        let is_same = changes.is_empty() && have_same_removables(&earlier, &tree);
        if !is_same || own_file.symlink_metadata().is_err() {
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
        let scanned = scan_tree(top, earlier, &self.scan_context());
        self.trash
            .add_used_bytes(self.contents.take_uncounted_bytes());
        if self.contents.take_full() {
            // By the next call, older requests may have been let go of.
            *self.is_room_known.lock() = false;
        }
        scanned
    }

    fn scan_context(&self) -> ScanContext<'_> {
        ScanContext {
            contents: &self.contents,
            rules: &self.rules,
            limits: self.limits,
            home: self.home,
        }
    }

    fn manifest_file(&self, request: &RequestId) -> PathBuf {
        let folder = self.trash.home.trash_manifests_dir();
        folder.join(format!("{request}.jsonl"))
    }

    /// Adds these lines to the manifest of a call, all or none.
    fn write_manifest(&self, start: &CallStart, lines: Vec<ManifestLine>) -> io::Result<()> {
        let file = self.manifest_file(&start.request);
        self.trash.with_lock(|| {
            let mut all = manifest::read_lines::<ManifestLine>(&file)?;
            if all.is_empty() {
                all.push(ManifestLine::Begun {
                    request: start.request.clone(),
                    tool: start.tool.clone(),
                    at_ms: start.at_ms,
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Duration;

    use super::super::list_uncovered_folders;
    use super::*;
    use crate::TrashLimits;
    use punie_home::Home;

    /// Snapshots of a folder that may hold ten names.
    struct SmallSnapshots {
        _dir: tempfile::TempDir,
        top: PathBuf,
        home: Home,
        snapshots: FolderSnapshots,
    }

    impl SmallSnapshots {
        fn new() -> Self {
            let dir = tempfile::tempdir().expect("a folder");
            let top = dir.path().canonicalize().expect("real");
            fs::create_dir_all(top.join("work/deep/er")).expect("made");
            let home = Home::open_home(&top.join("home")).expect("a home");
            let limits = TrashLimits {
                max_bytes: 1 << 30,
                keep: Duration::from_hours(1),
            };
            let trash = Trash::new(&home, limits);
            let mut snapshots = FolderSnapshots::new(&trash, [top.join("work")]);
            snapshots.limits = ScanLimits {
                files: 10,
                repository_files: 20,
                bytes: 1_000,
            };
            Self {
                _dir: dir,
                top: top.join("work"),
                home,
                snapshots,
            }
        }

        fn write_files(&self, folder: &str, count: usize) {
            for number in 0..count {
                fs::write(self.top.join(folder).join(format!("f{number}")), "x").expect("written");
            }
        }

        /// Runs a call that changes nothing; returns the reason if it had no snapshot.
        fn run_call(&self) -> Option<String> {
            let request = RequestId::new();
            self.snapshots.begin_call(&request, "Bash").expect("begun");
            let folder = self.snapshots.running.lock()[&request].start.folders[0].clone();
            self.snapshots.end_call(&request).expect("ended");
            folder.tree.err()
        }

        fn count_stored_contents(&self) -> usize {
            let stored = self.snapshots.contents.list_stored();
            stored.expect("listed").len()
        }
    }

    #[test]
    fn a_folder_with_too_many_files_is_counted_and_not_read() {
        let small = SmallSnapshots::new();
        small.write_files("deep/er", 12);
        let why = small.run_call().expect("too many");
        assert!(why.contains("more than 10 files"), "{why}");
        assert_eq!(small.count_stored_contents(), 0);
        let [remark] = &small.snapshots.take_remarks()[..] else {
            panic!("it is said");
        };
        assert!(
            remark.contains("cannot be undone: it holds more than 10"),
            "{remark}"
        );
        assert_eq!(small.run_call(), Some(why.clone()));
        assert_eq!(small.snapshots.take_remarks(), [""; 0], "it is said once");
        let told = [(small.top.clone(), why)];
        assert_eq!(list_uncovered_folders(&small.home), told);
    }

    #[test]
    fn a_folder_is_read_again_once_its_count_can_have_changed() {
        let small = SmallSnapshots::new();
        small.write_files("deep/er", 12);
        small.run_call().expect("too many");
        // Files come and go elsewhere, and it stays too many.
        small.write_files("", 3);
        small.run_call().expect("too many");
        fs::remove_dir_all(small.top.join("deep/er")).expect("removed");
        assert_eq!(small.run_call(), None);
        assert!(list_uncovered_folders(&small.home).is_empty());
        // A folder that grew, and rules by which less of it counts.
        small.write_files("deep", 12);
        small.run_call().expect("too many again");
        assert_eq!(small.snapshots.take_remarks().len(), 1, "it is said again");
        fs::write(small.top.join(".gitignore"), "deep/\n").expect("written");
        assert_eq!(small.run_call(), None);
        fs::write(small.top.join(".gitignore"), "other/\n").expect("written");
        small.run_call().expect("too many");
        // Rules of a repository around it.
        let above = small.top.parent().expect("a folder above");
        fs::create_dir(above.join(".git")).expect("made");
        fs::write(above.join(".gitignore"), "deep/\n").expect("written");
        assert_eq!(small.run_call(), None);
        fs::remove_dir(above.join(".git")).expect("removed");
        small.run_call().expect("too many");
        fs::create_dir(small.top.join(".git")).expect("made");
        assert_eq!(small.run_call(), None, "a repository may hold more");
    }

    #[test]
    fn a_folder_with_too_large_files_is_measured_and_not_read() {
        let small = SmallSnapshots::new();
        fs::write(small.top.join("large"), [b'x'; 2_000]).expect("written");
        for _ in 0..2 {
            let why = small.run_call().expect("too large");
            assert!(why.contains("larger than"), "{why}");
        }
        assert_eq!(small.count_stored_contents(), 0);
        fs::write(small.top.join("large"), "").expect("written");
        assert_eq!(small.run_call(), None);
    }

    #[test]
    fn a_missing_folder_is_left_out() {
        let small = SmallSnapshots::new();
        fs::remove_dir_all(&small.top).expect("removed");
        let request = RequestId::new();
        small.snapshots.prepare();
        small.snapshots.begin_call(&request, "Bash").expect("begun");
        assert_eq!(
            small.snapshots.running.lock()[&request].start.folders.len(),
            0
        );
        small.snapshots.end_call(&request).expect("ended");
        assert_eq!(small.snapshots.take_remarks(), [""; 0]);
    }
}
