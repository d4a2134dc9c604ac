//! SqliteQuery: one statement on one database file. Not here: how a change is kept or undone (change).

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::Room;
use super::change::{self, Change};
use super::databases::{self, Database, Opener};
use super::guard::{Guard, MAX_SQL, Scope};
use super::layout::Format;
use super::leave;
use super::overview;
use super::page::{Page, Wanted, interrupted};
use super::parameters::{self, Parameters};
use super::parked::Parked;
use super::shape::{Shape, Verb};
use super::trouble;
use crate::acp::{RawPath, WorkspacePath};
use crate::output::Budget;
use crate::redact::Redactor;
use crate::tool::{Effect, ErrorCode, Meta, Reply, Tool, ToolCx, ToolError};

/// Run one SQL statement on a SQLite database file: a question, or with mode=rw a change.
///
/// An empty query shows the schema with row counts: begin there. With mode=ro, the default, SELECT, WITH, VALUES,
/// EXPLAIN and PRAGMAs that only tell are allowed, and nothing can be changed. With mode=rw one statement that changes
/// rows or the schema runs in a transaction of its own: the answer says how many rows it affected, and on any error, at
/// the time limit or when cancelled, nothing is changed. UPDATE and DELETE without WHERE need confirm=true. Use
/// placeholders with `params`: an array for `?`, an object for `:name`. Rows are given from `offset` on, at most
/// `limit`, and the answer says whether there are more: no LIMIT needs to be written. A database that another program
/// has open can be read. Blobs are shown as `<blob 4,096 bytes, png>`; use hex(substr(column, 1, 64)) to look inside
/// one. It opens no database in the making: for a new one, Write an empty file first. For other databases use their
/// own command with Bash.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SqliteQuery {
    /// The database file: absolute, or relative to the first workspace folder.
    database_path: RawPath,
    /// One SQL statement; empty for the schema.
    #[serde(default)]
    query: String,
    /// `ro` asks and changes nothing; `rw` may change rows and the schema.
    #[serde(default)]
    mode: Mode,
    /// With mode=rw: an UPDATE or DELETE without WHERE is meant for every row of the table.
    #[serde(default)]
    confirm: bool,
    /// Values for the placeholders: an array for `?`, an object for `:name`.
    params: Option<Parameters>,
    /// How many rows to give: 100 if absent, at most 1000.
    #[serde(default = "default_limit")]
    limit: u64,
    /// How many rows to leave out at the beginning, for the next page.
    #[serde(default)]
    offset: u64,
    /// Milliseconds after which the query is stopped, waiting for locks included: 10000 if absent, at most 600000.
    #[serde(default = "default_timeout")]
    timeout_ms: u64,
    /// `table` is aligned with long texts cut at 200 characters; `json` and `csv` give up to 20000 of each.
    #[serde(default)]
    format: Format,
    /// How many characters the answer may have: 1000 to 200000, 30000 if absent.
    max_chars: Option<u64>,
}

/// Whether the database may be changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Mode {
    #[default]
    Ro,
    Rw,
}

fn default_limit() -> u64 {
    100
}

fn default_timeout() -> u64 {
    10_000
}

