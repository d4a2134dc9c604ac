//! The contents of a database: its tables with their rows and definitions. The worker reads them, the runner words
//! them.

use std::fmt::Write as _;
use std::time::Duration;

use rusqlite::ffi::ErrorCode as Code;
use rusqlite::{Connection, Error};
use serde::{Deserialize, Serialize};

use super::cell_value::CutText;
use super::row_page::interrupted_error;
use super::statement_guard::StatementGuard;
use punie_text::output::number_format::{format_count, group_digits};
use punie_text::redact::Redactor;

/// The most objects that are described.
const MAX_OBJECTS: usize = 500;
/// The characters of one definition that are shown.
const MAX_DEFINITION: usize = 2_000;

/// The part of a schema that is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum SchemaPart {
    /// All of it, with the number of rows of each table.
    Everything,
    /// The names of tables and views.
    Names,
    /// The definitions, of one table or view or of all.
    Definitions(Option<String>),
}

/// The objects of a database.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SchemaOverview {
    objects: Vec<SchemaObject>,
    /// SQLite's description of the damage that kept it from reading a table.
    pub(super) damage: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
struct SchemaObject {
    kind: String,
    name: String,
    table: String,
    definition: CutText,
    /// The number of rows in words; only where it was asked for.
    rows: Option<String>,
}

impl SchemaOverview {
    /// Reads the schema; counting rows takes at most `patience`.
    pub(super) fn read_schema(
        connection: &Connection,
        guard: &StatementGuard,
        patience: Duration,
        part: &SchemaPart,
        longest_secret: usize,
    ) -> rusqlite::Result<Self> {
        let mut overview = Self {
            objects: read_objects(connection, longest_secret)?,
            damage: None,
        };
        if *part != SchemaPart::Everything {
            return Ok(overview);
        }
        guard.run_within(patience, || {
            for object in overview
                .objects
                .iter_mut()
                .filter(|object| object.kind == "table")
            {
                object.rows = Some(match count_rows(connection, guard, &object.name) {
                    Ok(rows) => format_count(rows, "row"),
                    Err(error) if error.sqlite_error_code() == Some(Code::OperationInterrupted) => {
                        "rows not counted, for want of time".to_owned()
                    }
                    Err(error) => {
                        let why = sqlite_message(&error);
                        if is_damage(&error) {
                            overview.damage.get_or_insert_with(|| why.clone());
                        }
                        format!("rows not counted: {why}")
                    }
                });
            }
        });
        Ok(overview)
    }

    /// Masks the owner's secrets in all definitions. Returns how many there were.
    pub(super) fn mask_secrets(&mut self, redactor: &Redactor) -> u64 {
        self.objects
            .iter_mut()
            .map(|object| object.definition.mask_secrets(redactor))
            .sum()
    }

    /// The overview in words.
    pub(super) fn describe(&self, part: &SchemaPart) -> String {
        let count = |kind: &str| {
            self.objects
                .iter()
                .filter(|object| object.kind == kind)
                .count() as u64
        };
        let mut text = format!(
            "{}, {}",
            format_count(count("table"), "table"),
            format_count(count("view"), "view")
        );
        let shown: Vec<&SchemaObject> = self
            .objects
            .iter()
            .filter(|object| object.is_shown(part))
            .collect();
        if let SchemaPart::Definitions(Some(name)) = part
            && shown.is_empty()
        {
            let _ = write!(text, "; none of them is called {name:?}");
        }
        for object in shown {
            if *part == SchemaPart::Names {
                let _ = write!(text, "\n{} {}", object.kind, object.name);
                continue;
            }
            let _ = write!(text, "\n\n{} {}", object.kind, object.name);
            if let Some(rows) = &object.rows {
                let _ = write!(text, ": {rows}");
            }
            let others = self
                .objects
                .iter()
                .filter(|other| other.table == object.name && other.name != object.name);
            for definition in [object]
                .into_iter()
                .chain(others)
                .map(SchemaObject::indented_definition)
            {
                let _ = write!(text, "\n  {definition}");
            }
        }
        if self.objects.len() == MAX_OBJECTS {
            let most = group_digits(MAX_OBJECTS as u64);
            let _ = write!(
                text,
                "\n\n[the first {most} objects; query sqlite_schema for the rest]"
            );
        }
        text
    }
}

