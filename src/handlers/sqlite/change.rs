//! One statement that changes a database, in a transaction of its own: kept whole or not at all. Not here: what it may
//! do (guard), and its text (shape).

use std::fmt::Write as _;

use rusqlite::Connection;

use super::guard::Guard;
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

/// Says that a failed change left nothing behind.
pub(super) fn undone(error: &ToolError) -> ToolError {
    ToolError::new(
        error.code(),
        format!("{}\nNothing was changed: the transaction was rolled back.", error.text()),
    )
}
