//! Checks the folders and file modes of a home that exists, and mends them.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::error::HomeError;
use super::file_modes::{self, FolderAccess};
use super::layout::Home;
use super::private_files::remove_file_if_exists;
use punie_core::durable;

/// The age from which no process is still writing a temporary file.
const UNFINISHED_AGE: Duration = Duration::from_mins(10);

/// The faults of a home's folders and files.
#[derive(Debug, Default)]
pub struct LayoutFaults {
    /// The folders that do not exist. The next start of a runner creates them.
    pub missing: Vec<PathBuf>,
    /// What other users may read or change.
    pub too_open: Vec<HomeError>,
    /// What keeps the home from being used: another owner, a file in place of a folder, no right to write.
    pub unusable: Vec<HomeError>,
}

impl Home {
    /// Finds the faults, and changes nothing.
    pub fn check_layout(&self) -> LayoutFaults {
        let mut faults = LayoutFaults::default();
        faults.add(file_modes::check_dir(
            self.root_dir(),
            FolderAccess::OwnerWrites,
        ));
        let mut no_folders: Vec<PathBuf> = Vec::new();
        for (folder, access) in self.folders() {
            if no_folders.iter().any(|above| folder.starts_with(above)) {
                continue;
            }
            match folder.symlink_metadata() {
                Err(error) if error.kind() == ErrorKind::NotFound => faults.missing.push(folder),
                _ => {
                    let checked = file_modes::check_dir(&folder, access);
                    if !folder.is_dir() {
                        no_folders.push(folder);
                    }
                    faults.add(checked);
                }
            }
        }
        for folder in self.token_folders() {
            faults.add(file_modes::check_dir(&folder, FolderAccess::OwnerOnly));
        }
        for file in self.secret_files() {
            faults.add(file_modes::check_secret_file(&file));
        }
        if self.state_dir().is_dir() {
            faults.add(file_modes::check_writable(&self.state_dir()));
        }
        faults
    }

    /// Takes the access of other users from the folders and secret files. Returns those that changed, and the errors.
    pub fn restrict_modes(&self) -> Vec<Result<PathBuf, HomeError>> {
        let root = (self.root_dir().to_owned(), FolderAccess::OwnerWrites);
        let private = |path: PathBuf| (path, FolderAccess::OwnerOnly);
        let all = [root]
            .into_iter()
            .chain(self.folders())
            .chain(self.token_folders().into_iter().map(private))
            .chain(self.secret_files().into_iter().map(private));
        all.filter(|(path, _)| path.exists() && !path.is_symlink())
            .filter_map(
                |(path, access)| match file_modes::restrict_mode(&path, access) {
                    Ok(false) => None,
                    Ok(true) => Some(Ok(path)),
                    Err(error) => Some(Err(HomeError::unwritable(&path)(error))),
                },
            )
            .collect()
    }

    /// Creates the missing folders of this home. Returns them, and the errors.
    pub fn create_missing_folders(&self) -> Vec<Result<PathBuf, HomeError>> {
        let can_be_made = |folder: &PathBuf| {
            let parent = folder.parent();
            folder.symlink_metadata().is_err() && parent.is_some_and(Path::is_dir)
        };
        let folders = self.folders().into_iter();
        // One by one: a folder may be the parent of the next.
        folders
            .filter(|(folder, _)| can_be_made(folder))
            .map(|(folder, access)| file_modes::ensure_dir(&folder, access).map(|()| folder))
            .collect()
    }

    /// Finds the files that a crash left half-written beside their targets.
    pub fn find_unfinished_files(&self) -> Vec<PathBuf> {
        let folders = [
            self.root_dir().to_owned(),
            self.state_dir(),
            self.keys_dir(),
            self.secrets_dir(),
            self.tokens_dir(),
        ];
        let folders = folders.into_iter().chain(self.token_folders());
        folders
            .flat_map(|folder| list_entries(&folder, is_unfinished_file))
            .collect()
    }

    /// Removes the files that a crash left half-written. Returns them, and the errors.
    pub fn remove_unfinished_files(&self) -> Vec<Result<PathBuf, HomeError>> {
        let found = self.find_unfinished_files().into_iter();
        found
            .map(|file| remove_file_if_exists(&file).map(|_| file))
            .collect()
    }

    fn token_folders(&self) -> Vec<PathBuf> {
        list_entries(&self.tokens_dir(), Path::is_dir)
    }

    /// The files of keys, secrets and tokens. Lock files are empty.
    fn secret_files(&self) -> Vec<PathBuf> {
        let folders = [self.keys_dir(), self.secrets_dir(), self.tokens_dir()];
        let is_secret = |path: &Path| {
            path.is_file() && path.extension().is_none_or(|extension| extension != "lock")
        };
        let folders = folders.into_iter().chain(self.token_folders());
        folders
            .flat_map(|folder| list_entries(&folder, is_secret))
            .collect()
    }
}

impl LayoutFaults {
    fn add(&mut self, checked: Result<(), HomeError>) {
        match checked {
            Ok(()) => {}
            Err(fault @ HomeError::TooOpen { .. }) => self.too_open.push(fault),
            Err(fault) => self.unusable.push(fault),
        }
    }
}

/// Returns whether this is a file with a name that `durable` gives, which no process is writing any more.
fn is_unfinished_file(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    if !durable::is_temp_name(&name) || path.is_symlink() {
        return false;
    }
    let modified = path.metadata().and_then(|file| file.modified());
    path.is_file() && modified.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > UNFINISHED_AGE))
}

fn list_entries(folder: &Path, is_wanted: impl Fn(&Path) -> bool) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| is_wanted(path))
        .collect();
    paths.sort();
    paths
}
