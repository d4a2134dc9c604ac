//! SQLite's errors as a model can act on them. Not here: refusals of our own.

use rusqlite::ffi::ErrorCode as Code;
use rusqlite::limits::Limit;
use rusqlite::{Connection, Error};
use std::fmt::Write as _;

use super::guard::{Guard, Scope};
use super::linear::MAX_PATTERN;
use super::spill::MAX_SPILL;
use super::weight::MAX_VALUE;
use crate::output::figures::size;
use crate::tool::{ErrorCode, ToolError};

/// Words of the language that resemble names of tables.
const KEYWORDS: &[&str] = &[
    "all",
    "and",
    "as",
    "asc",
    "between",
    "by",
    "case",
    "cast",
    "cross",
    "delete",
    "desc",
    "distinct",
    "else",
    "end",
    "escape",
    "except",
    "exists",
    "explain",
    "from",
    "group",
    "having",
    "in",
    "inner",
    "insert",
    "intersect",
    "into",
    "is",
    "join",
    "left",
    "like",
    "limit",
    "natural",
    "not",
    "null",
    "offset",
    "on",
    "or",
    "order",
    "outer",
    "over",
    "partition",
    "plan",
    "pragma",
    "query",
    "recursive",
    "right",
    "select",
    "set",
    "then",
    "union",
    "update",
    "using",
    "values",
    "when",
    "where",
    "with",
];

