//! One runner per home: an operating system lock that a crash releases. Also the lock files that guard changes to one
//! file.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use super::error::HomeError;
use super::layout::Home;
use punie_core::durable::{allow_missing, open_lock_file};

/// The time to wait for commands that only test the lock, and for children of a killed runner that have not started
/// their program. Both take microseconds, unless the machine is busy.
const SHARED_LOCK_TIMEOUT: Duration = Duration::from_secs(10);
/// The pause between two attempts.
const RETRY_INTERVAL: Duration = Duration::from_millis(1);

/// The lock of a running runner. The file stays; the lock on it ends with the process.
#[derive(Debug)]
pub struct RunnerLock {
    file: File,
}

/// The reason why the lock could not be taken.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Another runner holds it.
    #[error(
        "another runner already works with this home{}. Stop it, or name another home with --home",
        pid.map_or_else(String::new, |pid| format!(" (process {pid})"))
    )]
    Held {
        /// The process id, if it could be read.
        pid: Option<u32>,
    },
    /// The lock file cannot be written or read.
    #[error(transparent)]
    Home(#[from] HomeError),
}

impl LockError {
    /// Returns the exit code of a command that stops with this error.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Held { .. } => 75,
            Self::Home(error) => error.exit_code(),
        }
    }
}

/// Waits for this lock, which is released when the returned file is dropped.
pub(super) fn lock_exclusively(path: &Path) -> Result<File, HomeError> {
    let file = open_runner_lock(path)?;
    file.lock().map_err(HomeError::unwritable(path))?;
    Ok(file)
}

/// Takes this lock; `None` while another process holds it.
pub(super) fn try_lock_file(path: &Path) -> Result<Option<File>, HomeError> {
    let file = open_runner_lock(path)?;
    let is_taken = is_lock_taken(file.try_lock(), path)?;
    Ok(is_taken.then_some(file))
}

/// The right to change the configuration file, from reading it to writing it.
#[derive(Debug)]
pub struct ConfigLock {
    _file: File,
}

impl ConfigLock {
    /// Waits until no other command changes the configuration file of this home.
    ///
    /// # Errors
    /// [`HomeError`] if the lock file cannot be written.
    pub fn acquire(home: &Home) -> Result<Self, HomeError> {
        let file = lock_exclusively(&home.config_lock_file())?;
        Ok(Self { _file: file })
    }
}

/// Opens the lock file, and creates it if it is missing.
fn open_runner_lock(path: &Path) -> Result<File, HomeError> {
    open_lock_file(path).map_err(HomeError::unwritable(path))
}

impl RunnerLock {
    /// Takes the lock without waiting for another runner, and writes this process's id to it.
    ///
    /// # Errors
    /// [`LockError::Held`] while another process (or another part of this one) holds it.
    #[expect(
        clippy::disallowed_methods,
        reason = "nothing tells that a lock is given up"
    )]
    pub fn try_acquire(home: &Home) -> Result<Self, LockError> {
        let path = home.runner_lock_file();
        let mut file = open_runner_lock(&path)?;
        let began = Instant::now();
        while began.elapsed() < SHARED_LOCK_TIMEOUT {
            if is_lock_taken(file.try_lock(), &path)? {
                write_pid(&mut file, Some(std::process::id()))
                    .map_err(HomeError::unwritable(&path))?;
                return Ok(Self { file });
            }
            // A runner holds an exclusive lock, a tester a shared one. If a shared lock can be taken, no runner is
            // running.
            if !is_lock_taken(file.try_lock_shared(), &path)? {
                let pid = read_pid(&mut file);
                // A runner that ended while it started a command leaves its lock to the child until the child's `exec`.
                // A runner that has just started writes its process id in a moment.
                if pid.is_some_and(process_exists) {
                    return Err(LockError::Held { pid });
                }
                std::thread::sleep(RETRY_INTERVAL);
                continue;
            }
            file.unlock().map_err(HomeError::unwritable(&path))?;
            std::thread::sleep(RETRY_INTERVAL);
        }
        Err(LockError::Held {
            pid: read_pid(&mut file),
        })
    }

    /// Returns the runner that holds the lock, without taking the lock from it.
    ///
    /// # Errors
    /// [`HomeError`] if the lock file exists and cannot be read.
    pub fn find_holder(home: &Home) -> Result<Option<RunnerLockHolder>, HomeError> {
        let path = home.runner_lock_file();
        let opened = allow_missing(OpenOptions::new().read(true).open(&path));
        let Some(mut file) = opened.map_err(HomeError::unreadable(&path))? else {
            return Ok(None);
        };
        if is_lock_taken(file.try_lock_shared(), &path)? {
            return Ok(None);
        }
        Ok(Some(RunnerLockHolder {
            pid: read_pid(&mut file),
        }))
    }
}

/// The runner that holds the lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunnerLockHolder {
    /// Its process id, if it could be read.
    pub pid: Option<u32>,
}

impl Drop for RunnerLock {
    fn drop(&mut self) {
        // The process id is cleared so that it misleads no reader. The lock is released explicitly, because children
        // that are being started inherit the file and would hold the lock until their `exec`. A crash releases both in
        // that way.
        let _ = write_pid(&mut self.file, None);
        let _ = self.file.unlock();
    }
}

fn is_lock_taken(answer: Result<(), TryLockError>, path: &Path) -> Result<bool, HomeError> {
    match answer {
        Ok(()) => Ok(true),
        Err(TryLockError::WouldBlock) => Ok(false),
        Err(TryLockError::Error(error)) => Err(HomeError::unwritable(path)(error)),
    }
}

#[cfg(unix)]
fn process_exists(pid: u32) -> bool {
    let pid = i32::try_from(pid)
        .ok()
        .and_then(rustix::process::Pid::from_raw);
    pid.is_some_and(|pid| rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH))
}

#[cfg(not(unix))]
fn process_exists(_pid: u32) -> bool {
    true
}

fn write_pid(file: &mut File, pid: Option<u32>) -> io::Result<()> {
    file.set_len(0)?;
    file.seek(SeekFrom::Start(0))?;
    if let Some(pid) = pid {
        writeln!(file, "{pid}")?;
    }
    Ok(())
}

fn read_pid(file: &mut File) -> Option<u32> {
    let mut text = String::new();
    file.seek(SeekFrom::Start(0)).ok()?;
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lock_that_is_given_up_does_not_stay_with_a_program_that_is_being_started() {
        let folder = tempfile::tempdir().expect("a folder for the test");
        let home = Home::open_home(&folder.path().join("home")).expect("a home");
        let lock = RunnerLock::try_acquire(&home).expect("free");
        // What a process shares that is being made, until its program begins.
        let shared = lock.file.try_clone().expect("a copy");
        drop(lock);
        assert_eq!(RunnerLock::find_holder(&home).expect("readable"), None);
        drop(shared);
    }
}
