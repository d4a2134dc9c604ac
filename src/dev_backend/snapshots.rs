//! Database snapshots that stay readable for a while, so that several calls can be answered from one.
//! Not here: snapshots for a single call (`store`).

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rusqlite::Connection;
use tokio::time::Instant;

use super::clock::last_seq;
use super::failure::Failure;
use super::store::{StoreError, connect};

/// The lifetime of a snapshot. Until its end, the database's write-ahead log cannot start over.
pub(super) const KEPT: Duration = Duration::from_secs(30);
/// The most snapshots at once; a new one evicts the oldest.
const MOST: usize = 8;

/// The readable snapshots.
#[derive(Debug)]
pub(super) struct Snapshots {
    path: PathBuf,
    kept: Mutex<Vec<Kept>>,
}

#[derive(Debug)]
struct Kept {
    ts: i64,
    until: Instant,
    db: Arc<Mutex<Connection>>,
}

impl Snapshots {
    /// Creates an empty cache for the database in this file.
    pub fn of(path: PathBuf) -> Self {
        Self { path, kept: Mutex::default() }
    }

    /// Takes a snapshot and returns its time on the commit clock.
    pub fn keep(&self) -> Result<i64, StoreError> {
        let db = connect(&self.path)?;
        db.execute_batch("BEGIN")?;
        // In SQLite the first read takes the snapshot.
        let ts = last_seq(&db)?;
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        kept.retain(|kept| kept.ts != ts);
        if kept.len() >= MOST {
            kept.remove(0);
        }
        kept.push(Kept { ts, until: Instant::now() + KEPT, db: Arc::new(Mutex::new(db)) });
        Ok(ts)
    }

    /// Reads from the snapshot of this time. Returns `None` if it is gone.
    pub fn read<T>(
        &self,
        ts: i64,
        job: impl FnOnce(&Connection) -> Result<T, Failure>,
    ) -> Option<Result<T, Failure>> {
        self.forget_old();
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let db = Arc::clone(&kept.iter().find(|kept| kept.ts == ts)?.db);
        drop(kept);
        let db = db.lock().unwrap_or_else(PoisonError::into_inner);
        Some(job(&db))
    }

    /// Evicts expired snapshots.
    pub fn forget_old(&self) {
        let now = Instant::now();
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).retain(|kept| now < kept.until);
    }

    /// Evicts all snapshots.
    pub fn forget_all(&self) {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dev_backend::store::{Commit, Store};

    fn commit(store: &Store) -> i64 {
        store
            .write_now(|db| {
                let mut commit = Commit::begin(db, 1000.0).expect("begun");
                let seq = commit.seq().expect("a seq");
                commit.finish().expect("committed");
                seq
            })
            .expect("written")
    }

    #[tokio::test(start_paused = true)]
    async fn a_kept_snapshot_stays_as_it_was_until_its_time_is_over() {
        let home = tempfile::tempdir().expect("a folder");
        let path = home.path().join("b.sqlite3");
        let store = Store::open(&path).expect("opened");
        let snapshots = Snapshots::of(path);
        let first = commit(&store);
        assert_eq!(snapshots.keep().expect("kept"), first);
        let second = commit(&store);
        assert_eq!(snapshots.keep().expect("kept"), second);
        let seen = |ts| snapshots.read(ts, |db| Ok(last_seq(db)?)).map(|seen| seen.expect("read"));
        assert_eq!((seen(first), seen(second), seen(second + 1)), (Some(first), Some(second), None));

        tokio::time::advance(KEPT / 2).await;
        assert_eq!(snapshots.keep().expect("kept anew"), second);
        tokio::time::advance(KEPT / 2).await;
        assert_eq!((seen(first), seen(second)), (None, Some(second)));
        for _ in 0..MOST {
            commit(&store);
            snapshots.keep().expect("kept");
        }
        assert_eq!(seen(second), None, "the oldest goes");
        snapshots.forget_all();
    }
}
