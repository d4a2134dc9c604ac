//! One way to run a statement of a write: prepared once, kept by the connection.

use rusqlite::{Connection, Params};

/// Runs a prepared statement, and returns how many rows it changed.
pub(super) fn execute_cached(
    connection: &Connection,
    sql: &str,
    values: impl Params,
) -> rusqlite::Result<usize> {
    connection.prepare_cached(sql)?.execute(values)
}
