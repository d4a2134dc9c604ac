//! Helpers of this module's unit tests: databases with the real tables, and one device.

use std::sync::Arc;

use rusqlite::Connection;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use super::backend_state::BackendState;
use super::commit_clock::BackendClock;
use super::commits::CommitNotifier;
use super::credentials::hash_text;
use super::snapshots::SnapshotCache;
use super::store::{BackendStore, schema_migrations};
use super::wakeups::WakeupRegistry;
use punie_core::ids::DeviceId;

/// A migrated, empty database.
pub(super) fn database() -> Connection {
    let mut db = Connection::open_in_memory().expect("memory");
    schema_migrations().to_latest(&mut db).expect("the tables");
    db
}

/// Registers the device `d` with the session token `t`.
pub(super) fn device(db: &Connection) -> DeviceId {
    db.execute(
        "INSERT INTO devices (device_id, public_key, token_hash, name, platform, registered_at_ms) \
         VALUES ('d', x'', ?1, 'name', 'platform', 0.0)",
        [hash_text("t")],
    )
    .expect("registered");
    DeviceId::parse("d").expect("an id")
}

/// A backend without a socket, with the device `d` and the caller token `c`.
pub(super) fn backend() -> (Arc<BackendState>, TempDir) {
    let home = tempfile::tempdir().expect("a folder");
    let path = home.path().join("b.sqlite3");
    let store = BackendStore::open_store(&path).expect("opened");
    store
        .run_write_blocking(|db| {
            device(db);
            db.execute(
                "INSERT INTO callers (token_hash, name, minted_at_ms) VALUES (?1, 'c', 0.0)",
                [hash_text("c")],
            )
        })
        .expect("written")
        .expect("a caller");
    let backend = BackendState {
        store,
        snapshots: SnapshotCache::for_database(path),
        wakeups: WakeupRegistry::default(),
        commits: CommitNotifier::default(),
        clock: BackendClock::new(|| 1000.0),
        stopping: CancellationToken::new(),
        sockets: TaskTracker::new(),
        admin_key: "a".into(),
        holds: true,
        faults: None,
        caller_reads: Arc::default(),
    };
    (Arc::new(backend), home)
}

/// Returns the steps of SQLite's query plan.
pub(super) fn plan(db: &Connection, sql: &str) -> Vec<String> {
    let mut statement = db
        .prepare(&format!("EXPLAIN QUERY PLAN {sql}"))
        .expect("valid SQL");
    let unbound = vec![rusqlite::types::Null; statement.parameter_count()];
    let steps = statement
        .query_map(rusqlite::params_from_iter(unbound), |row| row.get(3))
        .expect("a plan");
    steps.map(|step| step.expect("text")).collect()
}
