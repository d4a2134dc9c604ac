//! The quota of the trash: what is too old or too much goes, the oldest requests first.

use std::collections::HashSet;
use std::fs::{self, TryLockError};
use std::io;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use super::content_store::ContentStore;
use super::inventory::{ManifestRecord, TrashEntry, list_folder};
use super::manifest::ManifestLine;
use super::snapshot::SnapshotUse;
use super::{Trash, UNKNOWN_SIZE, tree};
use punie_core::durable::open_lock_file;
use punie_core::ids::RequestId;

impl Trash {
    /// Removes entries that are too old or too many. For the start of a runner, and now and then.
    ///
    /// # Errors
    /// The system's.
    pub fn apply_limits(&self) -> io::Result<()> {
        self.with_lock(|| {
            for path in self.home.outdated_trash_paths() {
                if self.is_file_older(&path, self.limits().keep) {
                    self.discard_if_possible(&path);
                }
            }
            self.delete_snapshot_trees(|file| self.is_file_older(file, self.limits().keep));
            self.evict_entries(0, None).map(drop)
        })
    }

    /// Empties the trash; returns how many requests and bytes that were.
    ///
    /// # Errors
    /// The system's.
    pub fn empty_trash(&self) -> io::Result<(u64, u64)> {
        self.with_lock(|| {
            for path in self.home.outdated_trash_paths() {
                if path.symlink_metadata().is_ok() {
                    self.discard_if_possible(&path);
                }
            }
            let all = self.list_entries_locked()?;
            let emptied = (all.len() as u64, self.count_bytes(&all)?);
            for entry in all {
                self.discard_records(entry.records);
            }
            self.delete_unused_contents(&[])?;
            self.delete_snapshot_trees(|_| true);
            SnapshotUse::measure(self)?.delete_unused(&[]);
            self.used.store(0, Ordering::Relaxed);
            Ok(emptied)
        })
    }

    /// Does this under the lock of the trash. Deletes discarded files after the lock is released.
    pub(super) fn with_lock<T>(&self, work: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let done = {
            let _lock = self.lock()?;
            work()
        };
        self.delete_discarded();
        done
    }

    /// Makes room for so many bytes, at the cost of other requests than this one. Returns whether there is room. The caller
    /// holds the lock.
    pub(super) fn free_quota(&self, bytes: u64, request: &RequestId) -> io::Result<bool> {
        let fits = |used: u64| used.saturating_add(bytes) <= self.limits().max_bytes;
        Ok(
            fits(0)
                && (fits(self.used_bytes()?) || fits(self.evict_entries(bytes, Some(request))?)),
        )
    }

