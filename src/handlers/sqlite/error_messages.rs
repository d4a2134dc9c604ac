//! SQLite's errors in words that an agent can act on.

use std::fmt::Write as _;
use std::time::Duration;

use rusqlite::ffi::ErrorCode as Code;
use rusqlite::{Connection, Error};

use super::name_hints::find_similar_names;
use super::statement_guard::{
    MAX_PATTERN, MAX_TEMP_BYTES, MAX_VALUE, StatementGuard, StatementScope,
};
use punie_text::output::number_format::format_size;
use punie_tool::{ErrorCode, ToolError};

/// The error of a file that cannot be opened, read or written as a database.
pub(super) fn file_error(shown: &str, guard: &StatementGuard, error: &Error) -> ToolError {
    let (code, text) = match error.sqlite_error_code() {
        _ if guard.is_cancelled() => (ErrorCode::Cancelled, "The query was cancelled.".to_owned()),
        Some(Code::ReadOnly | Code::PermissionDenied) if guard.is_changing() => (
            ErrorCode::PermissionDenied,
            format!(
                "{shown} cannot be written: the file or its folder is read-only for this user. mode=ro reads it."
            ),
        ),
        Some(Code::NotADatabase) => (
            ErrorCode::NotText,
            format!("{shown} is not a SQLite database, or it is encrypted."),
        ),
        Some(Code::DatabaseCorrupt) => (
            ErrorCode::Io,
            format!(
                "{shown} is damaged ({error}). `PRAGMA integrity_check` in sqlite3 tells more."
            ),
        ),
        Some(Code::DatabaseBusy | Code::DatabaseLocked) => (
            ErrorCode::Busy,
            format!(
                "{shown} is locked by another process, and stayed so for as long as timeout_ms allows. Ask again \
                 when that process is done (on Linux `fuser` names it), or with a larger timeout_ms."
            ),
        ),
        Some(Code::ReadOnly) => (
            ErrorCode::Busy,
            format!(
                "{shown} has an unfinished transaction of a program that was killed, and finishing it would write. \
                 Open and close it once with its own program."
            ),
        ),
        Some(Code::CannotOpen) => (
            ErrorCode::Io,
            format!(
                "{shown} cannot be opened ({error}). It may be a link, or not readable for this user."
            ),
        ),
        _ => (ErrorCode::Io, format!("{shown} cannot be read: {error}.")),
    };
    ToolError::new(code, text)
}

/// The error of a statement that was refused or failed.
pub(super) fn statement_error(
    connection: &Connection,
    guard: &StatementGuard,
    shown: &str,
    sql: &str,
    error: &Error,
) -> ToolError {
    let unsuitable = match error {
        Error::MultipleStatement => {
            Some("The query holds more than one statement. Send one statement in each call.")
        }
        Error::NulError(_) => Some("The query contains a NUL character."),
        _ => None,
    };
    if let Some(text) = unsuitable {
        return ToolError::invalid_args(text);
    }
    let denied = guard.take_denied();
    match error.sqlite_error_code() {
        Some(Code::OperationInterrupted) if guard.is_cancelled() => {
            ToolError::call_cancelled("The query was cancelled.")
        }
        Some(Code::OperationInterrupted) if guard.has_full_temp_files() => temp_quota_error(guard),
        Some(Code::OperationInterrupted) => ToolError::new(
            ErrorCode::Timeout,
            "The query took longer than timeout_ms. Narrow it (an index, a WHERE, a smaller join) or raise timeout_ms; \
             EXPLAIN QUERY PLAN shows how it is run.",
        ),
        Some(Code::OutOfMemory) => ToolError::new(
            ErrorCode::TooLarge,
            "The query was stopped: SQLite's memory grew by more than 256 MB while it ran. Ask for fewer rows or columns, \
             or take parts of long values with substr().",
        ),
        Some(Code::TooBig) => ToolError::new(
            ErrorCode::TooLarge,
            format!(
                "A value or a row of the query would be larger than {}. Use substr() to take a part of it.",
                format_size(u64::from(MAX_VALUE.unsigned_abs()))
            ),
        ),
        // A refused function is an error like any other to SQLite; only the guard knows better.
        code if denied.is_some() || code == Some(Code::AuthorizationForStatementDenied) => {
            scope_refusal(guard.scope(), denied.as_deref())
        }
        Some(
            Code::NotADatabase
            | Code::DatabaseCorrupt
            | Code::DatabaseBusy
            | Code::DatabaseLocked
            | Code::ReadOnly
            | Code::CannotOpen
            | Code::SystemIoFailure,
        ) => file_error(shown, guard, error),
        _ => unusable_statement_error(connection, guard, sql, error),
    }
}

