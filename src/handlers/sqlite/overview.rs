//! What is in a database: its tables with their rows and definitions. Not here: queries of the caller's own.

use std::fmt::Write as _;
use std::time::Duration;

use rusqlite::ffi::ErrorCode as Code;
use rusqlite::{Connection, Error};

use super::guard::Guard;
use super::value::Taker;
use crate::output::figures::{counted, grouped};
use crate::redact::Redactor;

/// How many objects are described.
const MAX_OBJECTS: usize = 500;
/// How much of one definition is shown.
const MAX_DEFINITION: usize = 2_000;
/// How much of it is read: a secret that goes on where the shown part ends has to be known as one. No statement is
/// longer.
const MAX_READ: i64 = 256 << 10;

struct Object {
    kind: String,
    name: String,
    table: String,
    definition: String,
}

/// Which part of a schema is shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Part {
    /// All of it, with the tables' numbers of rows.
    Everything,
    /// The names of tables and views.
    Names,
    /// The definitions, of one table or view or of all.
    Definitions(Option<String>),
}

/// What is in a database.
pub(super) struct Overview {
    pub(super) text: String,
    /// What SQLite says of the file when a table of it cannot be read because the file is damaged.
    pub(super) damage: Option<String>,
    /// How many secrets were masked.
    pub(super) masked: u64,
}

/// Describes the database; counting rows takes at most `patience`.
pub(super) fn describe(
    connection: &Connection,
    guard: &Guard,
    patience: Duration,
    redactor: &Redactor,
    part: &Part,
) -> rusqlite::Result<Overview> {
    let mut taker = Taker::new(redactor);
    let objects = objects(connection, &mut taker)?;
    let count = |kind: &str| objects.iter().filter(|object| object.kind == kind).count() as u64;
    let mut text = format!("{}, {}", counted(count("table"), "table"), counted(count("view"), "view"));
    let mut damage = None;
    let before = guard.shorten(patience);
    let is_wanted = |object: &&Object| {
        let is_named = match part {
            Part::Definitions(Some(name)) => object.name.eq_ignore_ascii_case(name),
            _ => true,
        };
        is_named && (object.kind == "table" || object.kind == "view")
    };
    if let Part::Definitions(Some(name)) = part
        && !objects.iter().any(|object| is_wanted(&object))
    {
        let _ = write!(text, "; none of them is called {name:?}");
    }
    for object in objects.iter().filter(is_wanted) {
        if *part == Part::Names {
            let _ = write!(text, "\n{} {}", object.kind, object.name);
            continue;
        }
        let _ = write!(text, "\n\n{} {}", object.kind, object.name);
        if object.kind == "table" && *part == Part::Everything {
            match rows(connection, guard, &object.name) {
                Ok(n) => {
                    let _ = write!(text, ": {}", counted(n, "row"));
                }
                Err(Uncounted::Late) => text.push_str(": rows not counted, for want of time"),
                Err(Uncounted::Failed(error)) => {
                    let why = of_error(&error);
                    let _ = write!(text, ": rows not counted: {why}");
                    if is_damage(&error) {
                        damage.get_or_insert(why);
                    }
                }
            }
        }
        let _ = write!(text, "\n  {}", indented(&object.definition));
        for part in objects.iter().filter(|part| part.table == object.name && part.name != object.name) {
            let _ = write!(text, "\n  {}", indented(&part.definition));
        }
    }
    guard.restore(before);
    if objects.len() == MAX_OBJECTS {
        let _ = write!(
            text,
            "\n\n[the first {} objects; query sqlite_schema for the rest]",
            grouped(MAX_OBJECTS as u64)
        );
    }
    Ok(Overview { text, damage, masked: taker.masked })
}

fn objects(connection: &Connection, taker: &mut Taker<'_>) -> rusqlite::Result<Vec<Object>> {
    let mut statement = connection.prepare(
        "SELECT type, name, tbl_name, substr(coalesce(sql, ''), 1, ?) FROM sqlite_schema
         WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY type = 'view', name",
    )?;
    let text = |row: &rusqlite::Row<'_>, at: usize| -> rusqlite::Result<String> {
        let value = row.get_ref(at)?;
        Ok(String::from_utf8_lossy(value.as_bytes_or_null().ok().flatten().unwrap_or_default()).into_owned())
    };
    let objects = statement.query_map([MAX_READ], |row| {
        Ok(Object {
            kind: text(row, 0)?,
            name: text(row, 1)?,
            table: text(row, 2)?,
            definition: cut(&taker.masked(&text(row, 3)?)),
        })
    })?;
    objects.take(MAX_OBJECTS).collect()
}

/// Why the rows of a table were not counted.
enum Uncounted {
    /// The time for it was up.
    Late,
    /// The table cannot be read: it is damaged, or of a module that is not loaded here.
    Failed(Error),
}

fn rows(connection: &Connection, guard: &Guard, table: &str) -> Result<u64, Uncounted> {
    if guard.over() {
        return Err(Uncounted::Late);
    }
    let sql = format!("SELECT count(*) FROM \"{}\"", table.replace('"', "\"\""));
    match connection.query_row(&sql, [], |row| row.get::<_, i64>(0)) {
        Ok(n) => Ok(u64::try_from(n).unwrap_or(0)),
        Err(error) if error.sqlite_error_code() == Some(Code::OperationInterrupted) => Err(Uncounted::Late),
        Err(error) => Err(Uncounted::Failed(error)),
    }
}

fn is_damage(error: &Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(Code::DatabaseCorrupt | Code::NotADatabase | Code::SystemIoFailure)
    )
}

/// SQLite's own words, without the statement, which the caller did not write.
fn of_error(error: &Error) -> String {
    match error {
        Error::SqliteFailure(_, Some(text)) => text.clone(),
        Error::SqlInputError { msg, .. } => msg.clone(),
        other => other.to_string(),
    }
}

fn cut(definition: &str) -> String {
    match definition.char_indices().nth(MAX_DEFINITION) {
        Some((end, _)) => format!("{}...", definition[..end].trim_end()),
        None => definition.to_owned(),
    }
}

fn indented(definition: &str) -> String {
    definition.lines().map(str::trim_end).collect::<Vec<_>>().join("\n  ")
}

#[cfg(test)]
mod tests {
    use super::super::guard::Scope;
    use super::*;

    #[test]
    fn a_table_that_takes_too_long_to_count_is_described_without_its_rows() {
        let connection = Connection::open_in_memory().expect("a database");
        connection.execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (1);").expect("a schema");
        let guard = Guard::new(Scope::Reading, Duration::from_mins(1));
        guard.install(&connection).expect("a guard");
        let late = describe(&connection, &guard, Duration::ZERO, &Redactor::default(), &Part::Everything)
            .expect("an overview");
        assert!(
            late.text.contains("table t: rows not counted, for want of time\n  CREATE TABLE t (a)"),
            "{}",
            late.text
        );
        let counted =
            describe(&connection, &guard, Duration::from_mins(1), &Redactor::default(), &Part::Everything)
                .expect("an overview");
        assert!(counted.text.contains("table t: 1 row\n"), "{}", counted.text);
    }
}
