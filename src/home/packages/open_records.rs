//! The records of packages while they are locked: a change is recorded before and after it is made, and the next
//! process that opens them finishes what was left.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use super::package_conflicts::PackageError;
use super::package_content::find_changes;
use super::package_records::{ChangeSource, PackageRecords, PendingChange};
use crate::error::HomeError;
use crate::file_modes::{self, FolderAccess};
use crate::installed_tree::{TreeChange, remove_tree};
use crate::layout::Home;
use crate::runner_lock::lock_exclusively;
use crate::state_file::StateFile;
use punie_core::failpoint;

/// The records, while no other process may change them.
pub(super) struct OpenRecords<'a> {
    home: &'a Home,
    file: StateFile<PackageRecords>,
    pub(super) records: PackageRecords,
    _lock: File,
}

impl<'a> OpenRecords<'a> {
    /// Locks and reads the records, finishes what an earlier process began, and removes what it left and what was removed
    /// so long ago that it is not kept any more.
    pub(super) fn lock_records(
        home: &'a Home,
        is_expired: impl Fn(i64) -> bool,
    ) -> Result<Self, PackageError> {
        let lock = lock_exclusively(&home.packages_lock_file())?;
        for folder in [
            home.packages_dir(),
            home.package_staging_dir(),
            home.removed_packages_dir(),
        ] {
            file_modes::ensure_dir(&folder, FolderAccess::OwnerOnly)?;
        }
        let file = StateFile::new(home.packages_file());
        let mut open = Self {
            home,
            records: file.read()?.unwrap_or_default(),
            file,
            _lock: lock,
        };
        if open.records.pending.is_some() {
            open.finish_pending()?;
        }
        open.drop_expired(is_expired)?;
        open.remove_leftovers()?;
        Ok(open)
    }

    /// Records a change, makes it, and records that it is complete.
    pub(super) fn make_change(&mut self, change: PendingChange) -> Result<(), PackageError> {
        self.records.pending = Some(change);
        self.write()?;
        failpoint::reach("packages.recorded");
        let Some(error) = self.finish_pending()? else {
            return Ok(());
        };
        let taken = io::ErrorKind::AlreadyExists;
        let elsewhere = io::ErrorKind::CrossesDevices;
        if [taken, elsewhere].contains(&error.kind()) {
            return Err(PackageError::Conflict(format!(
                "the files cannot be put in place: {error}. Nothing was changed. Its place must be free, and on the file \
                 system of the home"
            )));
        }
        let folder = self.home.packages_dir();
        Err(HomeError::unwritable(&folder)(error).into())
    }

    /// Finishes the pending change. If nothing of it can be moved, it is taken back; returns the reason.
    fn finish_pending(&mut self) -> Result<Option<io::Error>, PackageError> {
        let Some(change) = self.records.pending.clone() else {
            return Ok(None);
        };
        let files = change.files_in_home(self.home);
        let is_new = || change.is_staged_new(&files);
        let failure = match is_new().and_then(|is_new| files.make(is_new)) {
            Ok(()) => {
                self.records.complete_pending();
                None
            }
            Err(error) if files.is_untouched(is_new().unwrap_or(false)) => {
                self.records.pending = None;
                Some(error)
            }
            Err(error) => {
                let folder = self.home.packages_dir();
                return Err(HomeError::unwritable(&folder)(error).into());
            }
        };
        self.write()?;
        failpoint::reach("packages.complete");
        self.remove_leftovers()?;
        Ok(failure)
    }

    fn write(&self) -> Result<(), HomeError> {
        self.file.write(&self.records)
    }

    fn drop_expired(&mut self, is_expired: impl Fn(i64) -> bool) -> Result<(), PackageError> {
        let before = self.records.removed.len();
        self.records.removed.retain(|one| !is_expired(one.at_ms));
        if self.records.removed.len() < before {
            self.write()?;
        }
        Ok(())
    }

    /// Removes what is staged, and removed packages without a record.
    fn remove_leftovers(&self) -> Result<(), PackageError> {
        let removed = self.home.removed_packages_dir();
        let is_recorded = |path: &Path| {
            let name = path.file_name().unwrap_or_default();
            let mut all = self.records.removed.iter();
            path.starts_with(&removed) && all.any(|one| name == one.name.as_str())
        };
        for folder in [self.home.package_staging_dir(), removed.clone()] {
            let entries = fs::read_dir(&folder).map_err(HomeError::unreadable(&folder))?;
            for entry in entries {
                let path = entry.map_err(HomeError::unreadable(&folder))?.path();
                if !is_recorded(&path) {
                    remove_tree(&path).map_err(HomeError::unwritable(&path))?;
                }
            }
        }
        Ok(())
    }
}

impl PendingChange {
    /// Returns the paths that it moves.
    fn files_in_home(&self, home: &Home) -> TreeChange {
        let name = self.kind.file_name(&self.id);
        let removed_dir = home.removed_packages_dir();
        TreeChange {
            staged: self.source.as_ref().map(|source| match source {
                ChangeSource::Staging => home.package_staging_dir().join(&name),
                ChangeSource::Removed(removed) => removed_dir.join(removed),
            }),
            target: self.kind.folder(home).join(&name),
            aside: self
                .removed
                .as_ref()
                .map(|removed| removed_dir.join(&removed.name)),
        }
    }

    /// Returns whether the staged files are the new ones: after an exchange they are the old ones.
    fn is_staged_new(&self, files: &TreeChange) -> io::Result<bool> {
        match (files.staged_tree(), &self.source, &self.receipt) {
            (Some(staged), Some(ChangeSource::Staging), Some(receipt)) => {
                Ok(find_changes(staged, &receipt.files)?.is_empty())
            }
            _ => Ok(true),
        }
    }
}
