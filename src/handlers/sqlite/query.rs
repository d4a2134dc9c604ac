//! SqliteQuery: one statement on one database file. Not here: how a change is kept or undone (change).

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
use super::overview::{self, Part};
use super::page::{Page, Wanted, interrupted};
use super::parameters::{self, Parameters};
use super::parked::Parked;
use super::shape::{Shape, Verb};
use super::trouble;
use crate::acp::{RawPath, WorkspacePath};
use crate::output::Budget;
use crate::redact::Redactor;
use crate::tool::{
    Access, CallDescription, CallTitle, Effect, ErrorCode, Meta, Reply, Tool, ToolCx, ToolError,
};

/// Run one SQL statement on a SQLite file. An empty query shows the schema with row counts: begin there.
///
/// mode=ro allows what only reads. mode=rw runs one change in a transaction; UPDATE and DELETE without WHERE need
/// confirm=true. The answer says whether there are more rows: write no LIMIT. For a new database Write an empty
/// file first.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct SqliteQuery {
    /// Absolute, or below the first workspace.
    database_path: RawPath,
    /// A statement, `.tables` or `.schema NAME`.
    #[serde(default)]
    query: String,
    /// `ro` (default) changes nothing.
    #[serde(default)]
    mode: Mode,
    /// Every row is meant.
    #[serde(default)]
    confirm: bool,
    /// A list for `?`, an object for `:name`.
    params: Option<Parameters>,
    /// Rows, at most 1000.
    #[serde(default = "default_limit")]
    limit: u64,
    /// Results to skip.
    #[serde(default)]
    offset: u64,
    /// Milliseconds, at most 600000.
    #[serde(default = "default_timeout")]
    timeout_ms: u64,
    /// `table` (default) cuts cells at 200 characters.
    #[serde(default)]
    format: Format,
    /// Characters; 30000 if absent.
    max_chars: Option<u64>,
}

/// Bytes of the budget that are kept free for what is said beside rows in JSON.
const NOTES: usize = 1_000;

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
    const EFFECT_DEPENDS_ON: Option<&'static str> = Some("mode");
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

    fn access(&self) -> Access {
        Access::reads([self.database_path.as_str()])
    }

    fn describe(&self) -> CallDescription {
        CallDescription::titled(
            CallTitle::about_files("Query", [self.database_path.as_str()])
                .followed_by(&format!(": `{}`", self.query)),
        )
    }

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
    /// The part of the schema that is asked for instead of rows: an empty query, or a command of SQLite's own shell.
    fn asks_for_schema(&self) -> Result<Option<Part>, ToolError> {
        let query = self.query.trim().trim_end_matches(';');
        let mut words = query.split_whitespace();
        match (words.next(), words.next()) {
            (None, _) => Ok(Some(Part::Everything)),
            (Some(".tables"), _) => Ok(Some(Part::Names)),
            (Some(".schema"), None) => Ok(Some(Part::Definitions(None))),
            (Some(".schema"), Some(name)) => {
                Ok(Some(Part::Definitions(Some(name.trim_matches(['"', '\'', '`']).to_owned()))))
            }
            (Some(other), _) if other.starts_with('.') => Err(ToolError::invalid_args(format!(
                "{other} is a command of SQLite's shell that is not known here: .tables and .schema are, and SQL."
            ))),
            _ => Ok(None),
        }
    }

    /// An overview changes nothing in either mode.
    fn scope(&self) -> Scope {
        let is_query = self.asks_for_schema().is_ok_and(|part| part.is_none());
        if self.mode == Mode::Rw && is_query { Scope::Changing } else { Scope::Reading }
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
        let mut notes = Vec::new();
        let answered = match (guard.scope(), self.ask.asks_for_schema()?) {
            (Scope::Changing, _) => self.change(&database, guard, &mut meta, &mut notes),
            (Scope::Reading, Some(part)) => self.overview(&database, guard, limit, &part, &mut meta),
            (Scope::Reading, None) => self.rows(&database, guard, &mut meta).map(|ran| ran.text),
        };
        if database.changed_meanwhile(path) {
            return Err(ToolError::new(
                ErrorCode::Busy,
                format!("A program began to write {} while it was read. Ask again.", self.shown),
            ));
        }
        let text = answered?;
        if let Some(why) = database.copied_for() {
            notes.push(format!("[read from a snapshot, a private copy made now, because {why}]"));
        }
        // A description of the schema is a text in every format.
        let is_text = self.ask.asks_for_schema()?.is_some();
        let format = if is_text { Format::Table } else { self.ask.format };
        let text = format.finish(&text, &notes);
        let reply = if format == Format::Json { Reply::fitted(text) } else { Reply::text(text) };
        Ok(reply.with_meta(meta).with_budget(Budget::chars(self.ask.max_chars)))
    }

    fn overview(
        &self,
        database: &Database,
        guard: &Guard,
        limit: Duration,
        part: &Part,
        meta: &mut Meta,
    ) -> Result<String, ToolError> {
        let overview = overview::describe(&database.connection, guard, limit / 2, &self.redactor, part)
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
    fn change(
        &self,
        database: &Database,
        guard: &Guard,
        meta: &mut Meta,
        notes: &mut Vec<String>,
    ) -> Result<String, ToolError> {
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
        notes.push(done);
        Ok(ran.text)
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
            let room = Budget::chars(self.ask.max_chars).max_chars().saturating_sub(NOTES);
            self.ask.format.lay_out(&columns, &page, &wanted, room)
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