impl Tool for SqliteQuery {
    const NAME: &'static str = "SqliteQuery";
    const EFFECT: Effect = Effect::Writes;
    const EFFECT_VARIES: bool = true;
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
        r#"{"database_path":"app.db","mode":"rw","query":"UPDATE users SET name = :name WHERE id = :id","params":{"name":"Ada","id":7}}"#,
    ];
    const LIMITS: &'static [&'static str] = &[
        "one statement of at most 256 KB a call",
        "100 rows a call, 1,000 at most",
        "10 s a call, 600 s at most",
        "texts over 200 characters are cut in a table, over 20,000 in json and csv",
        "16 MB for one value inside a query; more than 8 functions in one share 128 MB, more than 16 tables, indexes, columns and functions 256 MB",
        "200 bytes for a pattern of LIKE or GLOB, and for the characters that trim(text, characters) takes off",
        "256 MB of memory and 256 MB of temporary files for one query",
        "500 tables, views and indexes in the overview",
        "a copy is read only of a database up to 512 MB, with a journal up to 128 MB",
    ];
    type Deps = Room;
    type Output = Reply;

    fn effect(&self) -> Effect {
        match self.scope() {
            Scope::Reading => Effect::Reads,
            Scope::Changing => Effect::Writes,
        }
    }

    async fn run(self, cx: &ToolCx, room: &Room) -> Result<Reply, ToolError> {
        if self.query.len() > MAX_SQL {
            return Err(ToolError::new(
                ErrorCode::TooLarge,
                format!("The query is {} bytes long; the limit is {MAX_SQL}.", self.query.len()),
            ));
        }
        let path = room.deps.workspace.resolve(&self.database_path)?;
        databases::not_ours(path.absolute(), &room.deps.home, &path.shown())?;
        if self.scope() == Scope::Changing
            && let Some(protection) = path.protection()
        {
            return Err(protection.denied(&path.shown()));
        }
        let job = Job {
            shown: path.shown(),
            path,
            scratch: room.deps.scratch.clone(),
            parked: room.parked.clone(),
            redactor: room.deps.redactor.clone(),
            ask: self,
        };
        let limit = cx.time_left(Duration::from_millis(job.ask.timeout_ms.clamp(1, 600_000)));
        let guard = Guard::new(job.ask.scope(), limit);
        let watch = guard.clone();
        leave::run(cx, &guard, limit, &room.left, move || job.run(&watch, limit)).await
    }
}

impl SqliteQuery {
    fn is_empty(&self) -> bool {
        self.query.trim().is_empty()
    }

    /// An overview changes nothing in either mode.
    fn scope(&self) -> Scope {
        if self.mode == Mode::Rw && !self.is_empty() { Scope::Changing } else { Scope::Reading }
    }
}

/// One call, on a thread of its own.
struct Job {
    path: WorkspacePath,
    shown: String,
    scratch: PathBuf,
    parked: Parked,
    redactor: Redactor,
    ask: SqliteQuery,
}

impl Job {
    fn run(&self, guard: &Guard, limit: Duration) -> Result<Reply, ToolError> {
        if guard.cancelled() {
            return Err(ToolError::cancelled("The query was cancelled before it began."));
        }
        let opener = Opener { scratch: &self.scratch, guard, parked: &self.parked, shown: &self.shown };
        // Held until all databases are closed: SQLite goes by name, and only through this folder the names stay true.
        let (folder, name) = self.path.open_parent(false).map_err(|cause| match cause.kind() {
            io::ErrorKind::IsADirectory => databases::folder(&self.shown),
            _ => ToolError::io(&self.shown, &cause),
        })?;
        let answered = self.answer(&opener, &folder.path_of(&name), limit);
        self.parked.close(folder);
        answered
    }

    fn answer(&self, opener: &Opener<'_>, path: &Path, limit: Duration) -> Result<Reply, ToolError> {
        let guard = opener.guard;
        let database = opener.open(path)?;
        let mut meta = Meta::default();
        let answered = match guard.scope() {
            Scope::Changing => self.change(&database, guard, &mut meta),
            Scope::Reading if self.ask.is_empty() => self.overview(&database, guard, limit, &mut meta),
            Scope::Reading => self.rows(&database, guard, &mut meta).map(|ran| ran.text),
        };
        if database.changed_meanwhile(path) {
            return Err(ToolError::new(
                ErrorCode::Busy,
                format!("A program began to write {} while it was read. Ask again.", self.shown),
            ));
        }
        let mut text = answered?;
        if let Some(why) = database.copied_for() {
            let _ = write!(text, "\n[read from a snapshot, a private copy made now, because {why}]");
        }
        Ok(Reply::text(text).with_meta(meta).with_budget(Budget::chars(self.ask.max_chars)))
    }