/// The file cannot be opened, read or written as a database.
pub(super) fn of_file(shown: &str, guard: &Guard, error: &Error) -> ToolError {
    let failed = error.sqlite_error_code();
    if let (Some(Code::CannotOpen), Some(other)) = (failed, guard.ledger().other()) {
        return names_another(shown, &other);
    }
    let (code, text) = match failed {
        _ if guard.cancelled() => (ErrorCode::Cancelled, "The query was cancelled.".to_owned()),
        Some(Code::ReadOnly | Code::PermissionDenied) if guard.scope() == Scope::Changing => (
            ErrorCode::PermissionDenied,
            format!(
                "{shown} cannot be written: the file or its folder is read-only for this user. mode=ro reads it."
            ),
        ),
        Some(Code::NotADatabase) => {
            (ErrorCode::NotText, format!("{shown} is not a SQLite database, or it is encrypted."))
        }
        Some(Code::DatabaseCorrupt) => (
            ErrorCode::Io,
            format!("{shown} is damaged ({error}). `PRAGMA integrity_check` in sqlite3 tells more."),
        ),
        Some(Code::DatabaseBusy | Code::DatabaseLocked) => (
            ErrorCode::Busy,
            format!(
                "{shown} is locked by another program, and stayed so for as long as timeout_ms allows. Ask again \
                     when that program is done (on Linux `fuser` names it), or with a larger timeout_ms."
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
            format!("{shown} cannot be opened ({error}). It may be a link, or not readable for this user."),
        ),
        _ => (ErrorCode::Io, format!("{shown} cannot be read: {error}.")),
    };
    ToolError::new(code, text)
}

/// SQLite asked for a file that is not the database's: its journal names one.
fn names_another(shown: &str, other: &str) -> ToolError {
    let other: String = other.chars().take(300).flat_map(char::escape_debug).collect();
    ToolError::new(
        ErrorCode::PolicyDenied,
        format!(
            "{shown} can be neither read nor changed now: its journal, {shown}-journal, belongs to a transaction over \
             several databases that was not finished, and names another file, {other}. To finish it SQLite would read and \
             delete that file, which SqliteQuery does for no file but the database's own. Nothing was changed. Do \
             not open it with the sqlite3 command either, and tell the user: if one of their programs left that journal, \
             opening and closing the database once with its own program finishes the transaction; if none did, somebody \
             may have made it so that the other file is deleted."
        ),
    )
}

/// A statement was refused or failed.
pub(super) fn of_statement(
    connection: &Connection,
    guard: &Guard,
    shown: &str,
    sql: &str,
    error: &Error,
) -> ToolError {
    match error {
        Error::MultipleStatement => {
            return ToolError::invalid_args(
                "The query holds more than one statement. Send one statement in each call.",
            );
        }
        Error::NulError(_) => return ToolError::invalid_args("The query contains a NUL character."),
        _ => {}
    }
    let denied = guard.denied();
    match error.sqlite_error_code() {
        Some(Code::OperationInterrupted) if guard.cancelled() => {
            ToolError::cancelled("The query was cancelled.")
        }
        Some(Code::OperationInterrupted) if guard.gorged() => ToolError::new(
            ErrorCode::TooLarge,
            "The query was stopped: SQLite's memory grew by more than 256 MB while it ran. Ask for fewer rows or columns, \
             or take parts of long values with substr(). If other large queries ran beside it, ask again when they are \
             done.",
        ),
        Some(Code::DiskFull) if guard.ledger().overflowed() => ToolError::new(
            ErrorCode::TooLarge,
            format!(
                "The query was stopped: it sorts or collects more than {}, the limit for its temporary files. Sort fewer \
                 rows or columns (a WHERE, long columns left out or taken in parts with substr()), use an index whose order \
                 saves the sort, or a LIMIT in the query; EXPLAIN QUERY PLAN shows what needs a temporary B-tree.{}",
                size(MAX_SPILL.unsigned_abs()),
                if guard.scope() == Scope::Changing {
                    " A change that needs more is made with the database's own program."
                } else {
                    ""
                }
            ),
        ),
        Some(Code::OperationInterrupted) => ToolError::new(
            ErrorCode::Timeout,
            "The query took longer than timeout_ms. Narrow it (an index, a WHERE, a smaller join) or raise timeout_ms; \
             EXPLAIN QUERY PLAN shows how it is run.",
        ),
        // A refused function is an error like any other to SQLite; only the guard knows better.
        code if denied.is_some() || code == Some(Code::AuthorizationForStatementDenied) => {
            refused(guard.scope(), denied.as_deref())
        }
        Some(Code::TooBig) => too_big(connection),
        Some(
            Code::NotADatabase
            | Code::DatabaseCorrupt
            | Code::DatabaseBusy
            | Code::DatabaseLocked
            | Code::ReadOnly
            | Code::CannotOpen
            | Code::SystemIoFailure,
        ) => of_file(shown, guard, error),
        _ => unusable(connection, guard, sql, error),
    }
}

/// A value is longer than the statement's values may be.
fn too_big(connection: &Connection) -> ToolError {
    let limit = connection.limit(Limit::SQLITE_LIMIT_LENGTH).unwrap_or(MAX_VALUE);
    let longest = size(u64::from(limit.unsigned_abs()));
    let why = if limit < MAX_VALUE {
        " Values of this statement get less than 16 MB each, because it has so many functions, operators, columns, tables and \
         indexes that may each hold one: with fewer of them, or fewer columns, each may be larger."
    } else {
        ""
    };
    let text = format!(
        "A value or a row of the query would be larger than {longest}.{why} Use substr() to take a part of it."
    );
    ToolError::new(ErrorCode::TooLarge, text)
}

/// The statement would do more than is allowed.
pub(super) fn refused(scope: Scope, what: Option<&str>) -> ToolError {
    let what = what.map_or_else(
        || "This statement would write, and that".to_owned(),
        |what| format!("In this statement {what}"),
    );
    let rule = match scope {
        Scope::Reading => {
            "with mode=ro SqliteQuery only reads: SELECT, WITH, VALUES, EXPLAIN or a PRAGMA that tells. mode=rw \
             changes rows and the schema."
        }
        Scope::Changing => {
            "mode=rw takes one statement that changes rows or the schema of this database, in a transaction that is \
             made for it. Other databases, files and settings are out of its reach."
        }
    };
    ToolError::new(ErrorCode::PolicyDenied, format!("{what} is not allowed: {rule}"))
}

fn unusable(connection: &Connection, guard: &Guard, sql: &str, error: &Error) -> ToolError {
    if error.sqlite_error_code() == Some(Code::ConstraintViolation) {
        let text = match error {
            Error::SqliteFailure(_, Some(text)) => text.clone(),
            other => other.to_string(),
        };
        return ToolError::invalid_args(format!("The database does not take the change: {text}."));
    }
    let mut text = match error {
        Error::SqlInputError { msg, sql, offset, .. } => {
            format!("SQLite refuses the query: {msg}{}", place(sql, *offset))
        }
        other => format!("SQLite refuses the query: {other}"),
    };
    if text.contains("pattern too complex") {
        let _ = write!(text, ". A pattern has at most {MAX_PATTERN} bytes here; instr() finds a longer text");
        return ToolError::invalid_args(text + ".");
    }
    text.push_str(&names(connection, guard, sql).unwrap_or_default());
    ToolError::invalid_args(text)
}

/// The line with the fault, and a caret under it.
fn place(sql: &str, offset: i32) -> String {
    let Some(offset) = usize::try_from(offset).ok().filter(|at| sql.is_char_boundary(*at)) else {
        return String::new();
    };
    let start = sql[..offset].rfind('\n').map_or(0, |at| at + 1);
    let end = sql[offset..].find('\n').map_or(sql.len(), |at| offset + at);
    let before: Vec<char> = sql[start..offset].chars().collect();
    let lead: String = before[before.len().saturating_sub(60)..].iter().collect();
    let rest: String = sql[offset..end].chars().take(60).collect();
    format!("\n  {lead}{rest}\n  {}^", " ".repeat(lead.chars().count()))
}

/// Which names there are that resemble those the query uses.
fn names(connection: &Connection, guard: &Guard, sql: &str) -> rusqlite::Result<String> {
    let before = guard.shorten(std::time::Duration::from_millis(500));
    let found = known_names(connection);
    guard.restore(before);
    let (tables, columns) = found?;
    let mut text = String::new();
    for word in words(sql).into_iter().take(200) {
        let known = |name: &String| name.eq_ignore_ascii_case(&word);
        if tables.iter().any(known) || columns.iter().any(known) {
            continue;
        }
        let nearest = tables
            .iter()
            .chain(&columns)
            .map(|name| (strsim::jaro_winkler(&word.to_lowercase(), &name.to_lowercase()), name))
            .filter(|(score, _)| *score > 0.8)
            .max_by(|a, b| a.0.total_cmp(&b.0));
        if let Some((_, name)) = nearest {
            let _ = write!(text, "\n`{word}`: did you mean `{name}`?");
        }
    }
    if tables.is_empty() {
        text.push_str("\nThe database has no tables.");
    } else {
        let dots = if tables.len() > 30 { ", ..." } else { "" };
        let shown: Vec<&str> = tables.iter().take(30).map(String::as_str).collect();
        let _ = write!(text, "\nTables: {}{dots}. An empty query shows their columns.", shown.join(", "));
    }
    Ok(text)
}

fn known_names(connection: &Connection) -> rusqlite::Result<(Vec<String>, Vec<String>)> {
    let list = |sql: &str| -> rusqlite::Result<Vec<String>> {
        connection.prepare(sql)?.query_map([], |row| row.get(0))?.take(2_000).collect()
    };
    let tables = list(
        "SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%' ORDER BY name",
    )?;
    let columns = list(
        "SELECT DISTINCT p.name FROM sqlite_schema m, pragma_table_info(m.name) p WHERE m.type IN ('table', 'view')",
    )
    .unwrap_or_default();
    Ok((tables, columns))
}

/// The words of a statement that may be names: not in quotes of a text, not called, not of the language.
fn words(sql: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut names_table = false;
    let mut chars = sql.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\'' {
            for inner in chars.by_ref() {
                if inner == '\'' {
                    break;
                }
            }
        } else if c.is_alphabetic() || c == '_' {
            let mut word = String::from(c);
            while let Some(next) = chars.next_if(|next| next.is_alphanumeric() || *next == '_') {
                word.push(next);
            }
            let small = word.to_ascii_lowercase();
            let keyword = KEYWORDS.contains(&small.as_str());
            // `f(x)` calls a function, `INTO t(x)` names a table.
            let called = chars.peek() == Some(&'(') && !names_table;
            if !keyword && word.len() > 1 && !called && !words.contains(&word) {
                words.push(word);
            }
            names_table = ["into", "table", "on", "references"].contains(&small.as_str());
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_names_only() {
        assert_eq!(words("INSERT INTO itm(nme) VALUES (max(1, 2))"), ["itm", "nme"]);
        assert_eq!(
            words("SELECT usr.nam, count(x1) FROM usr WHERE a_b = 'text it''s' ORDER BY 1"),
            ["usr", "nam", "x1", "a_b"]
        );
    }

    #[test]
    fn the_caret_stands_under_the_fault() {
        assert_eq!(place("SELECT 1\nFROM ä x y", 17), format!("\n  FROM ä x y\n  {}^", " ".repeat(7)));
        assert_eq!(place("SELECT", -1), "");
        assert_eq!(place("ä", 1), "");
    }
}
