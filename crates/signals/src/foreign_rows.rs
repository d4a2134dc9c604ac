//! Rows of databases whose schema belongs to another program. The schema is probed before it is queried, and no value is
//! trusted to have the declared type. The schema itself is data too: a table may be a view that never ends.

use std::path::Path;

use rusqlite::types::ValueRef;
use rusqlite::{Connection, ErrorCode, Params, Row};

use super::snapshot::{Snapshot, error_text};
use super::{Budget, SignalPlaces};

/// Takes a snapshot of a database and hands it to `read`. Returns what the snapshot may lack, for people.
///
/// # Errors
/// A text for people: that of the snapshot, or that of `read`.
pub(crate) fn with_database(
    path: &Path,
    places: &SignalPlaces,
    budget: &Budget,
    read: impl FnOnce(&Connection) -> Result<(), String>,
) -> Result<Option<String>, String> {
    let snapshot = Snapshot::take(path, &places.scratch, budget)?;
    read(&snapshot.database)?;
    Ok(snapshot.problem)
}

/// Returns whether the table or view has all these columns.
pub(crate) fn has_columns(database: &Connection, table: &str, columns: &[&str]) -> bool {
    let count = |column: &&str| {
        database.query_row(
            "SELECT COUNT(*) FROM pragma_table_info(?1) WHERE name = ?2 COLLATE NOCASE",
            [table, column],
            |row| row.get::<_, i64>(0),
        )
    };
    columns.iter().all(|column| count(column) == Ok(1))
}

/// Asks for columns without which a source cannot be read.
///
/// # Errors
/// A text for people that names the table.
pub(crate) fn require_columns(
    database: &Connection,
    table: &str,
    columns: &[&str],
) -> Result<(), String> {
    if has_columns(database, table, columns) {
        return Ok(());
    }
    Err(format!(
        "its table {table} is not one that this version of punie-runner knows"
    ))
}

/// Calls `take` with each row until the budget ends. The budget knows then that it was exceeded.
///
/// # Errors
/// A text for people: the query does not fit the schema, or the file is damaged. Rows before the damage were handed over.
pub(crate) fn for_each_row(
    database: &Connection,
    budget: &Budget,
    sql: &str,
    params: impl Params,
    mut take: impl FnMut(&Row<'_>),
) -> Result<(), String> {
    let read_all = || -> rusqlite::Result<()> {
        let mut statement = database.prepare(sql)?;
        let mut rows = statement.query(params)?;
        while let Some(row) = rows.next()? {
            if !budget.take_entry() {
                break;
            }
            take(row);
        }
        Ok(())
    };
    match read_all() {
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::OperationInterrupted) => {
            budget.has_time();
            Ok(())
        }
        ended => ended.map_err(|error| error_text(&error, budget)),
    }
}

/// Reads a text, with broken UTF-8 replaced. Anything else is empty.
pub(crate) fn read_text(row: &Row<'_>, column: usize) -> String {
    match row.get_ref(column) {
        Ok(ValueRef::Text(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
        _ => String::new(),
    }
}

/// Reads a number of things. Anything else, and less than none, is none.
pub(crate) fn read_count(row: &Row<'_>, column: usize) -> u64 {
    match row.get_ref(column) {
        Ok(ValueRef::Integer(count)) => u64::try_from(count).unwrap_or(0),
        _ => 0,
    }
}
