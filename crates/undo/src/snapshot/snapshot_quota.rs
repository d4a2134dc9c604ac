//! The bytes that snapshots take in the trash, and the end of those that nothing names any more.

use std::collections::{HashMap, HashSet};
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;

use super::super::Trash;
use super::super::inventory::TrashEntry;
use super::super::manifest::ManifestLine;
use super::call_record::{CallStart, CallsFolder, list_tree_files, read_tree_file};
use super::snapshot_contents::SnapshotContents;
use super::tree_node::{PathContent, TreeNode};
use punie_core::durable::open_lock_file;

/// The contents of snapshots, with the trees that name some of them.
pub(crate) struct SnapshotUse {
    contents: SnapshotContents,
    stored: HashMap<String, u64>,
    named_by_trees: HashSet<String>,
    /// Held so that nobody stores a content that is about to be deleted. None if somebody takes a snapshot now.
    lock: Option<File>,
}

impl Trash {
    /// The bytes that snapshots may still take: half of the trash is theirs, but at most half of the disk that others leave.
    #[cfg(target_os = "linux")]
    pub(super) fn measure_snapshot_room(&self) -> io::Result<u64> {
        let folder = self.home.trash_snapshot_contents_dir();
        let disk = rustix::fs::statvfs(&folder)?;
        let stored = SnapshotContents::in_folder(folder, 0).list_stored()?;
        let used: u64 = stored.iter().map(|(_, size)| size).sum();
        let free = disk.f_bavail.saturating_mul(disk.f_frsize);
        let most = self.limits().max_bytes.min(free.saturating_add(used)) / 2;
        Ok(most.saturating_sub(used))
    }

    /// Lets go of the oldest requests with snapshots, until half of what requests may use beside the trees is free.
    #[cfg(target_os = "linux")]
    pub(super) fn free_snapshot_room(&self) -> io::Result<()> {
        self.with_lock(|| {
            let snapshots = SnapshotUse::measure(self)?;
            if snapshots.lock.is_none() {
                return Ok(());
            }
            let of_trees = snapshots.bytes_with(&[]);
            let most = u64::midpoint(of_trees, self.limits().max_bytes / 2);
            let mut all = self.list_entries_locked()?;
            let is_changed = |line: &ManifestLine| matches!(line, ManifestLine::Changed(_));
            while snapshots.bytes_with(&all) > most
                && let Some(at) = all
                    .iter()
                    .rposition(|entry| entry.manifest_lines().any(is_changed))
            {
                let entry = all.remove(at);
                tracing::info!(request.id = %entry.request, "the trash lets go of a request for a new snapshot");
                self.discard_records(entry.records);
            }
            snapshots.delete_unused(&all);
            self.forget_used_bytes();
            Ok(())
        })
    }

    /// Lists the calls that run and have a snapshot.
    pub(crate) fn list_running_calls(&self) -> Vec<CallStart> {
        CallsFolder::read_all_starts(&self.home.trash_snapshot_calls_dir())
    }

    /// Deletes the trees of workspaces, unless a runner uses them: of one that starts later, all is read anew.
    pub(crate) fn delete_snapshot_trees(&self, is_old: impl Fn(&PathBuf) -> bool) {
        let trees = self.home.trash_snapshot_trees_dir();
        let calls = self.home.trash_snapshot_calls_dir();
        if CallsFolder::is_any_in_use(&calls) {
            return;
        }
        for file in list_tree_files(&trees, &calls) {
            if file.starts_with(&trees) && is_old(&file) {
                let _ = fs::remove_file(file);
            }
        }
    }
}

impl SnapshotUse {
    /// Measures the contents that are stored now.
    pub fn measure(trash: &Trash) -> io::Result<Self> {
        let home = &trash.home;
        let lock = open_lock_file(&home.trash_snapshot_lock_file())?;
        let lock = lock.try_lock().is_ok().then_some(lock);
        let contents = SnapshotContents::in_folder(home.trash_snapshot_contents_dir(), 0);
        let mut named_by_trees = HashSet::new();
        for file in list_tree_files(
            &home.trash_snapshot_trees_dir(),
            &home.trash_snapshot_calls_dir(),
        ) {
            add_contents(
                &read_tree_file(&file).unwrap_or_default(),
                &mut named_by_trees,
            );
        }
        Ok(Self {
            stored: contents.list_stored()?.into_iter().collect(),
            contents,
            named_by_trees,
            lock,
        })
    }

    fn list_named<'a>(&'a self, all: &'a [TrashEntry]) -> HashSet<&'a str> {
        let changes =
            all.iter()
                .flat_map(TrashEntry::manifest_lines)
                .filter_map(|line| match line {
                    ManifestLine::Changed(change) => Some([&change.before, &change.after]),
                    _ => None,
                });
        let contents = changes.flatten().flatten();
        let hashes = contents.filter_map(|content| match content {
            PathContent::File { sha256, .. } => Some(sha256.as_str()),
            _ => None,
        });
        hashes
            .chain(self.named_by_trees.iter().map(String::as_str))
            .collect()
    }

    /// The bytes that are left if only these requests stay.
    pub fn bytes_with(&self, all: &[TrashEntry]) -> u64 {
        let named = self.list_named(all);
        let sizes = named.iter().filter_map(|hash| self.stored.get(*hash));
        sizes.sum()
    }

    /// Deletes the contents that neither a tree nor one of these requests names.
    pub fn delete_unused(&self, all: &[TrashEntry]) {
        if self.lock.is_none() {
            return;
        }
        let named = self.list_named(all);
        for name in self.stored.keys() {
            if !named.contains(name.as_str()) {
                let _ = self.contents.delete_stored(name);
            }
        }
    }
}

fn add_contents(tree: &[TreeNode], named: &mut HashSet<String>) {
    for node in tree {
        for content in [Some(&node.content), node.removable.as_deref()] {
            if let Some(PathContent::File { sha256, .. }) = content {
                named.insert(sha256.clone());
            }
        }
        add_contents(&node.entries, named);
    }
}
