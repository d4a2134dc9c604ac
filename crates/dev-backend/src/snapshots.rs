//! Database snapshots that stay readable for a while, so that several calls can be answered from one.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::Connection;
use tokio::time::Instant;

use super::commit_clock::last_commit_seq;
use super::failure::{FunctionFailure, FunctionResult};
use super::store::{StoreError, connect_database};

/// The lifetime of a snapshot. Until its end, the database's write-ahead log cannot start over.
pub(super) const SNAPSHOT_TTL: Duration = Duration::from_secs(30);
/// The most snapshots at once; a new one evicts the oldest.
const MAX_SNAPSHOTS: usize = 8;

/// The readable snapshots.
#[derive(Debug)]
pub(super) struct SnapshotCache {
    path: PathBuf,
    kept: Mutex<Vec<CachedSnapshot>>,
}

#[derive(Debug)]
struct CachedSnapshot {
    ts: i64,
    until: Instant,
    db: Arc<Mutex<Connection>>,
}

impl SnapshotCache {
    /// Creates an empty cache for the database in this file.
    pub fn for_database(path: PathBuf) -> Self {
        Self {
            path,
            kept: Mutex::default(),
        }
    }

    /// Takes a snapshot and returns its time on the commit clock.
    pub fn take_snapshot(&self) -> Result<i64, StoreError> {
        let db = connect_database(&self.path)?;
        db.execute_batch("BEGIN")?;
        // In SQLite the first read takes the snapshot.
        let ts = last_commit_seq(&db)?;
        let mut kept = self.kept.lock();
        kept.retain(|kept| kept.ts != ts);
        if kept.len() >= MAX_SNAPSHOTS {
            kept.remove(0);
        }
        kept.push(CachedSnapshot {
            ts,
            until: Instant::now() + SNAPSHOT_TTL,
            db: Arc::new(Mutex::new(db)),
        });
        Ok(ts)
    }

    /// Reads from the snapshot of this time. Returns `None` if it is gone.
    pub fn read<T>(
        &self,
        ts: i64,
        job: impl FnOnce(&Connection) -> FunctionResult<T>,
    ) -> Option<Result<T, FunctionFailure>> {
        self.evict_expired();
        let kept = self.kept.lock();
        let db = Arc::clone(&kept.iter().find(|kept| kept.ts == ts)?.db);
        drop(kept);
        let db = db.lock();
        Some(job(&db))
    }

    pub fn evict_expired(&self) {
        let now = Instant::now();
        self.kept.lock().retain(|kept| now < kept.until);
    }

    pub fn evict_all(&self) {
        self.kept.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit_transaction::CommitTransaction;
    use crate::store::BackendStore;

    fn commit(store: &BackendStore) -> i64 {
        store
            .run_write_blocking(|db| {
                let mut commit = CommitTransaction::begin(db, 1000.0).expect("begun");
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
        let store = BackendStore::open_store(&path).expect("opened");
        let snapshots = SnapshotCache::for_database(path);
        let first = commit(&store);
        assert_eq!(snapshots.take_snapshot().expect("kept"), first);
        let second = commit(&store);
        assert_eq!(snapshots.take_snapshot().expect("kept"), second);
        let seen = |ts| {
            snapshots
                .read(ts, |db| Ok(last_commit_seq(db)?))
                .map(|seen| seen.expect("read"))
        };
        assert_eq!(
            (seen(first), seen(second), seen(second + 1)),
            (Some(first), Some(second), None)
        );

        tokio::time::advance(SNAPSHOT_TTL / 2).await;
        assert_eq!(snapshots.take_snapshot().expect("kept anew"), second);
        tokio::time::advance(SNAPSHOT_TTL / 2).await;
        assert_eq!((seen(first), seen(second)), (None, Some(second)));
        for _ in 0..MAX_SNAPSHOTS {
            commit(&store);
            snapshots.take_snapshot().expect("kept");
        }
        assert_eq!(seen(second), None, "the oldest goes");
        snapshots.evict_all();
    }
}
