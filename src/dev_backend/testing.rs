//! What this room's unit tests share: a database in memory with the real tables.

use rusqlite::Connection;

use super::secrets::hash;
use super::store::migrations;
use crate::ids::DeviceId;

/// A migrated, empty database.
pub(super) fn database() -> Connection {
    let mut db = Connection::open_in_memory().expect("memory");
    migrations().to_latest(&mut db).expect("the tables");
    db
}

/// Registers the device `d` with the session token `t`.
pub(super) fn device(db: &Connection) -> DeviceId {
    db.execute(
        "INSERT INTO devices (device_id, public_key, token_hash, name, platform, registered_at_ms) \
         VALUES ('d', x'', ?1, 'name', 'platform', 0.0)",
        [hash("t")],
    )
    .expect("registered");
    DeviceId::parse("d").expect("an id")
}

/// The steps by which SQLite would answer.
pub(super) fn plan(db: &Connection, sql: &str) -> Vec<String> {
    let mut statement = db.prepare(&format!("EXPLAIN QUERY PLAN {sql}")).expect("valid SQL");
    let unbound = vec![rusqlite::types::Null; statement.parameter_count()];
    let steps = statement.query_map(rusqlite::params_from_iter(unbound), |row| row.get(3)).expect("a plan");
    steps.map(|step| step.expect("text")).collect()
}
