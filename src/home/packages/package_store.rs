//! Installs, removes, restores and lists packages. One change at a time: it is staged, checked, recorded, moved, and
//! recorded as complete.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use super::open_records::OpenRecords;
use super::package_conflicts::{PackageError, check_update, foreign_item_error, list_command};
use super::package_content::{PackageContent, find_changes};
use super::package_kind::PackageKind;
use super::package_records::{ChangeSource, PackageReceipt, PendingChange, RemovedPackage};
use crate::command_hint::command_to_type;
use crate::error::HomeError;
use crate::file_modes::{self, FolderAccess};
use crate::installed_tree::{is_there, remove_tree};
use crate::layout::Home;
use crate::{plugins, skills};
use punie_core::clock::{ExpiryClock, unix_time_ms};
use punie_core::durable::sync_folder;
use punie_core::failpoint;

/// A package to be installed.
#[derive(Debug, Clone)]
pub struct NewPackage {
    pub(super) kind: PackageKind,
    pub(super) id: String,
    pub(super) package: String,
    pub(super) version: Option<String>,
    pub(super) content: PackageContent,
}

/// The result of an installation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InstallResult {
    /// There was none of this id.
    Installed,
    /// It replaced what the same package had installed.
    Updated,
    /// The same files were there already.
    Unchanged,
}

/// A package that is in place.
#[derive(Debug, Clone)]
pub struct InstalledPackage {
    /// What was done.
    pub result: InstallResult,
    /// Its file or folder.
    pub path: PathBuf,
}

/// An installed package, for lists.
#[derive(Debug, Clone)]
pub struct ListedPackage {
    /// Its receipt.
    pub receipt: PackageReceipt,
    /// Its file or folder.
    pub path: PathBuf,
    /// What changed in it since, such as `changed SKILL.md`. `None` if it is gone.
    pub changes: Option<Vec<String>>,
}

/// The packages of one home.
#[derive(Debug, Clone)]
pub struct PackageStore {
    home: Home,
    keep: Duration,
    clock: ExpiryClock,
}

impl PackageStore {
    /// Returns the packages of this home; removed ones are kept for this time.
    pub fn in_home(home: &Home, keep: Duration) -> Self {
        Self {
            home: home.clone(),
            keep,
            clock: ExpiryClock::default(),
        }
    }

    /// Deletes removed packages that are too old by this clock. Without one, none is.
    #[must_use]
    pub fn with_expiry_clock(mut self, clock: &ExpiryClock) -> Self {
        self.clock = clock.clone();
        self
    }