    fn overview(
        &self,
        database: &Database,
        guard: &Guard,
        limit: Duration,
        meta: &mut Meta,
    ) -> Result<String, ToolError> {
        let overview = overview::describe(&database.connection, guard, limit / 2, &self.redactor)
            .map_err(|error| self.trouble(database, guard, &error))?;
        meta.redactions = Some(overview.masked).filter(|masked| *masked > 0);
        meta.warnings.extend(
            overview.damage.map(|why| {
                format!("{} is damaged ({why}); what is shown may lack rows or tables", self.shown)
            }),
        );
        Ok(format!("{}: {}", self.shown, overview.text))
    }

    /// Runs the statement in a transaction, which is undone unless everything went well.
    fn change(&self, database: &Database, guard: &Guard, meta: &mut Meta) -> Result<String, ToolError> {
        let trouble = |error: rusqlite::Error| change::undone(&self.trouble(database, guard, &error));
        let shape = Shape::of(&self.ask.query);
        let change = Change::begin(&database.connection, guard).map_err(trouble)?;
        let ran = self.rows(database, guard, meta).map_err(|error| change::undone(&error))?;
        if guard.over() {
            return Err(trouble(interrupted()));
        }
        let tally = change.tally(shape);
        change.keep().map_err(|error| change::not_kept(&error, &self.trouble(database, guard, &error)))?;
        let done = if ran.only_read {
            "[the statement only reads, so nothing was changed; mode=ro does not keep other programs waiting]"
                .to_owned()
        } else {
            tally.shown(&self.shown)
        };
        Ok(if ran.text.is_empty() { done } else { format!("{}\n{done}", ran.text) })
    }

    /// Runs the statement and lays out the rows that it gives.
    fn rows(&self, database: &Database, guard: &Guard, meta: &mut Meta) -> Result<Ran, ToolError> {
        let trouble = |error: rusqlite::Error| self.trouble(database, guard, &error);
        let sql = &self.ask.query;
        let mut statement = guard.patiently(|| database.connection.prepare(sql)).map_err(trouble)?;
        let only_read = statement.readonly() || statement.is_explain() != 0;
        let shape = Shape::of(sql);
        if !only_read || shape.verb == Verb::Vacuum {
            if guard.scope() == Scope::Reading {
                return Err(trouble::refused(guard.scope(), None));
            }
            change::check_reach(shape, self.ask.confirm)?;
        } else if statement.column_count() == 0 {
            return Err(ToolError::invalid_args(
                "The query holds no statement that gives rows, such as SELECT.",
            ));
        }
        if statement.is_explain() == 0 {
            guard.patiently(|| guard.weigh(&database.connection, sql)).map_err(trouble)?;
        }
        parameters::bind(&mut statement, self.ask.params.as_ref())?;
        let wanted =
            Wanted { limit: self.ask.limit, offset: self.ask.offset, longest: self.ask.format.max_text() };
        let columns: Vec<String> = statement.column_names().into_iter().map(str::to_owned).collect();
        let page = guard
            .patiently(|| Page::collect(&mut statement, &wanted, guard, &self.redactor))
            .map_err(trouble)?;
        meta.lossy_chars = Some(page.lossy).filter(|lossy| *lossy > 0);
        meta.redactions = Some(page.masked).filter(|masked| *masked > 0);
        // Some ALTERs check the rows by a query of SQLite's own, whose columns are nobody's business.
        let silent = !only_read && page.rows.is_empty() && shape.verb == Verb::Other;
        let text = if columns.is_empty() || silent {
            String::new()
        } else {
            format!("{}\n{}", self.ask.format.lay_out(&columns, &page.rows), page.footer(&wanted))
        };
        Ok(Ran { text, only_read })
    }

    fn trouble(&self, database: &Database, guard: &Guard, error: &rusqlite::Error) -> ToolError {
        trouble::of_statement(&database.connection, guard, &self.shown, &self.ask.query, error)
    }
}

/// What running a statement came to.
struct Ran {
    /// Its rows; empty for a change that gives none.
    text: String,
    /// By SQLite's own verdict.
    only_read: bool,
}