fn temp_quota_error(guard: &StatementGuard) -> ToolError {
    let change = match guard.scope() {
        StatementScope::Reading => "",
        StatementScope::Changing => {
            " A change that needs more is made with the database's own program."
        }
    };
    ToolError::new(
        ErrorCode::TooLarge,
        format!(
            "The query was stopped: it sorts or collects more than {}, the limit for its temporary files. Sort fewer \
             rows or columns (a WHERE, long columns left out or taken in parts with substr()), use an index whose order \
             saves the sort, or a LIMIT in the query; EXPLAIN QUERY PLAN shows what needs a temporary B-tree.{change}",
            format_size(MAX_TEMP_BYTES),
        ),
    )
}

/// The error of a statement that would do more than is allowed.
pub(super) fn scope_refusal(scope: StatementScope, action: Option<&str>) -> ToolError {
    let action = action.map_or_else(
        || "This statement would write, and that".to_owned(),
        |action| format!("In this statement {action}"),
    );
    let rule = match scope {
        StatementScope::Reading => {
            "with mode=ro SqliteQuery only reads: SELECT, WITH, VALUES, EXPLAIN or a PRAGMA that tells. mode=rw \
             changes rows and the schema."
        }
        StatementScope::Changing => {
            "mode=rw takes one statement that changes rows or the schema of this database, in a transaction that is \
             made for it. Other databases, files and settings are out of its reach."
        }
    };
    ToolError::new(
        ErrorCode::PolicyDenied,
        format!("{action} is not allowed: {rule}"),
    )
}

fn unusable_statement_error(
    connection: &Connection,
    guard: &StatementGuard,
    sql: &str,
    error: &Error,
) -> ToolError {
    if error.sqlite_error_code() == Some(Code::ConstraintViolation) {
        let text = match error {
            Error::SqliteFailure(_, Some(text)) => text.clone(),
            other => other.to_string(),
        };
        return ToolError::invalid_args(format!("The database does not take the change: {text}."));
    }
    let mut text = match error {
        Error::SqlInputError {
            msg, sql, offset, ..
        } => {
            format!(
                "SQLite refuses the query: {msg}{}",
                mark_error_position(sql, *offset)
            )
        }
        other => format!("SQLite refuses the query: {other}"),
    };
    if text.contains("pattern too complex") {
        let _ = write!(
            text,
            ". A pattern has at most {MAX_PATTERN} bytes here; instr() finds a longer text"
        );
        return ToolError::invalid_args(text + ".");
    }
    let hint = guard.run_within(Duration::from_millis(500), || {
        find_similar_names(connection, sql)
    });
    ToolError::invalid_args(text + &hint.unwrap_or_default())
}

/// The line with the fault, and a caret under it.
fn mark_error_position(sql: &str, offset: i32) -> String {
    let Some(offset) = usize::try_from(offset)
        .ok()
        .filter(|at| sql.is_char_boundary(*at))
    else {
        return String::new();
    };
    let start = sql[..offset].rfind('\n').map_or(0, |at| at + 1);
    let end = sql[offset..].find('\n').map_or(sql.len(), |at| offset + at);
    let before: Vec<char> = sql[start..offset].chars().collect();
    let lead: String = before[before.len().saturating_sub(60)..].iter().collect();
    let rest: String = sql[offset..end].chars().take(60).collect();
    format!("\n  {lead}{rest}\n  {}^", " ".repeat(lead.chars().count()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caret_stands_under_the_fault() {
        assert_eq!(
            mark_error_position("SELECT 1\nFROM ä x y", 17),
            format!("\n  FROM ä x y\n  {}^", " ".repeat(7))
        );
        assert_eq!(mark_error_position("SELECT", -1), "");
        assert_eq!(mark_error_position("ä", 1), "");
    }
}