    pub(super) fn add_used_bytes(&self, bytes: u64) {
        let add = |used: u64| (used != UNKNOWN_SIZE).then(|| used.saturating_add(bytes));
        let _ = self
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    /// Has the used bytes counted anew.
    pub(super) fn forget_used_bytes(&self) {
        self.used.store(UNKNOWN_SIZE, Ordering::Relaxed);
    }

    /// Returns the used bytes, and the most that the owner allows; `None` while another process changes the trash.
    ///
    /// # Errors
    /// The system's.
    pub fn measure_quota(&self) -> io::Result<Option<(u64, u64)>> {
        let file = open_lock_file(&self.home.trash_lock_file())?;
        match file.try_lock() {
            Ok(()) => Ok(Some((self.used_bytes()?, self.limits().max_bytes))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(cause)) => Err(cause),
        }
    }

    fn used_bytes(&self) -> io::Result<u64> {
        let used = self.used.load(Ordering::Relaxed);
        if used != UNKNOWN_SIZE {
            return Ok(used);
        }
        let used = self.count_bytes(&self.list_entries_locked()?)?;
        self.used.store(used, Ordering::Relaxed);
        Ok(used)
    }

    /// The bytes that these entries, the stored contents and the snapshots take.
    fn count_bytes(&self, all: &[TrashEntry]) -> io::Result<u64> {
        Ok(self.count_own_bytes(all)? + SnapshotUse::measure(self)?.bytes_with(all))
    }

    /// The same without snapshots.
    fn count_own_bytes(&self, all: &[TrashEntry]) -> io::Result<u64> {
        let contents = ContentStore::in_folder(self.home.trash_objects_dir());
        Ok(bytes_of_undos(all) + contents.list()?.iter().map(|(_, size)| size).sum::<u64>())
    }

    /// Discards entries that are too old, then the oldest until so many bytes more fit; returns the bytes that are used
    /// then.
    fn evict_entries(&self, more: u64, spared: Option<&RequestId>) -> io::Result<u64> {
        let mut all = self.list_entries_locked()?;
        let snapshots = SnapshotUse::measure(self)?;
        loop {
            self.delete_unused_contents(&all)?;
            let used = self.count_own_bytes(&all)? + snapshots.bytes_with(&all);
            let Some(at) = self.choose_evicted(&all, used.saturating_add(more), spared) else {
                snapshots.delete_unused(&all);
                self.used.store(used, Ordering::Relaxed);
                return Ok(used);
            };
            let entry = all.remove(at);
            tracing::info!(request.id = %entry.request, "the trash lets go of what it kept of a request");
            self.discard_records(entry.records);
        }
    }

    /// Chooses the entry that goes next, if one must: the oldest that is too old, or for which there is no room.
    fn choose_evicted(
        &self,
        all: &[TrashEntry],
        wanted: u64,
        spared: Option<&RequestId>,
    ) -> Option<usize> {
        let keep = self.limits().keep;
        let may_go = |entry: &TrashEntry| spared != Some(&entry.request);
        let too_old = all
            .iter()
            .rposition(|entry| self.clock.is_older(entry.at_ms, keep) && may_go(entry));
        if too_old.is_some() || wanted <= self.limits().max_bytes {
            return too_old;
        }
        all.iter().rposition(may_go)
    }

    /// Takes records out of the inventory. Their content is deleted when the trash is not locked any more.
    pub(super) fn discard_records(&self, records: Vec<ManifestRecord>) {
        for record in records {
            let discarded = match &record.folder {
                Some(folder) => self.discard_path(folder),
                None => fs::remove_file(&record.file),
            };
            // One that stays is tried again; it must not keep every later call from being kept.
            if let Err(cause) = discarded {
                tracing::warn!(path = %record.file.display(), %cause, "what the trash lets go of stays for now");
            }
        }
    }

    /// Discards this. What cannot be moved stays, and keeps nothing else from going.
    pub(super) fn discard_if_possible(&self, path: &Path) {
        if let Err(cause) = self.discard_path(path) {
            tracing::warn!(path = %path.display(), %cause, "what nobody can undo stays in the trash");
        }
    }

    fn discard_path(&self, path: &Path) -> io::Result<()> {
        let name = uuid::Uuid::new_v4().simple().to_string();
        fs::rename(path, self.home.trash_doomed_dir().join(name))
    }

    fn is_file_older(&self, path: &Path, age: Duration) -> bool {
        modified_time(path).is_ok_and(|at| self.clock.is_file_older(at, age))
    }

    /// Deletes the contents that no entry names.
    fn delete_unused_contents(&self, all: &[TrashEntry]) -> io::Result<()> {
        let used = all
            .iter()
            .flat_map(TrashEntry::manifest_lines)
            .filter_map(|line| match line {
                ManifestLine::File {
                    before: Some(before),
                    ..
                } => Some(before.sha256.as_str()),
                _ => None,
            });
        let used: HashSet<&str> = used.collect();
        let contents = ContentStore::in_folder(self.home.trash_objects_dir());
        for (name, _) in contents.list()? {
            if !used.contains(name.as_str()) {
                contents.delete(&name)?;
            }
        }
        Ok(())
    }

    /// Deletes discarded items.
    pub(super) fn delete_discarded(&self) {
        for path in list_folder(&self.home.trash_doomed_dir()).unwrap_or_default() {
            let deleted = tree::remove_tree(&path).or_else(|_| {
                // It may hold folders that their owner may not write.
                make_folders_accessible(&path);
                tree::remove_tree(&path)
            });
            if let Err(cause) = deleted {
                tracing::warn!(path = %path.display(), %cause, "something stays in the trash");
            }
        }
    }
}

fn modified_time(path: &Path) -> io::Result<SystemTime> {
    fs::symlink_metadata(path).and_then(|found| found.modified())
}

/// The bytes of what undos took away.
fn bytes_of_undos(all: &[TrashEntry]) -> u64 {
    all.iter()
        .flat_map(|entry| &entry.records)
        .map(ManifestRecord::disk_bytes)
        .sum()
}

/// Lets the owner into every folder of a tree. No link is followed.
#[cfg(unix)]
fn make_folders_accessible(path: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    if fs::symlink_metadata(path).is_ok_and(|found| found.is_dir()) {
        let _ = fs::set_permissions(path, fs::Permissions::from_mode(0o700));
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            make_folders_accessible(&entry.path());
        }
    }
}

#[cfg(not(unix))]
fn make_folders_accessible(_path: &Path) {}
