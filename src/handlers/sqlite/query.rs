//! SqliteQuery: one statement on one database file, run by a worker process. Not here: the worker's side (worker_session).

use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::Deserialize;

use super::SqliteDeps;
use super::database_file::{
    self, DatabaseFile, ReadMethod, find_super_journal, super_journal_refusal,
};
use super::parameters::Parameters;
use super::row_layout::OutputFormat;
use super::row_page::PageRequest;
use super::schema_overview::SchemaPart;
use super::snapshot::{COPY_NAME, CallDeadline, DatabaseSnapshot, FileStamps};
use super::statement_guard::MAX_SQL;
use super::transaction::maybe_committed_error;
use super::worker_protocol::{
    AgentStatement, JOB, OpenMode, SqlTask, UnopenedState, WorkerAnswer, WorkerQuestion,
};
use crate::acp::{RawPath, WorkspacePath};
use crate::ids::RequestId;
use crate::output::TextBudget;
use crate::tool::{
    CallDescription, CallTitle, DeclaredAccess, ErrorCode, ResultMeta, Tool, ToolContext,
    ToolEffect, ToolError, ToolReply,
};
use crate::worker::{WorkerCall, WorkerFailure};

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
    format: OutputFormat,
    /// Characters; 30000 if absent.
    max_chars: Option<u64>,
}

/// Bytes of the budget that are kept free for notes beside rows in JSON.
const NOTE_BYTES: usize = 1_000;

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
        let path = deps.workspace.resolve_in_workspace(&self.database_path)?;
        database_file::check_not_own(path.absolute_path(), &deps.home, &path.display_text())?;
        if self.is_change()
            && let Some(protection) = path.write_protection()
        {
            return Err(protection.denial_error(&path.display_text()));
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
            query: self,
        };
        let finished = tokio::task::spawn_blocking(move || call.run_call()).await;
        finished.unwrap_or_else(|fault| {
            Err(ToolError::internal_error(format!(
                "The query broke off: {fault}"
            )))
        })
    }
}

impl SqliteQuery {
    /// The part of the schema that is asked for instead of rows: an empty query, or a command of SQLite's own shell.
    fn schema_part(&self) -> Result<Option<SchemaPart>, ToolError> {
        let query = self.query.trim().trim_end_matches(';');
        let mut words = query.split_whitespace();
        match (words.next(), words.next()) {
            (None, _) => Ok(Some(SchemaPart::Everything)),
            (Some(".tables"), _) => Ok(Some(SchemaPart::Names)),
            (Some(".schema"), None) => Ok(Some(SchemaPart::Definitions(None))),
            (Some(".schema"), Some(name)) => Ok(Some(SchemaPart::Definitions(Some(
                name.trim_matches(['"', '\'', '`']).to_owned(),
            )))),
            (Some(other), _) if other.starts_with('.') => Err(ToolError::invalid_args(format!(
                "{other} is a command of SQLite's shell that is not known here: .tables and .schema are, and SQL."
            ))),
            _ => Ok(None),
        }
    }

    /// Returns whether the call may change the database. An overview does not in either mode.
    fn is_change(&self) -> bool {
        self.mode == Mode::Rw && self.schema_part().is_ok_and(|part| part.is_none())
    }

    fn page_request(&self) -> PageRequest {
        PageRequest {
            limit: self.limit,
            offset: self.offset,
            max_chars: self.format.max_text_chars(),
        }
    }

    fn to_task(&self) -> Result<SqlTask, ToolError> {
        Ok(match self.schema_part()? {
            Some(part) => SqlTask::Describe(part),
            None => SqlTask::Run(AgentStatement {
                sql: self.query.clone(),
                params: self.params.clone(),
                confirm: self.confirm,
                page: self.page_request(),
            }),
        })
    }
}

/// One call, in a blocking thread.
struct SqliteCall {
    path: WorkspacePath,
    shown: String,
    deps: SqliteDeps,
    request: RequestId,
    time: CallDeadline,
    query: SqliteQuery,
}

