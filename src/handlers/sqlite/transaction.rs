//! One change of a database in a transaction of its own: kept whole or not at all.

use std::fmt::Write as _;

use rusqlite::Connection;
use rusqlite::ffi::ErrorCode as Code;

use super::row_page::interrupted_error;
use super::statement_guard::StatementGuard;
use super::statement_kind::{StatementKind, StatementVerb};
use punie_host::worker::CallerLink;
use punie_text::output::number_format::format_count;
use punie_tool::{ErrorCode, ToolError};

/// A transaction that is rolled back unless it is committed.
pub(super) struct ChangeTransaction<'a> {
    connection: &'a Connection,
    guard: &'a StatementGuard,
    changes_before: u64,
    schema_before: i64,
}

impl<'a> ChangeTransaction<'a> {
    /// Takes the lock for writing, waiting for other programs as long as the call may.
    pub(super) fn begin(
        connection: &'a Connection,
        guard: &'a StatementGuard,
    ) -> rusqlite::Result<Self> {
        guard.retry_locked(|| guard.run_internal(connection, "BEGIN IMMEDIATE"))?;
        Ok(Self {
            connection,
            guard,
            changes_before: connection.total_changes(),
            schema_before: schema_version(connection)?,
        })
    }

    /// Describes the change that the statement made.
    pub(super) fn describe_change(&self, kind: StatementKind, shown: &str) -> String {
        let is_same_schema = schema_version(self.connection) == Ok(self.schema_before);
        match kind.verb {
            StatementVerb::Schema if is_same_schema => {
                return format!(
                    "Nothing was changed in {shown}: what the statement creates is there, or what it drops is not."
                );
            }
            StatementVerb::Schema => {
                return format!("Done and committed to {shown}: the schema was changed.");
            }
            StatementVerb::Other => {
                return format!(
                    "Done and committed to {shown}: statistics or indexes were made anew."
                );
            }
            _ => {}
        }
        let rows = self.connection.changes();
        let others = (self.connection.total_changes() - self.changes_before).saturating_sub(rows);
        let mut text = format!(
            "Done and committed to {shown}: {} affected",
            format_count(rows, "row")
        );
        if others > 0 {
            let _ = write!(
                text,
                ", {} more by triggers, foreign keys or in the tables behind a virtual table",
                format_count(others, "row")
            );
        }
        let last_id = self.connection.last_insert_rowid();
        if kind.verb == StatementVerb::Insert && rows > 0 && last_id != 0 {
            let _ = write!(text, ", last insert id {last_id}");
        }
        text + "."
    }

    /// Commits. Readers of other programs may be in the way for a while.
    pub(super) fn commit(self, link: &CallerLink) -> rusqlite::Result<()> {
        // From the announcement on, the runner does not kill this process, so that it learns the outcome of the change.
        if self.guard.should_stop() || link.announce_commit().is_err() {
            return Err(interrupted_error());
        }
        self.guard
            .retry_locked(|| self.guard.run_internal(self.connection, "COMMIT"))
    }
}

impl Drop for ChangeTransaction<'_> {
    fn drop(&mut self) {
        // SQLite rolls some failures back by itself. Where this fails, closing the connection does it.
        if !self.connection.is_autocommit() {
            let _ = self.guard.run_internal(self.connection, "ROLLBACK");
        }
    }
}

/// The number that SQLite counts up with every change of the schema.
fn schema_version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("PRAGMA schema_version", [], |row| row.get(0))
}

/// Refuses a statement that changes every row of its table or drops something, unless that is confirmed, and one that
/// no transaction holds.
pub(super) fn check_confirmation(kind: StatementKind, is_confirmed: bool) -> Result<(), ToolError> {
    if kind.verb == StatementVerb::Vacuum {
        let text = "VACUUM is not allowed: it writes the whole file anew, or another one, and cannot be undone. Run it with \
                    the sqlite3 command, in Bash, if the user wants it.";
        return Err(ToolError::new(ErrorCode::PolicyDenied, text));
    }
    if is_confirmed {
        return Ok(());
    }
    if kind.drops {
        let text = "This statement drops a part of the schema, with what it holds. It was not run. Give confirm=true if \
                    that is meant.";
        return Err(ToolError::new(ErrorCode::PolicyDenied, text));
    }
    if !kind.changes_every_row() {
        return Ok(());
    }
    let verb = if kind.verb == StatementVerb::Delete {
        "DELETE"
    } else {
        "UPDATE"
    };
    Err(ToolError::new(
        ErrorCode::PolicyDenied,
        format!(
            "This {verb} has no WHERE, so it changes every row of the table. It was not run. Add a WHERE, or give \
             confirm=true if every row is meant."
        ),
    ))
}

/// The error of a change whose commit failed.
pub(super) fn commit_error(cause: &rusqlite::Error, error: &ToolError) -> ToolError {
    let is_rolled_back = matches!(
        cause.sqlite_error_code(),
        Some(
            Code::DatabaseBusy
                | Code::DatabaseLocked
                | Code::ConstraintViolation
                | Code::OperationInterrupted
        )
    );
    if is_rolled_back {
        rolled_back_error(error)
    } else {
        maybe_committed_error(error)
    }
}

/// The same error, for a change that may have been made.
pub(super) fn maybe_committed_error(error: &ToolError) -> ToolError {
    with_note(
        error,
        "It failed while the change was being committed, so the change may have been made or not. Look with mode=ro \
         before you send it again.",
    )
}

/// The same error, for a change that left nothing behind.
pub(super) fn rolled_back_error(error: &ToolError) -> ToolError {
    with_note(
        error,
        "Nothing was changed: the transaction was rolled back.",
    )
}

fn with_note(error: &ToolError, note: &str) -> ToolError {
    ToolError::new(
        error.stable_code(),
        format!("{}\n{note}", error.model_text()),
    )
}
