//! The worker's work: opens one database, runs one statement under watch, and answers.
#![expect(
    clippy::disallowed_methods,
    reason = "the worker looks at the database that it opens"
)]

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::ffi::ErrorCode as Code;
use rusqlite::{Connection, OpenFlags};

use super::cell_value::CellReader;
use super::error_messages::{file_error, scope_refusal, statement_error};
use super::parameters;
use super::row_page::{RowPage, interrupted_error};
use super::schema_overview::{SchemaOverview, SchemaPart};
use super::snapshot::{FILE_SUFFIXES, with_suffix};
use super::statement_guard::{
    LOCK_PATIENCE, MAX_TEMP_BYTES, StatementGuard, StatementScope, is_lock_error,
};
use super::statement_kind::{StatementKind, StatementVerb};
use super::transaction::{ChangeTransaction, check_confirmation, commit_error, rolled_back_error};
use super::worker_protocol::{
    AgentStatement, OpenMode, SqlTask, UnopenedState, WorkerAnswer, WorkerQuestion,
};
use punie_host::worker::{CallerLink, WorkerLimits};
use punie_tool::ToolError;

/// The time that a reader waits for another program's lock before the runner makes a copy.
const READER_PATIENCE: Duration = Duration::from_secs(1);
/// Settings of the worker's SQLite: 256 MB of memory, and the usual 2 MB of cache, for which a file could ask any size.
const MEMORY: &str = "PRAGMA hard_heap_limit = 268435456; PRAGMA cache_size = -2000";
/// The worker's address space: SQLite's memory, the answer, and the program itself.
const ADDRESS_SPACE: u64 = 1 << 30;
/// The largest file of a change, which may be the database itself.
const MAX_CHANGED_FILE: u64 = 64 << 30;

/// Answers the runner's question as a worker process.
///
/// # Errors
/// The runner is gone.
pub fn run_worker() -> io::Result<()> {
    punie_host::worker::serve_question(|question: WorkerQuestion, link| {
        let scope = if question.opening == OpenMode::Change {
            StatementScope::Changing
        } else {
            StatementScope::Reading
        };
        let guard = StatementGuard::new(scope, question.time_limit);
        WorkerSession {
            question: &question,
            guard,
            link,
        }
        .answer_caller()
        .unwrap_or_else(|error| WorkerAnswer::Refused(error.into()))
    })
}

struct WorkerSession<'a> {
    question: &'a WorkerQuestion,
    guard: StatementGuard,
    link: &'a CallerLink,
}

