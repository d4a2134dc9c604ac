//! Installs, removes, restores and lists packages. One change at a time: it is staged, checked, recorded, moved, and
//! recorded as complete. Not here: the moves (package_change), and what a package consists of.
#![expect(
    clippy::disallowed_methods,
    reason = "this file owns the staging folder of packages"
)]

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::package_change::{ChangePaths, is_there, remove_if_there};
use super::package_content::{PackageContent, find_changes};
use super::package_kind::PackageKind;
use super::package_records::{
    ChangeSource, PackageReceipt, PackageRecords, PendingChange, RemovedPackage,
};
use super::package_version::compare_versions;
use crate::durable::{open_lock_file, sync_folder};
use crate::failpoint;
use crate::home::command_hint::command_to_type;
use crate::home::error::HomeError;
use crate::home::file_modes::{self, FolderAccess};
use crate::home::layout::Home;
use crate::home::state_file::StateFile;
use crate::home::{plugins, skills};
use crate::ids::to_hex;

/// The most changes that an error names.
const NAMED_CHANGES: usize = 5;

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

/// The reason why a package cannot be installed, removed or restored.
#[derive(Debug, thiserror::Error)]
pub enum PackageError {
    /// The package itself is wrong.
    #[error("{0}")]
    Invalid(String),
    /// Something else is there; the text names the choices.
    #[error("{0}")]
    Conflict(String),
    /// There is no such package.
    #[error("{0}")]
    Missing(String),
    /// The home cannot be used.
    #[error(transparent)]
    Home(#[from] HomeError),
}

/// The packages of one home.
#[derive(Debug, Clone)]
pub struct PackageStore {
    home: Home,
    keep: Duration,
}

impl PackageStore {
    /// Returns the packages of this home; removed ones are kept for this time.
    pub fn in_home(home: &Home, keep: Duration) -> Self {
        Self {
            home: home.clone(),
            keep,
        }
    }

    /// Finishes or takes back what a killed process left. Blocks.
    ///
    /// # Errors
    /// The records are damaged, or the home cannot be written.
    pub fn recover_changes(&self) -> Result<(), PackageError> {
        if is_there(&self.home.packages_dir()) || is_there(&self.home.packages_file()) {
            self.open_records()?;
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
        let mut open = self.open_records()?;
        let path = self.checked_path(new.kind, &new.id)?;
        let receipt = PackageReceipt {
            kind: new.kind,
            id: new.id.clone(),
            package: new.package.clone(),
            version: new.version.clone(),
            sha256: sha256.to_owned(),
            files: new.content.file_hashes(),
            at_ms: now_ms(),
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
                Some(removed_package(present)?)
            }
        };
        self.stage_package(new)?;
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
    pub fn uninstall_package(
        &self,
        kind: PackageKind,
        id: &str,
        package: Option<&str>,
    ) -> Result<PackageReceipt, PackageError> {
        let mut open = self.open_records()?;
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
        let removed = is_there(&path).then(|| removed_package(receipt.clone()));
        open.make_change(PendingChange {
            kind,
            id: id.to_owned(),
            source: None,
            removed: removed.transpose()?,
            receipt: None,
        })?;
        Ok(receipt)
    }

    /// Puts back the package of this id that was removed last. Blocks.
    ///
    /// # Errors
    /// None was removed, something is there, or the home cannot be written.
    pub fn restore_package(
        &self,
        kind: PackageKind,
        id: &str,
    ) -> Result<InstalledPackage, PackageError> {
        let mut open = self.open_records()?;
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
        let records = self.open_records()?.records;
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

    /// Locks and reads the records, finishes what an earlier process began, and removes what it left.
    fn open_records(&self) -> Result<OpenRecords<'_>, PackageError> {
        let lock_file = self.home.packages_lock_file();
        let lock = open_lock_file(&lock_file).and_then(|file| file.lock().map(|()| file));
        let lock = lock.map_err(HomeError::unwritable(&lock_file))?;
        for folder in [
            self.home.packages_dir(),
            self.home.package_staging_dir(),
            self.home.removed_packages_dir(),
        ] {
            file_modes::ensure_dir(&folder, FolderAccess::OwnerOnly)?;
        }
        let file = StateFile::new(self.home.packages_file());
        let mut open = OpenRecords {
            home: &self.home,
            records: file.read()?.unwrap_or_default(),
            file,
            _lock: lock,
        };
        if open.records.pending.is_some() {
            open.finish_pending()?;
        }
        open.drop_expired(self.keep)?;
        open.remove_leftovers()?;
        Ok(open)
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
    fn stage_package(&self, new: &NewPackage) -> Result<(), PackageError> {
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
        remove_if_there(&staged).map_err(HomeError::unwritable(&staged))?;
        let (word, id) = (new.kind.as_str(), &new.id);
        Err(PackageError::Invalid(format!(
            "the {word} {id:?} would not load without a problem: {problem}. Nothing was installed"
        )))
    }
}

/// The records, while no other process may change them.
struct OpenRecords<'a> {
    home: &'a Home,
    file: StateFile<PackageRecords>,
    records: PackageRecords,
    _lock: File,
}

impl OpenRecords<'_> {
    fn make_change(&mut self, change: PendingChange) -> Result<(), PackageError> {
        self.records.pending = Some(change);
        self.write_records()?;
        failpoint::reach("packages.recorded");
        match self.finish_pending()? {
            None => Ok(()),
            Some(error) => {
                let folder = self.home.packages_dir();
                Err(HomeError::unwritable(&folder)(error).into())
            }
        }
    }

