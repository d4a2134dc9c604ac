//! The runner that clients start in the background: the lock under which one of them starts it, the record of the
//! program that runs, and the order by which a newer program asks it to finish.

use std::fs::File;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::error::HomeError;
use super::layout::Home;
use super::private_files::{remove_file_if_exists, replace_private_file};
use super::runner_lock::{RunnerLockHolder, try_lock_file};

/// The right to start the runner of this home, until it is dropped or the process ends.
#[derive(Debug)]
pub struct RunnerStartLock {
    _file: File,
}

impl RunnerStartLock {
    /// Takes the right; `None` while another process starts the runner.
    ///
    /// # Errors
    /// [`HomeError`] if the lock file cannot be written.
    pub fn try_acquire(home: &Home) -> Result<Option<Self>, HomeError> {
        let taken = try_lock_file(&home.runner_start_lock_file())?;
        Ok(taken.map(|file| Self { _file: file }))
    }
}

/// The runner in the background, as it describes itself once it is ready.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BackgroundRunner {
    /// Its process.
    pub pid: u32,
    /// The version of its program.
    pub version: String,
}

impl BackgroundRunner {
    /// Records that this runner is ready.
    ///
    /// # Errors
    /// [`HomeError`] if it cannot be written.
    pub fn record(&self, home: &Home) -> Result<(), HomeError> {
        write_record(&home.background_runner_file(), self)
    }

    /// Returns the record of the runner that holds the lock; `None` if that is no runner in the background.
    pub fn find(home: &Home, holder: RunnerLockHolder) -> Option<Self> {
        let found: Self = read_record(&home.background_runner_file())?;
        (Some(found.pid) == holder.pid).then_some(found)
    }
}

/// A newer program that takes over. The runner in the background ends for it as soon as nothing runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SuccessorProgram {
    /// Its version.
    pub version: String,
    /// Its file.
    pub program: PathBuf,
}

impl SuccessorProgram {
    /// Asks the runner to finish, and the next client that needs a runner to start this program.
    ///
    /// # Errors
    /// [`HomeError`] if it cannot be written.
    pub fn ask(&self, home: &Home) -> Result<(), HomeError> {
        write_record(&home.successor_file(), self)
    }

    /// Returns the program that takes over, if one does.
    pub fn find(home: &Home) -> Option<Self> {
        read_record(&home.successor_file())
    }

    /// Removes the order, which has been carried out.
    ///
    /// # Errors
    /// [`HomeError`] if it cannot be removed.
    pub fn clear(home: &Home) -> Result<(), HomeError> {
        remove_file_if_exists(&home.successor_file()).map(drop)
    }
}

fn write_record(path: &Path, record: &impl Serialize) -> Result<(), HomeError> {
    let text = serde_json::to_vec(record)
        .map_err(|error| HomeError::unwritable(path)(std::io::Error::other(error)))?;
    replace_private_file(path, &text)
}

fn read_record<T: DeserializeOwned>(path: &Path) -> Option<T> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}