impl WorkerSession<'_> {
    fn answer_caller(&self) -> Result<WorkerAnswer, ToolError> {
        self.confine_process()
            .map_err(|cause| ToolError::from_io("Confining the worker", &cause))?;
        let connection = match self.open_database() {
            Ok(connection) => connection,
            Err(error) => return self.answer_unopened(&error),
        };
        match &self.question.task {
            SqlTask::Open => Ok(WorkerAnswer::Opened),
            SqlTask::Describe(part) => self.describe_database(&connection, part),
            SqlTask::Run(statement) if self.guard.is_changing() => {
                self.run_change(&connection, statement)
            }
            SqlTask::Run(statement) => self
                .run_statement(&connection, statement)
                .map(|ran| ran.into_answer(None)),
        }
    }

    /// Answers for a database that cannot be opened. If it is only read, the runner may copy it.
    fn answer_unopened(&self, error: &rusqlite::Error) -> Result<WorkerAnswer, ToolError> {
        let refusal = file_error(&self.question.shown, &self.guard, error);
        if self.question.opening != OpenMode::InPlace {
            return Err(refusal);
        }
        let state = match error.sqlite_error_code() {
            _ if self.guard.is_cancelled() => UnopenedState::Unreadable,
            _ if is_lock_error(error) => UnopenedState::Locked,
            Some(Code::ReadOnly) => UnopenedState::Unfinished,
            _ => UnopenedState::Unreadable,
        };
        Ok(WorkerAnswer::NotInPlace {
            state,
            refusal: refusal.into(),
        })
    }

    /// Limits this process to the database's own files. Then watches the runner, in a thread that has the limits too.
    fn confine_process(&self) -> io::Result<()> {
        let own = |suffix| with_suffix(Path::new(&self.question.name), suffix);
        // SQLite begins its random numbers there, and finds the local time here.
        let system = [
            "/dev/urandom",
            "/etc/localtime",
            "/etc/zoneinfo",
            "/usr/share/zoneinfo",
        ];
        let mut reads: Vec<PathBuf> = system.map(PathBuf::from).into();
        reads.extend(FILE_SUFFIXES.map(own));
        let mut writes = vec![std::env::temp_dir()];
        match self.question.opening {
            // A reader marks its place in the index of a log.
            OpenMode::InPlace => writes.push(own("-shm")),
            OpenMode::Immutable => {}
            OpenMode::Copy | OpenMode::Change => writes.push(PathBuf::from(".")),
        }
        let file_bytes = if self.guard.is_changing() {
            MAX_CHANGED_FILE
        } else {
            2 * MAX_TEMP_BYTES
        };
        WorkerLimits {
            reads,
            writes,
            memory_bytes: ADDRESS_SPACE,
            file_bytes,
            processor_time: self.question.time_limit,
        }
        .apply_limits()?;
        let guard = self.guard.clone();
        self.link.on_hang_up(move || guard.cancel())
    }

    fn open_database(&self) -> rusqlite::Result<Connection> {
        if self.question.opening == OpenMode::InPlace {
            // Half of the time is left for the copy.
            let patience = READER_PATIENCE.min(self.question.time_limit / 2);
            self.guard.run_within(patience, || self.connect_guarded())
        } else {
            self.connect_guarded()
        }
    }

    fn connect_guarded(&self) -> rusqlite::Result<Connection> {
        // Not a bare name: SQLite would take `:memory:` and `file:` for something else.
        let mut path = Path::new(".").join(&self.question.name);
        let mut flags = OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        match self.question.opening {
            OpenMode::InPlace => flags |= OpenFlags::SQLITE_OPEN_READ_ONLY,
            OpenMode::Immutable => {
                flags |= OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
                path = PathBuf::from(immutable_uri(&path));
            }
            OpenMode::Copy | OpenMode::Change => flags |= OpenFlags::SQLITE_OPEN_READ_WRITE,
        }
        let connection = Connection::open_with_flags(path, flags)?;
        self.check_file_id()?;
        connection.busy_timeout(LOCK_PATIENCE)?;
        // The size of the cache is one of the schema, which is read for it.
        self.guard
            .retry_locked(|| connection.execute_batch(MEMORY))?;
        self.guard.install_limits(&connection)?;
        // Opening reads nothing yet; this does, so that a file that cannot be read shows now.
        self.guard.retry_locked(|| {
            connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(()))
        })?;
        if let Ok(meta) = fs::metadata(&self.question.name)
            && self.guard.is_changing()
        {
            self.guard.allow_temp_bytes(meta.len());
        }
        Ok(connection)
    }

    /// Refuses another file than the one that was checked: SQLite opens by the folder's path, which may lead elsewhere
    /// by now.
    #[cfg(target_os = "linux")]
    fn check_file_id(&self) -> rusqlite::Result<()> {
        use std::os::unix::fs::MetadataExt as _;
        let mut open = (0..64).filter_map(|fd| fs::metadata(format!("/proc/self/fd/{fd}")).ok());
        let is_open = |id| open.any(|meta| (meta.dev(), meta.ino()) == id);
        if self.question.file_id.is_none_or(is_open) {
            return Ok(());
        }
        let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_CANTOPEN);
        Err(rusqlite::Error::SqliteFailure(
            code,
            Some("its folder was exchanged".to_owned()),
        ))
    }

    /// Accepts it: this system does not list open files.
    #[cfg(not(target_os = "linux"))]
    #[expect(clippy::unnecessary_wraps, reason = "as where it is checked")]
    fn check_file_id(&self) -> rusqlite::Result<()> {
        Ok(())
    }

    fn describe_database(
        &self,
        connection: &Connection,
        part: &SchemaPart,
    ) -> Result<WorkerAnswer, ToolError> {
        let patience = self.question.time_limit / 2;
        let overview = SchemaOverview::read_schema(
            connection,
            &self.guard,
            patience,
            part,
            self.question.longest_secret,
        );
        overview
            .map(WorkerAnswer::Described)
            .map_err(|error| self.describe_statement_error(connection, "", &error))
    }

    /// Runs the statement in a transaction, which is rolled back unless everything went well.
    fn run_change(
        &self,
        connection: &Connection,
        statement: &AgentStatement,
    ) -> Result<WorkerAnswer, ToolError> {
        let failed = |error: rusqlite::Error| {
            rolled_back_error(&self.describe_statement_error(connection, &statement.sql, &error))
        };
        let transaction = ChangeTransaction::begin(connection, &self.guard).map_err(failed)?;
        let ran = self
            .run_statement(connection, statement)
            .map_err(|error| rolled_back_error(&error))?;
        if self.guard.should_stop() {
            return Err(failed(interrupted_error()));
        }
        let done = if ran.only_reads {
            "[the statement only reads, so nothing was changed; mode=ro does not keep other programs waiting]"
                .to_owned()
        } else {
            transaction.describe_change(
                StatementKind::from_sql(&statement.sql),
                &self.question.shown,
            )
        };
        transaction.commit(self.link).map_err(|error| {
            commit_error(
                &error,
                &self.describe_statement_error(connection, &statement.sql, &error),
            )
        })?;
        Ok(ran.into_answer(Some(done)))
    }

    /// Runs the statement and reads its rows.
    fn run_statement(
        &self,
        connection: &Connection,
        statement: &AgentStatement,
    ) -> Result<RanStatement, ToolError> {
        let failed = |error: rusqlite::Error| {
            self.describe_statement_error(connection, &statement.sql, &error)
        };
        let mut prepared = self
            .guard
            .retry_locked(|| connection.prepare(&statement.sql))
            .map_err(failed)?;
        // SQLite calls some pragmas writers that only tell: those that do more were refused when it was prepared.
        let is_pragma = StatementKind::from_sql(&statement.sql).verb == StatementVerb::Pragma;
        let only_reads = prepared.readonly() || prepared.is_explain() != 0 || is_pragma;
        let is_question = only_reads && prepared.column_count() > 0;
        let verb = if is_question {
            StatementVerb::Other
        } else {
            self.check_statement_kind(statement, only_reads)?
        };
        parameters::bind_parameters(&mut prepared, statement.params.as_ref())?;
        let mut columns: Vec<String> = prepared
            .column_names()
            .into_iter()
            .map(str::to_owned)
            .collect();
        let read = || {
            let reader = CellReader {
                longest_secret: self.question.longest_secret,
                ..CellReader::default()
            };
            RowPage::read(&mut prepared, &statement.page, &self.guard, reader)
        };
        let page = self.guard.retry_locked(read).map_err(failed)?;
        // Some ALTERs check the rows by a query of SQLite's own, whose columns are not the agent's.
        if !only_reads && page.rows.is_empty() && verb == StatementVerb::Schema {
            columns.clear();
        }
        Ok(RanStatement {
            columns,
            page,
            only_reads,
        })
    }

    /// Refuses a statement without rows that is not to be run.
    fn check_statement_kind(
        &self,
        statement: &AgentStatement,
        only_reads: bool,
    ) -> Result<StatementVerb, ToolError> {
        let kind = StatementKind::from_sql(&statement.sql);
        // SQLite calls VACUUM INTO a reader.
        if only_reads && kind.verb != StatementVerb::Vacuum {
            let text = "The query holds no statement that gives rows, such as SELECT.";
            return Err(ToolError::invalid_args(text));
        }
        if !self.guard.is_changing() {
            return Err(scope_refusal(StatementScope::Reading, None));
        }
        check_confirmation(kind, statement.confirm)?;
        Ok(kind.verb)
    }

    fn describe_statement_error(
        &self,
        connection: &Connection,
        sql: &str,
        error: &rusqlite::Error,
    ) -> ToolError {
        statement_error(connection, &self.guard, &self.question.shown, sql, error)
    }
}

struct RanStatement {
    columns: Vec<String>,
    page: RowPage,
    only_reads: bool,
}

impl RanStatement {
    fn into_answer(self, note: Option<String>) -> WorkerAnswer {
        WorkerAnswer::Ran {
            columns: self.columns,
            page: self.page,
            note,
        }
    }
}

/// `file:` with every byte that means something in a URI written as `%xx`.
fn immutable_uri(path: &Path) -> String {
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_encoded_bytes() {
        let byte = if cfg!(windows) && *byte == b'\\' {
            b'/'
        } else {
            *byte
        };
        if byte.is_ascii_alphanumeric() || b"/._-~".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri + "?immutable=1"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_add_options_to_its_uri() {
        assert_eq!(
            immutable_uri(Path::new("./x?mode=rwc#&%41.db")),
            "file:./x%3Fmode%3Drwc%23%26%2541.db?immutable=1"
        );
    }
}
