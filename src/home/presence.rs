//! Tells the runner which processes are there: those that ask a person on this machine, and the clients that use the
//! runner. Each holds a shared lock on one file, which the system releases when the process ends.

use std::fs::{File, TryLockError};
use std::path::Path;

use super::error::HomeError;
use super::layout::Home;
use punie_core::durable::open_lock_file;

/// A process that asks a person about calls. Dropping this says that it no longer does.
#[derive(Debug)]
pub struct ApproverPresence {
    _shared: File,
}

impl ApproverPresence {
    /// Announces that this process asks a person from now on.
    ///
    /// # Errors
    /// [`HomeError`] if the lock file cannot be written.
    pub fn announce(home: &Home) -> Result<Self, HomeError> {
        let shared = share_lock(&home.approver_lock_file())?;
        Ok(Self { _shared: shared })
    }

    /// Returns whether a process asks a person now. If that cannot be found out, one may.
    pub fn is_announced(home: &Home) -> bool {
        is_shared(&home.approver_lock_file())
    }
}

/// A client that uses the runner of this home. Dropping this says that it no longer does.
#[derive(Debug)]
pub struct ClientPresence {
    _shared: File,
}

impl ClientPresence {
    /// Announces that this process uses the runner from now on.
    ///
    /// # Errors
    /// [`HomeError`] if the lock file cannot be written.
    pub fn announce(home: &Home) -> Result<Self, HomeError> {
        let shared = share_lock(&home.clients_lock_file())?;
        Ok(Self { _shared: shared })
    }

    /// Returns whether a client uses the runner now. If that cannot be found out, one may.
    pub fn is_announced(home: &Home) -> bool {
        is_shared(&home.clients_lock_file())
    }
}

fn share_lock(path: &Path) -> Result<File, HomeError> {
    let shared = open_lock_file(path).map_err(HomeError::unwritable(path))?;
    // The runner holds the lock alone for a moment only, to see that it is free.
    shared.lock_shared().map_err(HomeError::unwritable(path))?;
    Ok(shared)
}

fn is_shared(path: &Path) -> bool {
    match File::open(path) {
        Ok(file) => matches!(
            file.try_lock(),
            Err(TryLockError::WouldBlock | TryLockError::Error(_))
        ),
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_there_until_the_last_of_its_kind_has_gone() {
        let folder = tempfile::tempdir().expect("a folder");
        let home = Home::open_home(&folder.path().join("home")).expect("a home");
        assert!(!ApproverPresence::is_announced(&home), "nobody was here");
        let one = ApproverPresence::announce(&home).expect("announced");
        let two = ApproverPresence::announce(&home).expect("announced");
        assert!(!ClientPresence::is_announced(&home), "another kind");
        drop(one);
        assert!(ApproverPresence::is_announced(&home));
        drop(two);
        assert!(!ApproverPresence::is_announced(&home));
    }
}