impl SqliteCall {
    fn run_call(&self) -> Result<ToolReply, ToolError> {
        if self.time.cancel.is_cancelled() {
            return Err(ToolError::call_cancelled(
                "The query was cancelled before it began.",
            ));
        }
        // Held until the worker has ended: every look at the database is a look into this folder.
        let (folder, name) =
            self.path
                .open_parent_folder(false)
                .map_err(|cause| match cause.kind() {
                    io::ErrorKind::IsADirectory => database_file::folder_refusal(&self.shown),
                    _ => ToolError::from_io(&self.shown, &cause),
                })?;
        let (path, folder_path) = (folder.entry_path(&name), folder.entry_path(".".as_ref()));
        let file = DatabaseFile::check_database(&path, &self.shown, self.query.is_change())?;
        let question = WorkerQuestion {
            shown: self.shown.clone(),
            name,
            file_id: file.id,
            opening: OpenMode::InPlace,
            time_limit: self.time.remaining_time(),
            task: self.query.to_task()?,
            longest_secret: self.deps.redactor.longest_secret(),
        };
        let ask = |opening| {
            self.ask_worker(
                &folder_path,
                &WorkerQuestion {
                    opening,
                    ..question.clone()
                },
            )
        };
        let copy_reason = match file.way {
            ReadMethod::Opened(opening) => {
                if opening == OpenMode::Change {
                    self.check_super_journal(&folder_path, &path, &question)?;
                }
                let before =
                    (opening == OpenMode::Immutable).then(|| FileStamps::read_stamps(&path));
                let answer = ask(opening)?;
                if before.is_some_and(|before| before != FileStamps::read_stamps(&path)) {
                    let text = format!(
                        "A program began to write {} while it was read. Ask again.",
                        self.shown
                    );
                    return Err(ToolError::new(ErrorCode::Busy, text));
                }
                match answer {
                    WorkerAnswer::NotInPlace {
                        state: UnopenedState::Locked,
                        ..
                    } => "another program keeps it locked",
                    WorkerAnswer::NotInPlace {
                        state: UnopenedState::Unfinished,
                        ..
                    } => {
                        "a program was killed in the middle of a change, which the copy leaves out"
                    }
                    answer => return self.build_reply(answer, None),
                }
            }
            ReadMethod::SharedLog => match ask(OpenMode::InPlace)? {
                WorkerAnswer::NotInPlace { .. } => {
                    "its write-ahead log cannot be shared with the programs that use it"
                }
                answer => return self.build_reply(answer, None),
            },
            ReadMethod::Copied(reason) => reason,
        };
        let snapshot =
            DatabaseSnapshot::copy_database(&path, &self.shown, &self.deps.scratch, &self.time)?;
        self.check_journal_name(&snapshot.database_path())?;
        let (opening, name) = (OpenMode::Copy, COPY_NAME.into());
        let question = WorkerQuestion {
            opening,
            name,
            file_id: None,
            time_limit: self.time.remaining_time(),
            ..question
        };
        self.build_reply(
            self.ask_worker(snapshot.snapshot_folder(), &question)?,
            Some(copy_reason),
        )
    }

    /// Refuses to change a database whose unfinished journal names another file.
    fn check_super_journal(
        &self,
        folder: &Path,
        path: &Path,
        question: &WorkerQuestion,
    ) -> Result<(), ToolError> {
        let named = self.check_journal_name(path);
        if named.is_err() {
            // Such a journal may also be that of a program that is just committing. A reader tells.
            let opened = WorkerQuestion {
                task: SqlTask::Open,
                ..question.clone()
            };
            let answer = self.ask_worker(folder, &opened)?;
            if matches!(
                answer,
                WorkerAnswer::NotInPlace {
                    state: UnopenedState::Unfinished,
                    ..
                }
            ) {
                return named;
            }
        }
        Ok(())
    }

