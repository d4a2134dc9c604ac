//! What is in a database: its tables with their rows and definitions. Not here: queries of the caller's own.

use std::fmt::Write as _;
use std::time::Duration;

use rusqlite::Connection;

use super::guard::Guard;
use crate::output::figures::{counted, grouped};

/// How many objects are described.
const MAX_OBJECTS: usize = 500;
/// How much of one definition is shown.
const MAX_DEFINITION: usize = 2_000;

struct Object {
    kind: String,
    name: String,
    table: String,
    definition: String,
}

/// Describes the database; counting rows takes at most `patience`.
pub(super) fn describe(
    connection: &Connection,
    guard: &Guard,
    patience: Duration,
) -> rusqlite::Result<String> {
    let objects = objects(connection)?;
    let count = |kind: &str| objects.iter().filter(|object| object.kind == kind).count() as u64;
    let mut text = format!("{}, {}", counted(count("table"), "table"), counted(count("view"), "view"));
    let before = guard.shorten(patience);
    for object in objects.iter().filter(|object| object.kind == "table" || object.kind == "view") {
        let _ = write!(text, "\n\n{} {}", object.kind, object.name);
        if object.kind == "table" {
            let rows = rows(connection, guard, &object.name);
            let _ = write!(
                text,
                ": {}",
                rows.map_or_else(|| "rows not counted".to_owned(), |n| counted(n, "row"))
            );
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
    Ok(text)
}

fn objects(connection: &Connection) -> rusqlite::Result<Vec<Object>> {
    let mut statement = connection.prepare(
        "SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_schema
         WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY type = 'view', name",
    )?;
    let text = |row: &rusqlite::Row<'_>, at: usize| -> rusqlite::Result<String> {
        let value = row.get_ref(at)?;
        Ok(String::from_utf8_lossy(value.as_bytes_or_null().ok().flatten().unwrap_or_default()).into_owned())
    };
    let objects = statement.query_map([], |row| {
        Ok(Object {
            kind: text(row, 0)?,
            name: text(row, 1)?,
            table: text(row, 2)?,
            definition: text(row, 3)?,
        })
    })?;
    objects.take(MAX_OBJECTS).collect()
}

/// None where counting takes too long or the table cannot be read, as one of a module that is not loaded here.
fn rows(connection: &Connection, guard: &Guard, table: &str) -> Option<u64> {
    if guard.over() {
        return None;
    }
    let sql = format!("SELECT count(*) FROM \"{}\"", table.replace('"', "\"\""));
    connection.query_row(&sql, [], |row| row.get::<_, i64>(0)).ok().and_then(|n| u64::try_from(n).ok())
}

fn indented(definition: &str) -> String {
    let end = definition.char_indices().nth(MAX_DEFINITION).map_or(definition.len(), |(at, _)| at);
    let dots = if end < definition.len() { "..." } else { "" };
    definition[..end].lines().map(str::trim_end).collect::<Vec<_>>().join("\n  ") + dots
}