    fn lock_records(&self) -> Result<OpenRecords<'_>, PackageError> {
        OpenRecords::lock_records(&self.home, |at_ms| self.clock.is_older(at_ms, self.keep))
    }

    /// Finishes or takes back what a killed process left. Blocks.
    ///
    /// # Errors
    /// The records are damaged, or the home cannot be written.
    pub fn recover_changes(&self) -> Result<(), PackageError> {
        if is_there(&self.home.packages_dir()) || is_there(&self.home.packages_file()) {
            self.lock_records()?;
        }
        Ok(())
    }

    /// Installs a package, or updates what the same package installed. `sha256` is that of its arguments. Blocks.
    ///
    /// # Errors
    /// The package is wrong, something else is there, or the home cannot be written.
    pub fn install_package(
        &self,
        new: &NewPackage,
        sha256: &str,
    ) -> Result<InstalledPackage, PackageError> {
        let mut open = self.lock_records()?;
        let path = self.checked_path(new.kind, &new.id)?;
        let receipt = PackageReceipt {
            kind: new.kind,
            id: new.id.clone(),
            package: new.package.clone(),
            version: new.version.clone(),
            sha256: sha256.to_owned(),
            files: new.content.file_hashes(),
            at_ms: unix_time_ms(),
        };
        let present = open.records.find_receipt(new.kind, &new.id).cloned();
        let replaced = match present {
            _ if !is_there(&path) => None,
            None => return Err(foreign_item_error(new.kind, &new.id, &path)),
            Some(present) => {
                check_update(&receipt, &present, &path)?;
                if present.files == receipt.files && present.version == receipt.version {
                    let result = InstallResult::Unchanged;
                    return Ok(InstalledPackage { result, path });
                }
                Some(removed_package(present, true))
            }
        };
        self.stage(new)?;
        failpoint::reach("packages.staged");
        let result = match &replaced {
            Some(_) => InstallResult::Updated,
            None => InstallResult::Installed,
        };
        open.make_change(PendingChange {
            kind: new.kind,
            id: new.id.clone(),
            source: Some(ChangeSource::Staging),
            removed: replaced,
            receipt: Some(receipt),
        })?;
        Ok(InstalledPackage { result, path })
    }

    /// Moves an installed package to the removed ones, with all files that were changed in it. Blocks.
    ///
    /// # Errors
    /// No package installed it, another package did, or the home cannot be written.
    pub fn uninstall(
        &self,
        kind: PackageKind,
        id: &str,
        package: Option<&str>,
    ) -> Result<PackageReceipt, PackageError> {
        let mut open = self.lock_records()?;
        let path = self.checked_path(kind, id)?;
        let word = kind.as_str();
        let Some(receipt) = open.records.find_receipt(kind, id).cloned() else {
            let text = if is_there(&path) {
                format!(
                    "the {word} {id:?} was not installed by a package, so only the owner removes it: {}",
                    path.display()
                )
            } else {
                format!(
                    "no package installed a {word} {id:?}. `{}` lists them",
                    list_command()
                )
            };
            return Err(PackageError::Missing(text));
        };
        if let Some(package) = package.filter(|package| *package != receipt.package) {
            return Err(PackageError::Conflict(format!(
                "the {word} {id:?} belongs to the package {:?}, not to {package:?}. Nothing was removed",
                receipt.package
            )));
        }
        let removed = is_there(&path).then(|| removed_package(receipt.clone(), false));
        open.make_change(PendingChange {
            kind,
            id: id.to_owned(),
            source: None,
            removed,
            receipt: None,
        })?;
        Ok(receipt)
    }

    /// Puts back the package of this id that was removed last. Blocks.
    ///
    /// # Errors
    /// None was removed, something is there, or the home cannot be written.
    pub fn restore(&self, kind: PackageKind, id: &str) -> Result<InstalledPackage, PackageError> {
        let mut open = self.lock_records()?;
        let path = self.checked_path(kind, id)?;
        let word = kind.as_str();
        let Some(removed) = open.records.find_removed(kind, id).cloned() else {
            let text = format!(
                "no removed {word} {id:?} is kept. `{}` lists them",
                list_command()
            );
            return Err(PackageError::Missing(text));
        };
        if is_there(&path) {
            return Err(PackageError::Conflict(format!(
                "{} is there. Uninstall it first: `{}`; or move it away",
                path.display(),
                command_to_type(&format!("packages uninstall {word} {id}"))
            )));
        }
        open.make_change(PendingChange {
            kind,
            id: id.to_owned(),
            source: Some(ChangeSource::Removed(removed.name)),
            removed: None,
            receipt: Some(removed.receipt),
        })?;
        let result = InstallResult::Installed;
        Ok(InstalledPackage { result, path })
    }

    /// Lists the installed and the removed packages. Blocks.
    ///
    /// # Errors
    /// The records are damaged, or the home cannot be written.
    pub fn list_packages(&self) -> Result<(Vec<ListedPackage>, Vec<RemovedPackage>), PackageError> {
        let records = self.lock_records()?.records;
        let listed = records.installed.into_iter().map(|receipt| {
            let path = receipt.kind.folder(&self.home);
            let path = path.join(receipt.kind.file_name(&receipt.id));
            ListedPackage {
                changes: find_changes(&path, &receipt.files).ok(),
                path,
                receipt,
            }
        });
        Ok((listed.collect(), records.removed))
    }

    /// Returns the path of a package, after a check that no link leads its folder out of the home.
    fn checked_path(&self, kind: PackageKind, id: &str) -> Result<PathBuf, PackageError> {
        let folder = kind.folder(&self.home);
        file_modes::ensure_dir(&folder, FolderAccess::GroupWrites)?;
        let path = folder.join(kind.file_name(id));
        for place in [&folder, &path] {
            if fs::symlink_metadata(place).is_ok_and(|meta| meta.is_symlink()) {
                return Err(PackageError::Conflict(format!(
                    "{} is a link, and packages lie in the home itself. Nothing was changed; choose another id, or have the \
                     owner remove the link",
                    place.display()
                )));
            }
        }
        Ok(path)
    }

    /// Writes a package into the staging folder, and checks that the runner can load it.
    fn stage(&self, new: &NewPackage) -> Result<(), PackageError> {
        let folder = self.home.package_staging_dir();
        let staged = folder.join(new.kind.file_name(&new.id));
        let written = match new.kind {
            PackageKind::Theme => new.content.write_single_file(&staged),
            _ => new.content.write_folder(&staged),
        };
        written
            .and_then(|()| sync_folder(&folder))
            .map_err(HomeError::unwritable(&staged))?;
        let checked = match new.kind {
            PackageKind::Skill => skills::check_skill(&self.home, &staged),
            PackageKind::Plugin => {
                plugins::load_plugin_below(&self.home, &folder, &staged).map(|_| Vec::new())
            }
            PackageKind::Theme | PackageKind::Canvas => Ok(Vec::new()),
        };
        let problem = match checked {
            Ok(flaws) if flaws.is_empty() => return Ok(()),
            Ok(flaws) => flaws.join("; "),
            Err(why) => why,
        };
        remove_tree(&staged).map_err(HomeError::unwritable(&staged))?;
        let word = new.kind.as_str();
        let id = &new.id;
        Err(PackageError::Invalid(format!(
            "the {word} {id:?} would not load without a problem: {problem}. Nothing was installed"
        )))
    }
}

/// Makes the record of a package that is taken away now, under a name of its own.
fn removed_package(receipt: PackageReceipt, is_replaced: bool) -> RemovedPackage {
    let own = uuid::Uuid::new_v4().simple();
    RemovedPackage {
        name: format!("{}-{}-{own}", receipt.kind.as_str(), receipt.id),
        receipt,
        is_replaced,
        at_ms: unix_time_ms(),
    }
}