    fn check_journal_name(&self, database: &Path) -> Result<(), ToolError> {
        match find_super_journal(database) {
            Ok(None) => Ok(()),
            Ok(Some(name)) => Err(super_journal_refusal(&self.shown, &name)),
            Err(cause) => Err(ToolError::from_io(
                format!("{}-journal", self.shown),
                &cause,
            )),
        }
    }

    fn ask_worker(
        &self,
        folder: &Path,
        question: &WorkerQuestion,
    ) -> Result<WorkerAnswer, ToolError> {
        let call = WorkerCall {
            request: &self.request,
            job: JOB,
            folder,
            question,
            file: None,
            time_limit: question.time_limit,
            cancel: &self.time.cancel,
        };
        let failure = match self.deps.worker.call_worker(&call) {
            Ok(answer) => return Ok(answer),
            Err(failure) => failure,
        };
        let kept = if question.opening == OpenMode::Change {
            " Nothing is changed: the transaction was not committed."
        } else {
            ""
        };
        let in_step = format!(
            "in a step that SQLite cannot interrupt, such as one function over long values. It was ended. Take parts of \
             long values with substr().{kept}"
        );
        Err(match failure {
            WorkerFailure::Cancelled => {
                ToolError::call_cancelled(format!("The query was cancelled, and was {in_step}"))
            }
            WorkerFailure::TimedOut => ToolError::new(
                ErrorCode::Timeout,
                format!("The query took longer than timeout_ms, and was {in_step}"),
            ),
            WorkerFailure::DiedCommitting => maybe_committed_error(&ToolError::new(
                ErrorCode::Io,
                format!("{}: {failure}.", self.shown),
            )),
            WorkerFailure::NotStarted(_) | WorkerFailure::Died(_) => {
                ToolError::internal_error(format!(
                    "{} could not be read: {failure}. Ask for less at a time; the database may also be damaged.{kept}",
                    self.shown
                ))
            }
        })
    }

    fn build_reply(
        &self,
        answer: WorkerAnswer,
        copy_reason: Option<&str>,
    ) -> Result<ToolReply, ToolError> {
        let mut meta = ResultMeta::default();
        let mut notes = Vec::new();
        let mut format = self.query.format;
        let text = match answer {
            WorkerAnswer::Refused(refusal) | WorkerAnswer::NotInPlace { refusal, .. } => {
                return Err(refusal.into());
            }
            WorkerAnswer::Opened => String::new(),
            WorkerAnswer::Described(mut overview) => {
                meta.redactions = Some(overview.mask_secrets(&self.deps.redactor));
                meta.warnings.extend(overview.damage.as_ref().map(|why| {
                    format!(
                        "{} is damaged ({why}); what is shown may lack rows or tables",
                        self.shown
                    )
                }));
                // A description of the schema is a text in every format.
                format = OutputFormat::Table;
                let part = self.query.schema_part()?.unwrap_or(SchemaPart::Everything);
                format!("{}: {}", self.shown, overview.describe_schema(&part))
            }
            WorkerAnswer::Ran {
                columns,
                mut page,
                note,
            } => {
                meta.redactions = Some(page.mask_secrets(&self.deps.redactor));
                meta.lossy_chars = Some(page.lossy).filter(|lossy| *lossy > 0);
                notes.extend(note);
                let most = TextBudget::from_requested(self.query.max_chars)
                    .max_chars()
                    .saturating_sub(NOTE_BYTES);
                if columns.is_empty() {
                    String::new()
                } else {
                    format.format_rows(&columns, &page, &self.query.page_request(), most)
                }
            }
        };
        meta.redactions = meta.redactions.filter(|masked| *masked > 0);
        if let Some(why) = copy_reason {
            notes.push(format!(
                "[read from a snapshot, a private copy made now, because {why}]"
            ));
        }
        let text = format.join_notes(&text, &notes);
        let reply = if format == OutputFormat::Json {
            ToolReply::from_fitted_text(text)
        } else {
            ToolReply::from_text(text)
        };
        Ok(reply
            .with_meta(meta)
            .with_budget(TextBudget::from_requested(self.query.max_chars)))
    }
}
