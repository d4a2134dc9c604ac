//! SqliteQuery: one reading statement on one database file. Not here: writing, which no tool offers.

use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use rusqlite::Statement;
use schemars::JsonSchema;
use serde::Deserialize;

use super::Room;
use super::databases::{self, Database, Opener};
use super::guard::{Guard, MAX_SQL};
use super::layout::Format;
use super::overview;
use super::parameters::{self, Parameters};
use super::parked::Parked;
use super::trouble;
use super::value::Shown;
use crate::acp::{RawPath, WorkspacePath};
use crate::output::Budget;
use crate::output::figures::{counted, grouped};
use crate::tool::{Effect, ErrorCode, Meta, Reply, Tool, ToolCx, ToolError};

/// How many rows one answer shows at most.
const MAX_ROWS: u64 = 1_000;
/// How much text of values is collected; more would be clipped anyway.
const MAX_TEXT: usize = 2 << 20;

/// Ask a SQLite database file with one reading statement.
///
/// An empty query shows the schema with row counts. Allowed are SELECT, WITH, VALUES, EXPLAIN and PRAGMAs that only
/// tell; nothing can be changed, attached or loaded. Use placeholders with `params`: an array for `?`, an object for
/// `:name`. Rows are given from `offset` on, at most `limit`, and the answer says whether there are more: no LIMIT
/// needs to be written. A database that another program has open can be read. Blobs are shown as
/// `<blob 4,096 bytes, png>`; use hex(substr(column, 1, 64)) to look inside one.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SqliteQuery {
    /// The database file: absolute, or relative to the first workspace folder.
    database_path: RawPath,
    /// One SQL statement; empty for the schema.
    #[serde(default)]
    query: String,
    /// Values for the placeholders: an array for `?`, an object for `:name`.
    params: Option<Parameters>,
    /// How many rows to give: 100 if absent, at most 1000.
    #[serde(default = "default_limit")]
    limit: u64,
    /// How many rows to leave out at the beginning, for the next page.
    #[serde(default)]
    offset: u64,
    /// Milliseconds after which the query is stopped: 10000 if absent.
    #[serde(default = "default_timeout")]
    timeout_ms: u64,
    /// `table` is aligned with long texts cut at 200 characters; `json` and `csv` give up to 20000 of each.
    #[serde(default)]
    format: Format,
    /// How many characters the answer may have: 1000 to 200000, 30000 if absent.
    max_chars: Option<u64>,
}

fn default_limit() -> u64 {
    100
}

fn default_timeout() -> u64 {
    10_000
}

impl Tool for SqliteQuery {
    const NAME: &'static str = "SqliteQuery";
    const EFFECT: Effect = Effect::Reads;
    const ALIASES: &'static [(&'static str, &'static str)] = &[
        ("path", "database_path"),
        ("database", "database_path"),
        ("db", "database_path"),
        ("db_path", "database_path"),
        ("file_path", "database_path"),
        ("sql", "query"),
        ("parameters", "params"),
        ("max_rows", "limit"),
        ("timeout", "timeout_ms"),
    ];
    const EXAMPLES: &'static [&'static str] = &[
        r#"{"database_path":"app.db"}"#,
        r#"{"database_path":"app.db","query":"SELECT id, name FROM users WHERE age > ?","params":[30]}"#,
    ];
    type Deps = Room;
    type Output = Reply;

    async fn run(self, cx: &ToolCx, room: &Room) -> Result<Reply, ToolError> {
        if self.query.len() > MAX_SQL {
            return Err(ToolError::new(
                ErrorCode::TooLarge,
                format!("The query is {} bytes long; the limit is {MAX_SQL}.", self.query.len()),
            ));
        }
        let path = room.deps.workspace.resolve(&self.database_path)?;
        let job = Job {
            shown: path.shown(),
            path,
            scratch: room.deps.scratch.clone(),
            parked: room.parked.clone(),
            ask: self,
        };
        let limit = cx.time_left(Duration::from_millis(job.ask.timeout_ms.clamp(1, 600_000)));
        let guard = Guard::new(limit);
        let watch = guard.clone();
        let mut running = tokio::task::spawn_blocking(move || job.run(&watch, limit));
        let finished = tokio::select! {
            biased;
            () = cx.cancelled() => {
                guard.cancel();
                // SQLite looks at the guard every few microseconds, so this wait is short.
                running.await
            }
            finished = &mut running => finished,
        };
        finished.unwrap_or_else(|_| {
            Err(ToolError::internal(
                "The query failed in a way that it should not. Names in this database may not be valid text.",
            ))
        })
    }
}

/// One call, on a thread of its own.
struct Job {
    path: WorkspacePath,
    shown: String,
    scratch: PathBuf,
    parked: Parked,
    ask: SqliteQuery,
}

