//! Secrets for one command: variables, and files in a folder that exists as long as the command. Not here: the secrets
//! that a skill declares (secret_mounts), and their storage (secrets).
//!
//! Each folder has a lock that is held by the process that created it. So any process can tell a stale folder from one
//! in use.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::error::HomeError;
use super::layout::Home;
use punie_core::durable::{
    allow_missing, open_lock_file, open_private_file, private_folder_builder,
};
use punie_text::redact::Secret;

/// The variable that names the folder of a command's secret files.
pub const FOLDER_VARIABLE: &str = "PUNIE_SECRETS";
/// The suffix of a lock's name, after the folder's name.
const LOCK_SUFFIX: &str = ".lock";
/// Held while a folder is created or stale ones are removed.
const MOUNTS_LOCK_NAME: &str = "turn";

/// The secrets of one command. Dropping this removes the files.
pub struct MountedSecrets {
    variables: Vec<(String, Secret<String>)>,
    folder: Option<MountFolder>,
}

/// One secret as a file.
pub struct MountedSecretFile {
    /// The path below the folder, of plain names.
    pub path: PathBuf,
    /// The variable that holds the file's path, if one was declared.
    pub variable: Option<String>,
    /// The content of the file.
    pub value: Secret<String>,
}

impl MountedSecrets {
    /// Writes the files, readable by this user alone.
    ///
    /// # Errors
    /// [`HomeError`] when a file cannot be written; all files are removed then.
    pub fn write(
        home: &Home,
        mut variables: Vec<(String, Secret<String>)>,
        files: Vec<MountedSecretFile>,
    ) -> Result<Self, HomeError> {
        if files.is_empty() {
            return Ok(Self {
                variables,
                folder: None,
            });
        }
        let folder = MountFolder::create(&home.mounts_dir())?;
        for MountedSecretFile {
            path,
            variable,
            value,
        } in files
        {
            let file = folder.path.join(&path);
            folder
                .write_secret_file(&file, value.expose())
                .map_err(HomeError::unwritable(&file))?;
            if let Some(variable) = variable {
                variables.push((variable, Secret::new(file.display().to_string())));
            }
        }
        variables.push((
            FOLDER_VARIABLE.to_owned(),
            Secret::new(folder.path.display().to_string()),
        ));
        Ok(Self {
            variables,
            folder: Some(folder),
        })
    }

    /// Returns the variables: secrets, and the paths of the files.
    pub fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        self.variables
            .iter()
            .map(|(name, value)| (name.as_str(), value.expose().as_str()))
    }

    /// Returns the folder of the files, if there are any.
    pub fn folder(&self) -> Option<&Path> {
        self.folder.as_ref().map(|folder| folder.path.as_path())
    }
}

impl fmt::Debug for MountedSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self
            .variables
            .iter()
            .map(|(name, _)| name.as_str())
            .collect();
        f.debug_struct("Mounted")
            .field("variables", &names)
            .finish_non_exhaustive()
    }
}

/// Removes the folders of processes that have ended. Returns the number of folders.
///
/// # Errors
/// [`HomeError`] when the folder cannot be read or an entry cannot be removed.
pub fn remove_stale_mounts(home: &Home) -> Result<usize, HomeError> {
    let place = home.mounts_dir();
    let _turn = lock_mounts(&place)?;
    remove_unlocked_folders(&place).map_err(HomeError::unwritable(&place))
}

/// Counts the folders of processes that have ended, and changes nothing.
///
/// # Errors
/// [`HomeError`] when the folder or a lock cannot be read.
pub fn count_stale_mounts(home: &Home) -> Result<usize, HomeError> {
    let place = home.mounts_dir();
    let is_stale = |name: &String| match File::open(place.join(format!("{name}{LOCK_SUFFIX}"))) {
        Ok(lock) => lock.try_lock_shared().is_ok(),
        Err(_) => true,
    };
    let names = allow_missing(list_mount_names(&place)).map_err(HomeError::unreadable(&place))?;
    let names = names.unwrap_or_default();
    Ok(names.iter().filter(|name| is_stale(name)).count())
}

/// A folder that is removed when this is dropped.
struct MountFolder {
    path: PathBuf,
    lock: PathBuf,
    _held: File,
}

impl MountFolder {
    fn create(place: &Path) -> Result<Self, HomeError> {
        let _turn = lock_mounts(place)?;
        // Files that another process could not remove must not wait for the next start of the runner.
        if let Err(cause) = remove_unlocked_folders(place) {
            tracing::warn!(%cause, "secrets that an earlier command was given could not be removed");
        }
        let name = uuid::Uuid::new_v4().simple().to_string();
        let path = place.join(&name);
        let lock = place.join(name + LOCK_SUFFIX);
        let held = open_lock_file(&lock).and_then(|file| file.lock().map(|()| file));
        let held = held.map_err(HomeError::unwritable(&lock))?;
        let folder = Self {
            path,
            lock,
            _held: held,
        };
        let created = private_folder_builder().create(&folder.path);
        created.map_err(HomeError::unwritable(&folder.path))?;
        Ok(folder)
    }

    fn write_secret_file(&self, file: &Path, value: &str) -> io::Result<()> {
        // Created one by one, so that each folder in between is private as well.
        let below: Vec<&Path> = file
            .ancestors()
            .skip(1)
            .take_while(|path| *path != self.path)
            .collect();
        for folder in below.into_iter().rev().filter(|folder| !folder.is_dir()) {
            private_folder_builder().create(folder)?;
        }
        let mut file = open_private_file(file, |options| options.write(true).create_new(true))?;
        file.write_all(value.as_bytes())
    }
}

impl Drop for MountFolder {
    fn drop(&mut self) {
        for gone in [
            allow_missing(fs::remove_dir_all(&self.path)),
            allow_missing(fs::remove_file(&self.lock)),
        ] {
            if let Err(cause) = gone {
                tracing::error!(folder = %self.path.display(), %cause, "secrets of a command could not be removed");
            }
        }
    }
}

fn lock_mounts(place: &Path) -> Result<File, HomeError> {
    let path = place.join(MOUNTS_LOCK_NAME);
    open_lock_file(&path)
        .and_then(|file| file.lock().map(|()| file))
        .map_err(HomeError::unwritable(&path))
}

/// Returns the names of the folders here, or of their locks.
fn list_mount_names(place: &Path) -> io::Result<BTreeSet<String>> {
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(place)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name != MOUNTS_LOCK_NAME {
            names.insert(
                name.strip_suffix(LOCK_SUFFIX)
                    .map(str::to_owned)
                    .unwrap_or(name),
            );
        }
    }
    Ok(names)
}

/// Removes every folder whose lock is not held. The caller must hold the lock of all mounts.
fn remove_unlocked_folders(place: &Path) -> io::Result<usize> {
    let mut removed = 0;
    for name in list_mount_names(place)? {
        let lock = place.join(format!("{name}{LOCK_SUFFIX}"));
        match open_lock_file(&lock)?.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => continue,
            Err(TryLockError::Error(cause)) => return Err(cause),
        }
        allow_missing(fs::remove_dir_all(place.join(&name)))?;
        allow_missing(fs::remove_file(&lock))?;
        removed += 1;
    }
    Ok(removed)
}