    /// Finishes the pending change. If nothing of it can be moved, it is taken back; returns the reason.
    fn finish_pending(&mut self) -> Result<Option<io::Error>, PackageError> {
        let Some(change) = self.records.pending.clone() else {
            return Ok(None);
        };
        let paths = ChangePaths::in_home(self.home, &change);
        let failure = match paths.move_files() {
            Ok(()) => {
                self.records.complete_pending();
                None
            }
            Err(error) if paths.is_untouched() => {
                self.records.pending = None;
                Some(error)
            }
            Err(error) => {
                let folder = self.home.packages_dir();
                return Err(HomeError::unwritable(&folder)(error).into());
            }
        };
        self.write_records()?;
        failpoint::reach("packages.complete");
        self.remove_leftovers()?;
        Ok(failure)
    }

    fn write_records(&self) -> Result<(), HomeError> {
        self.file.write(&self.records)
    }

    fn drop_expired(&mut self, keep: Duration) -> Result<(), PackageError> {
        let oldest = now_ms() - i64::try_from(keep.as_millis()).unwrap_or(i64::MAX);
        let before = self.records.removed.len();
        self.records.removed.retain(|one| one.at_ms >= oldest);
        if self.records.removed.len() < before {
            self.write_records()?;
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
                    remove_if_there(&path).map_err(HomeError::unwritable(&path))?;
                }
            }
        }
        Ok(())
    }
}

/// Refuses an update that is not one of the same package, unchanged since, to the same or a newer version.
fn check_update(
    new: &PackageReceipt,
    present: &PackageReceipt,
    path: &Path,
) -> Result<(), PackageError> {
    let (word, id) = (present.kind.as_str(), &present.id);
    let choices = format!(
        "Nothing was changed. Choose another id; or uninstall it first (UninstallPackage), which keeps it for `{}`; `{}` lists \
         what is installed",
        command_to_type(&format!("packages restore {word} {id}")),
        list_command()
    );
    let conflict = |why: String| Err(PackageError::Conflict(format!("{why}. {choices}")));
    if new.package != present.package {
        return conflict(format!(
            "the {word} {id:?} belongs to the package {:?}, not to {:?}",
            present.package, new.package
        ));
    }
    let changes = find_changes(path, &present.files).map_err(HomeError::unreadable(path))?;
    if !changes.is_empty() {
        let named: Vec<&str> = changes
            .iter()
            .take(NAMED_CHANGES)
            .map(String::as_str)
            .collect();
        let more = if changes.len() > NAMED_CHANGES {
            " and more"
        } else {
            ""
        };
        return conflict(format!(
            "the {word} {id:?} was changed since it was installed ({}{more})",
            named.join(", ")
        ));
    }
    match (&new.version, &present.version) {
        (Some(new), Some(present)) if compare_versions(new, present).is_lt() => conflict(format!(
            "the {word} {id:?} is installed in version {present}, which is newer than {new}"
        )),
        _ => Ok(()),
    }
}

fn foreign_item_error(kind: PackageKind, id: &str, path: &Path) -> PackageError {
    PackageError::Conflict(format!(
        "there is a {} {id:?} already, which no package installed: {}. Nothing was changed. Choose another id, or have the \
         owner move it away; `{}` lists what packages installed",
        kind.as_str(),
        path.display(),
        list_command()
    ))
}

fn list_command() -> String {
    command_to_type("packages")
}

/// Makes the record of a package that is taken away now, under a name of its own.
fn removed_package(receipt: PackageReceipt) -> Result<RemovedPackage, PackageError> {
    let mut random = [0_u8; 8];
    getrandom::fill(&mut random)
        .map_err(|error| PackageError::Invalid(format!("no random bytes: {error}")))?;
    Ok(RemovedPackage {
        name: format!(
            "{}-{}-{}",
            receipt.kind.as_str(),
            receipt.id,
            to_hex(&random)
        ),
        receipt,
        at_ms: now_ms(),
    })
}

fn now_ms() -> i64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH);
    i64::try_from(since_1970.unwrap_or_default().as_millis()).unwrap_or(i64::MAX)
}