impl Job {
    fn run(&self, guard: &Guard, limit: Duration) -> Result<Reply, ToolError> {
        if guard.cancelled() {
            return Err(ToolError::cancelled("The query was cancelled before it began."));
        }
        let opener = Opener { scratch: &self.scratch, guard, parked: &self.parked, shown: &self.shown };
        // Held until the database is closed: SQLite opens by name, and only through this folder the names stay true.
        let (folder, name) = self.path.open_parent(false).map_err(|cause| match cause.kind() {
            io::ErrorKind::IsADirectory => databases::folder(&self.shown),
            _ => ToolError::io(&self.shown, &cause),
        })?;
        let path = folder.path_of(&name);
        let database = opener.open(&path)?;
        let mut meta = Meta::default();
        let answered = if self.ask.query.trim().is_empty() {
            overview::describe(&database.connection, guard, limit / 2)
                .map(|overview| {
                    meta.warnings.extend(overview.damage.map(|why| {
                        format!("{} is damaged ({why}); what is shown may lack rows or tables", self.shown)
                    }));
                    format!("{}: {}", self.shown, overview.text)
                })
                .map_err(|error| self.trouble(&database, guard, &error))
        } else {
            self.rows(&database, guard, &mut meta)
        };
        if database.changed_meanwhile(&path) {
            return Err(ToolError::new(
                ErrorCode::Busy,
                format!("A program began to write {} while it was read. Ask again.", self.shown),
            ));
        }
        let mut text = answered?;
        if database.is_snapshot() {
            text.push_str("\n[read from a snapshot: a private copy of the database and its write-ahead log]");
        }
        Ok(Reply::text(text).with_meta(meta).with_budget(Budget::chars(self.ask.max_chars)))
    }

    fn rows(&self, database: &Database, guard: &Guard, meta: &mut Meta) -> Result<String, ToolError> {
        let trouble = |error: rusqlite::Error| self.trouble(database, guard, &error);
        let mut statement = database.connection.prepare(&self.ask.query).map_err(trouble)?;
        if !statement.readonly() {
            return Err(trouble::read_only(None));
        }
        if statement.column_count() == 0 {
            return Err(ToolError::invalid_args(
                "The query holds no statement that gives rows, such as SELECT.",
            ));
        }
        parameters::bind(&mut statement, self.ask.params.as_ref())?;
        let columns: Vec<String> = statement.column_names().into_iter().map(str::to_owned).collect();
        let page = self.collect(&mut statement, columns.len(), guard).map_err(trouble)?;
        meta.lossy_chars = Some(page.lossy).filter(|lossy| *lossy > 0);
        Ok(format!("{}\n{}", self.ask.format.lay_out(&columns, &page.rows), self.footer(&page)))
    }

    /// Steps through the rows and stops: a LIMIT glued to the caller's text would change what it means.
    fn collect(
        &self,
        statement: &mut Statement<'_>,
        columns: usize,
        guard: &Guard,
    ) -> rusqlite::Result<Page> {
        let limit = usize::try_from(self.ask.limit.clamp(1, MAX_ROWS)).unwrap_or(1);
        let mut page = Page { rows: Vec::new(), skipped: 0, more: false, full: false, lossy: 0 };
        let mut size = 0;
        let mut rows = statement.raw_query();
        while let Some(row) = rows.next()? {
            // A row that costs no steps of the machine is not seen by the progress handler.
            if guard.over() {
                return Err(interrupted());
            }
            if page.skipped < self.ask.offset {
                page.skipped += 1;
                continue;
            }
            if page.rows.len() == limit || page.full {
                page.more = true;
                break;
            }
            let mut values = Vec::with_capacity(columns);
            for at in 0..columns {
                let value = Shown::new(row.get_ref(at)?, self.ask.format.max_text(), &mut page.lossy);
                size += if let Shown::Text { text, .. } = &value { text.len() + 16 } else { 32 };
                values.push(value);
            }
            page.rows.push(values);
            page.full = size > MAX_TEXT;
        }
        Ok(page)
    }

    fn footer(&self, page: &Page) -> String {
        let shown = page.rows.len() as u64;
        if shown == 0 && self.ask.offset > 0 {
            return format!(
                "[no rows: there are {}, and offset={} is past the end]",
                counted(page.skipped, "row"),
                self.ask.offset
            );
        }
        let next = self.ask.offset + shown;
        let range = if self.ask.offset > 0 || page.more {
            format!(" ({}-{})", grouped(self.ask.offset + 1), grouped(next))
        } else {
            String::new()
        };
        let mut text = format!("[{}{range}", counted(shown, "row"));
        if page.more {
            let _ = write!(text, "; more rows exist: offset={next}");
        }
        if page.full {
            text.push_str(
                "; stopped early because the values are large: choose fewer columns or use substr()",
            );
        }
        text + "]"
    }

    fn trouble(&self, database: &Database, guard: &Guard, error: &rusqlite::Error) -> ToolError {
        trouble::of_statement(&database.connection, guard, &self.shown, &self.ask.query, error)
    }
}

/// The rows of an answer.
struct Page {
    rows: Vec<Vec<Shown>>,
    skipped: u64,
    more: bool,
    /// The text collected is enough.
    full: bool,
    lossy: u64,
}

fn interrupted() -> rusqlite::Error {
    rusqlite::Error::SqliteFailure(rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_INTERRUPT), None)
}
