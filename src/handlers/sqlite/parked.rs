//! What may not be closed yet. Not here: opening databases.
//!
//! SQLite's locks on a file belong to the process (POSIX advisory locks), and closing *any* descriptor of that file
//! gives all of them up: a look at a database's first bytes would unlock a query that another call is running on
//! it, and a program could write into what that query reads. So a descriptor that was only looked through is kept
//! while any connection with locks is open. SQLite does the same with its own. Where
//! `record_locks` gives SQLite locks of another kind, nothing would be unlocked, and waiting does no harm.
//!
//! The folder of a database waits as well. SQLite keeps one index of a log (`-shm`) for all connections of the process to
//! that database, and whichever is the last removes it by the name that the first one gave, which leads through the
//! first one's open folder. Were that closed by then, its number could stand for another folder with such a file.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};

#[derive(Debug, Default)]
struct Lot {
    locking: usize,
    kept: Vec<Box<dyn Any + Send>>,
}

/// Where such things wait.
#[derive(Debug, Clone, Default)]
pub(super) struct Parked(Arc<Mutex<Lot>>);

impl Parked {
    /// Closes a file or a folder as soon as no connection with locks is open.
    pub(super) fn close(&self, open: impl Any + Send) {
        let mut lot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lot.locking > 0 {
            lot.kept.push(Box::new(open));
        }
        // Else it is closed here, under the lock: no connection can be opened in between.
    }

    /// To be held from before a connection is opened until after it is closed.
    pub(super) fn locking(&self) -> Locking {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).locking += 1;
        Locking(self.clone())
    }
}

/// A connection with locks is open.
#[derive(Debug)]
pub(super) struct Locking(Parked);

impl Drop for Locking {
    fn drop(&mut self) {
        let mut lot = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        lot.locking -= 1;
        if lot.locking == 0 {
            lot.kept.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_waits_for_the_last_connection() {
        let parked = Parked::default();
        let waiting = |parked: &Parked| parked.0.lock().expect("a lock").kept.len();
        let file = || tempfile::tempfile().expect("a file");
        parked.close(file());
        assert_eq!(waiting(&parked), 0);
        let (first, second) = (parked.locking(), parked.locking());
        parked.close(file());
        drop(first);
        assert_eq!(waiting(&parked), 1);
        drop(second);
        assert_eq!(waiting(&parked), 0);
    }
}
