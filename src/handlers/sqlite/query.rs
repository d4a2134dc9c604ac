//! SqliteQuery: one statement on one database file, run by a worker process.

use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::Deserialize;

use super::SqliteDeps;
use super::database_file::check_not_own;
use super::parameters::Parameters;
use super::row_layout::OutputFormat;
use super::row_page::PageRequest;
use super::schema_overview::SchemaPart;
use super::snapshot::CallDeadline;
use super::sqlite_call::SqliteCall;
use super::statement_guard::MAX_SQL;
use super::worker_protocol::{AgentStatement, SqlTask};
use punie_host::RawPath;
use punie_text::output::TextBudget;
use punie_tool::{
    CallDescription, CallTitle, DeclaredAccess, ErrorCode, Tool, ToolContext, ToolEffect,
    ToolError, ToolReply,
};

/// Run one SQL statement on a SQLite file. An empty query shows the schema with row counts: begin there.
///
/// mode=ro allows what only reads. mode=rw runs one change in a transaction; UPDATE and DELETE without WHERE, and
/// every DROP, need confirm=true. The answer says whether there are more rows: write no LIMIT. For a new database
/// Write an empty file first.
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
    /// Every row, or the DROP, is meant.
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
    format: OutputFormat,
    /// Characters; 30000 if absent.
    max_chars: Option<u64>,
}

/// The use of the database.
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
    const EFFECT: ToolEffect = ToolEffect::Writes;
    const EFFECT_DEPENDS_ON: Option<&'static str> = Some("mode");
    const ALIASES: &'static [(&'static str, &'static str)] = &[
        ("database", "database_path"),
        ("db", "database_path"),
        ("db_path", "database_path"),
        ("parameters", "params"),
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
        "16 MB for one value inside a query",
        "200 bytes for a pattern of LIKE or GLOB",
        "256 MB of memory and 256 MB of temporary files for one query",
        "500 tables, views and indexes in the overview",
        "a copy is read only of a database up to 512 MB, with a journal up to 128 MB",
    ];
    type Deps = SqliteDeps;
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        DeclaredAccess::reading_paths([self.database_path.as_str()])
    }

    fn describe(&self) -> CallDescription {
        CallDescription::with_title(
            CallTitle::about_files("Query", [self.database_path.as_str()])
                .followed_by(&format!(": `{}`", self.query)),
        )
    }

    fn effect(&self) -> ToolEffect {
        if self.is_change() {
            ToolEffect::Writes
        } else {
            ToolEffect::Reads
        }
    }

    async fn run(self, cx: &ToolContext, deps: &SqliteDeps) -> Result<ToolReply, ToolError> {
        if self.query.len() > MAX_SQL {
            return Err(ToolError::new(
                ErrorCode::TooLarge,
                format!(
                    "The query is {} bytes long; the limit is {MAX_SQL}.",
                    self.query.len()
                ),
            ));
        }
        let path = deps.workspace.resolve_inside(&self.database_path)?;
        check_not_own(path.absolute_path(), &deps.home, &path.display_text())?;
        if self.is_change() {
            path.check_writable()?;
        }
        let time_limit =
            cx.time_until_deadline(Duration::from_millis(self.timeout_ms.clamp(1, 600_000)));
        // A call that is dropped is cancelled, too.
        let cancel = cx.cancel.child_token();
        let _cancel_on_drop = cancel.clone().drop_guard();
        let call = SqliteCall {
            shown: path.display_text(),
            path,
            deps: deps.clone(),
            request: cx.request.clone(),
            time: CallDeadline {
                cancel,
                deadline: Instant::now() + time_limit,
            },
            task: self.to_task()?,
            is_change: self.is_change(),
            format: self.format,
            budget: TextBudget::from_requested(self.max_chars),
        };
        let finished = tokio::task::spawn_blocking(move || call.run_call()).await;
        finished.unwrap_or_else(|fault| {
            Err(ToolError::internal(format!("The query broke off: {fault}")))
        })
    }
}

impl SqliteQuery {
    /// The part of the schema that is asked for instead of rows: an empty query, or a command of SQLite's own shell.
    fn schema_part(&self) -> Result<Option<SchemaPart>, ToolError> {
        let query = self.query.trim().trim_end_matches(';');
        let mut words = query.split_whitespace();
        Ok(Some(match (words.next(), words.next()) {
            (None, _) => SchemaPart::Everything,
            (Some(".tables"), _) => SchemaPart::Names,
            (Some(".schema"), name) => SchemaPart::Definitions(
                name.map(|name| name.trim_matches(['"', '\'', '`']).to_owned()),
            ),
            (Some(other), _) if other.starts_with('.') => {
                return Err(ToolError::invalid_args(format!(
                    "{other} is a command of SQLite's shell that is not known here: .tables and .schema are, and SQL."
                )));
            }
            _ => return Ok(None),
        }))
    }

    /// Returns whether the call may change the database. An overview does not in either mode.
    fn is_change(&self) -> bool {
        self.mode == Mode::Rw && self.schema_part().is_ok_and(|part| part.is_none())
    }

    fn to_task(&self) -> Result<SqlTask, ToolError> {
        Ok(match self.schema_part()? {
            Some(part) => SqlTask::Describe(part),
            None => SqlTask::Run(AgentStatement {
                sql: self.query.clone(),
                params: self.params.clone(),
                confirm: self.confirm,
                page: PageRequest {
                    limit: self.limit,
                    offset: self.offset,
                    max_chars: self.format.max_text_chars(),
                },
            }),
        })
    }
}
