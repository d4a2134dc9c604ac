//! One statement that changes a database, in a transaction of its own: kept whole or not at all. Not here: what it may
//! do (guard), and its text (shape).

use std::fmt::Write as _;

use rusqlite::Connection;
use rusqlite::ffi::ErrorCode as Code;

use super::guard::Guard;
use super::page::interrupted;
use super::shape::{Shape, Verb};
use crate::output::figures::counted;
use crate::tool::{ErrorCode, ToolError};

/// What a change came to.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tally {
    verb: Verb,
    rows: u64,
    /// Rows that triggers and foreign keys changed beside.
    beside: u64,
    last_id: i64,
}

impl Tally {
    /// In one line.
    pub(super) fn shown(&self, shown: &str) -> String {
        if self.verb == Verb::Other {
            return format!("Done and committed to {shown}: the schema or its statistics were changed.");
        }
        let mut text = format!("Done and committed to {shown}: {} affected", counted(self.rows, "row"));
        if self.beside > 0 {
            let _ = write!(text, ", {} more by triggers and foreign keys", counted(self.beside, "row"));
        }
        if self.verb == Verb::Insert && self.rows > 0 && self.last_id != 0 {
            let _ = write!(text, ", last insert id {}", self.last_id);
        }
        text + "."
    }
}

/// A transaction that is undone unless it is kept.
pub(super) struct Change<'a> {
    connection: &'a Connection,
    guard: &'a Guard,
    before: u64,
}

impl<'a> Change<'a> {
    /// Takes the lock for writing, waiting for other programs as long as the call may.
    pub(super) fn begin(connection: &'a Connection, guard: &'a Guard) -> rusqlite::Result<Self> {
        guard.patiently(|| guard.own(|| connection.execute_batch("BEGIN IMMEDIATE")))?;
        Ok(Self { connection, guard, before: connection.total_changes() })
    }

    /// What the statement did, once it ran.
    pub(super) fn tally(&self, shape: Shape) -> Tally {
        let rows = self.connection.changes();
        let all = self.connection.total_changes() - self.before;
        Tally {
            verb: shape.verb,
            rows,
            beside: all.saturating_sub(rows),
            last_id: self.connection.last_insert_rowid(),
        }
    }

    /// Makes it last. Readers of other programs may be in the way for a while.
    pub(super) fn keep(self) -> rusqlite::Result<()> {
        if !self.guard.claim().commit() {
            // Whoever asked was told that nothing is changed.
            return Err(interrupted());
        }
        self.guard.patiently(|| self.guard.own(|| self.connection.execute_batch("COMMIT")))
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        // SQLite has undone some failures by itself. Where this fails, closing the connection undoes it.
        if !self.connection.is_autocommit() {
            let _ = self.guard.own(|| self.connection.execute_batch("ROLLBACK"));
        }
    }
}

/// Refuses a statement that changes every row of its table, unless that is confirmed, and one that no transaction
/// holds.
pub(super) fn check_reach(shape: Shape, confirm: bool) -> Result<(), ToolError> {
    if shape.verb == Verb::Vacuum {
        let text = "VACUUM is not allowed: it writes the whole file anew, or another one, and cannot be undone. Run it with \
                    the sqlite3 command, in Bash, if the user wants it.";
        return Err(ToolError::new(ErrorCode::PolicyDenied, text));
    }
    if confirm || !shape.is_sweeping() {
        return Ok(());
    }
    let verb = if shape.verb == Verb::Delete { "DELETE" } else { "UPDATE" };
    Err(ToolError::new(
        ErrorCode::PolicyDenied,
        format!(
            "This {verb} has no WHERE, so it changes every row of the table. It was not run. Add a WHERE, or give \
             confirm=true if every row is meant."
        ),
    ))
}

/// Says what a change came to that failed while it was being made to last.
pub(super) fn not_kept(cause: &rusqlite::Error, error: &ToolError) -> ToolError {
    let surely = matches!(
        cause.sqlite_error_code(),
        Some(
            Code::DatabaseBusy
                | Code::DatabaseLocked
                | Code::ConstraintViolation
                | Code::OperationInterrupted
        )
    );
    if surely {
        return undone(error);
    }
    ToolError::new(
        error.code(),
        format!(
            "{}\nIt failed while the change was being committed, so the change may have been made or not. Look with mode=ro \
             before you send it again.",
            error.text()
        ),
    )
}

/// Says that a failed change left nothing behind.
pub(super) fn undone(error: &ToolError) -> ToolError {
    ToolError::new(
        error.code(),
        format!("{}\nNothing was changed: the transaction was rolled back.", error.text()),
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::guard::Scope;
    use super::super::leave::Left;
    use super::*;

    #[test]
    fn a_change_whose_call_was_answered_is_not_kept() {
        let connection = Connection::open_in_memory().expect("a database");
        connection.execute_batch("CREATE TABLE t (a)").expect("a table");
        for leaves in [true, false] {
            let guard = Guard::new(Scope::Changing, Duration::from_mins(1));
            let change = Change::begin(&connection, &guard).expect("a transaction");
            connection.execute_batch("INSERT INTO t VALUES (1)").expect("a row");
            assert!(!leaves || guard.claim().leave(&Left::default()));
            assert_eq!(change.keep().is_ok(), !leaves);
            let rows: i64 =
                connection.query_row("SELECT count(*) FROM t", [], |row| row.get(0)).expect("a number");
            assert_eq!(rows, i64::from(!leaves));
        }
    }
}