impl SchemaObject {
    fn is_shown(&self, part: &SchemaPart) -> bool {
        let is_named = match part {
            SchemaPart::Definitions(Some(name)) => self.name.eq_ignore_ascii_case(name),
            _ => true,
        };
        is_named && (self.kind == "table" || self.kind == "view")
    }

    fn indented_definition(&self) -> String {
        let CutText {
            text, full_chars, ..
        } = &self.definition;
        let text = full_chars.map_or_else(|| text.clone(), |_| format!("{}...", text.trim_end()));
        text.lines()
            .map(str::trim_end)
            .collect::<Vec<_>>()
            .join("\n  ")
    }
}

fn read_objects(
    connection: &Connection,
    longest_secret: usize,
) -> rusqlite::Result<Vec<SchemaObject>> {
    let mut statement = connection.prepare(
        "SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_schema
         WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY type = 'view', name",
    )?;
    let text = |row: &rusqlite::Row<'_>, at: usize| -> rusqlite::Result<String> {
        let value = row.get_ref(at)?;
        Ok(
            String::from_utf8_lossy(value.as_bytes_or_null().ok().flatten().unwrap_or_default())
                .into_owned(),
        )
    };
    let objects = statement.query_map([], |row| {
        Ok(SchemaObject {
            kind: text(row, 0)?,
            name: text(row, 1)?,
            table: text(row, 2)?,
            definition: CutText::new(&text(row, 3)?, MAX_DEFINITION, longest_secret),
            rows: None,
        })
    })?;
    objects.take(MAX_OBJECTS).collect()
}

fn count_rows(
    connection: &Connection,
    guard: &StatementGuard,
    table: &str,
) -> rusqlite::Result<u64> {
    if guard.should_stop() {
        return Err(interrupted_error());
    }
    let sql = format!("SELECT count(*) FROM \"{}\"", table.replace('"', "\"\""));
    let rows = connection.query_row(&sql, [], |row| row.get::<_, i64>(0))?;
    Ok(u64::try_from(rows).unwrap_or(0))
}

fn is_damage(error: &Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(Code::DatabaseCorrupt | Code::NotADatabase | Code::SystemIoFailure)
    )
}

/// SQLite's message, without the statement, which the agent did not write.
fn sqlite_message(error: &Error) -> String {
    match error {
        Error::SqliteFailure(_, Some(text)) => text.clone(),
        Error::SqlInputError { msg, .. } => msg.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::statement_guard::StatementScope;
    use super::*;

    #[test]
    fn a_table_that_takes_too_long_to_count_is_described_without_its_rows() {
        let connection = Connection::open_in_memory().expect("a database");
        connection
            .execute_batch("CREATE TABLE t (a); INSERT INTO t VALUES (1);")
            .expect("a schema");
        let guard = StatementGuard::new(StatementScope::Reading, Duration::from_mins(1));
        guard.install_limits(&connection).expect("a guard");
        let describe = |patience| {
            let overview = SchemaOverview::read_schema(
                &connection,
                &guard,
                patience,
                &SchemaPart::Everything,
                0,
            );
            overview
                .expect("an overview")
                .describe(&SchemaPart::Everything)
        };
        let late = describe(Duration::ZERO);
        let expected = "table t: rows not counted, for want of time\n  CREATE TABLE t (a)";
        assert!(late.contains(expected), "{late}");
        let in_time = describe(Duration::from_mins(1));
        assert!(in_time.contains("table t: 1 row\n"), "{in_time}");
    }
}
