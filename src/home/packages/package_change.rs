//! The renames of a change: what is staged takes the place of what is installed, which goes to the removed packages.
//! Each step can be repeated, so that the process after a crash finishes what a record says.
#![expect(
    clippy::disallowed_methods,
    reason = "this file moves packages between the folders of the home"
)]

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::package_content::find_changes;
use super::package_records::{ChangeSource, PendingChange};
use crate::import::exchange_paths;
use crate::layout::Home;
use punie_core::durable::{allow_missing, sync_folder};
use punie_core::failpoint;

#[derive(Debug)]
pub(super) struct ChangePaths<'a> {
    change: &'a PendingChange,
    installed: PathBuf,
    source: Option<PathBuf>,
    removed: Option<PathBuf>,
}

impl<'a> ChangePaths<'a> {
    pub(super) fn in_home(home: &Home, change: &'a PendingChange) -> Self {
        let name = change.kind.file_name(&change.id);
        let removed_dir = home.removed_packages_dir();
        let source = change.source.as_ref().map(|source| match source {
            ChangeSource::Staging => home.package_staging_dir().join(&name),
            ChangeSource::Removed(name) => removed_dir.join(name),
        });
        Self {
            change,
            installed: change.kind.folder(home).join(&name),
            source,
            removed: change
                .removed
                .as_ref()
                .map(|removed| removed_dir.join(&removed.name)),
        }
    }

    /// Moves the files. What an earlier process has moved stays where it is.
    pub(super) fn move_files(&self) -> io::Result<()> {
        let source = self.source.as_deref().filter(|path| is_there(path));
        match (source, &self.removed) {
            (Some(source), Some(removed)) => {
                if is_there(&self.installed) {
                    if self.is_new(source)? && !exchange_paths(source, &self.installed)? {
                        rename_to_free_name(&self.installed, removed)?;
                        failpoint::reach("packages.taken_away");
                        rename_to_free_name(source, &self.installed)?;
                    }
                } else if self.is_new(source)? {
                    rename_to_free_name(source, &self.installed)?;
                }
                failpoint::reach("packages.put_in_place");
                if is_there(source) {
                    rename_to_free_name(source, removed)?;
                }
            }
            (Some(source), None) => rename_to_free_name(source, &self.installed)?,
            (None, Some(removed)) if self.change.source.is_none() => {
                if is_there(&self.installed) && !is_there(removed) {
                    rename_to_free_name(&self.installed, removed)?;
                }
            }
            (None, _) => {}
        }
        failpoint::reach("packages.moved");
        let folders = [
            Some(&self.installed),
            self.source.as_ref(),
            self.removed.as_ref(),
        ];
        let folders = folders
            .into_iter()
            .flatten()
            .filter_map(|path| path.parent());
        folders
            .filter(|folder| is_there(folder))
            .try_for_each(sync_folder)
    }

    /// Returns whether nothing has been moved yet.
    pub(super) fn is_untouched(&self) -> bool {
        let has_removed = self.removed.as_deref().is_some_and(is_there);
        let has_source = match &self.source {
            Some(source) => is_there(source) && self.is_new(source).unwrap_or(false),
            None => is_there(&self.installed),
        };
        has_source && !has_removed
    }

    /// Returns whether the source still has the new files: after an exchange it has the old ones.
    fn is_new(&self, source: &Path) -> io::Result<bool> {
        match (&self.change.source, &self.change.receipt) {
            (Some(ChangeSource::Staging), Some(receipt)) => {
                Ok(find_changes(source, &receipt.files)?.is_empty())
            }
            _ => Ok(true),
        }
    }
}

/// Returns whether there is something at a path, also a link that leads nowhere.
pub(super) fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// Renames, and never replaces what is there.
fn rename_to_free_name(from: &Path, to: &Path) -> io::Result<()> {
    #[cfg(any(target_os = "linux", target_vendor = "apple"))]
    {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        use rustix::io::Errno;
        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            // A file system without that flag: nobody else holds the lock of the packages.
            Err(Errno::INVAL | Errno::NOSYS | Errno::NOTSUP) => {}
            renamed => return Ok(renamed?),
        }
    }
    if is_there(to) {
        return Err(io::ErrorKind::AlreadyExists.into());
    }
    fs::rename(from, to)
}

/// Removes a file or a folder, if it is there.
pub(super) fn remove_if_there(path: &Path) -> io::Result<()> {
    let removed = match fs::symlink_metadata(path) {
        Ok(meta) if meta.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(error) => Err(error),
    };
    allow_missing(removed).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packages::package_content::PackageContent;
    use crate::packages::package_kind::PackageKind;
    use crate::packages::package_records::{PackageReceipt, RemovedPackage};

    fn content(text: &str) -> PackageContent {
        let mut content = PackageContent::default();
        content
            .add_file("SKILL.md", text.to_owned())
            .expect("a path");
        content
    }

    fn receipt(text: &str) -> PackageReceipt {
        PackageReceipt {
            kind: PackageKind::Skill,
            id: "notes".to_owned(),
            package: "pack".to_owned(),
            version: None,
            sha256: String::new(),
            files: content(text).file_hashes(),
            at_ms: 0,
        }
    }

    #[test]
    fn w55_an_update_is_finished_from_each_of_its_steps() {
        // The old and the new files, each at one of the three places before the rest is done.
        for (at_source, at_installed, at_removed) in [
            (Some("new"), Some("old"), None),
            (Some("old"), Some("new"), None),
            (Some("new"), None, Some("old")),
            (None, Some("new"), Some("old")),
        ] {
            let folder = tempfile::tempdir().expect("a folder");
            let home = Home::open_home(&folder.path().join("home")).expect("a home");
            for dir in [home.package_staging_dir(), home.removed_packages_dir()] {
                fs::create_dir_all(dir).expect("made");
            }
            let removed = RemovedPackage {
                name: "skill-notes-1".to_owned(),
                receipt: receipt("old"),
                is_replaced: true,
                at_ms: 0,
            };
            let change = PendingChange {
                kind: PackageKind::Skill,
                id: "notes".to_owned(),
                source: Some(ChangeSource::Staging),
                removed: Some(removed),
                receipt: Some(receipt("new")),
            };
            let paths = ChangePaths::in_home(&home, &change);
            let places = [
                home.package_staging_dir().join("notes"),
                home.skills_dir().join("notes"),
                home.removed_packages_dir().join("skill-notes-1"),
            ];
            for (place, text) in places.iter().zip([at_source, at_installed, at_removed]) {
                let written = text.map(|text| content(text).write_folder(place));
                written.transpose().expect("written");
            }
            let is_first = at_installed == Some("old");
            assert_eq!(
                paths.is_untouched(),
                is_first,
                "{at_source:?} {at_installed:?}"
            );
            paths.move_files().expect("moved");
            let read = |place: &Path| fs::read_to_string(place.join("SKILL.md")).ok();
            let now: Vec<Option<String>> = places.iter().map(|place| read(place)).collect();
            let expected = [None, Some("new".to_owned()), Some("old".to_owned())];
            assert_eq!(now, expected, "{at_source:?} {at_installed:?}");
        }
    }
}
