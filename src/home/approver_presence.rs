//! Tells the runner that a person can be asked on this machine: every process that asks holds a shared lock on one file.
//! The system releases it when the process ends. Not here: the questions (approvals).
#![expect(
    clippy::disallowed_methods,
    reason = "this file owns the lock of the home that says who can be asked"
)]

use std::fs::{File, TryLockError};

use super::error::HomeError;
use super::layout::Home;
use crate::durable::open_lock_file;

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
        let path = home.approver_lock_file();
        let shared = open_lock_file(&path).map_err(HomeError::unwritable(&path))?;
        // The runner holds the lock alone for a moment only, to see that it is free.
        shared.lock_shared().map_err(HomeError::unwritable(&path))?;
        Ok(Self { _shared: shared })
    }

    /// Returns whether a process asks a person now. If that cannot be found out, one may.
    pub fn is_announced(home: &Home) -> bool {
        match File::open(home.approver_lock_file()) {
            Ok(file) => matches!(
                file.try_lock(),
                Err(TryLockError::WouldBlock | TryLockError::Error(_))
            ),
            Err(error) => error.kind() != std::io::ErrorKind::NotFound,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_who_asks_is_known_until_the_last_has_gone() {
        let folder = tempfile::tempdir().expect("a folder");
        let home = Home::open_home(&folder.path().join("home")).expect("a home");
        assert!(!ApproverPresence::is_announced(&home), "nobody was here");
        let one = ApproverPresence::announce(&home).expect("announced");
        let two = ApproverPresence::announce(&home).expect("announced");
        drop(one);
        assert!(ApproverPresence::is_announced(&home));
        drop(two);
        assert!(!ApproverPresence::is_announced(&home));
    }
}
