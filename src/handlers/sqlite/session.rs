//! The worker's work: opens one database, runs one statement under watch, and answers. Not here: which file is opened and
//! how (database_file), in the runner.
#![expect(clippy::disallowed_methods, reason = "the worker looks at the database that it opens")]

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::ffi::ErrorCode as Code;
use rusqlite::{Connection, OpenFlags};

use super::error_messages::{file_error, refused, statement_error};
use super::guard::{MAX_TEMP_BYTES, Scope, StatementGuard, is_busy};
use super::overview::{Overview, SchemaPart};
use super::page::{RowPage, interrupted};
use super::parameters;
use super::question::{Answer, FileState, Opening, Question, SqlTask, Statement};
use super::snapshot::{FILE_SUFFIXES, suffixed};
use super::statement_kind::{StatementKind, StatementVerb};
use super::transaction::{ChangeTransaction, check_reach, commit_failed, rolled_back};
use super::value::CellReader;
use crate::tool::ToolError;
use crate::worker::{CallerLink, WorkerLimits};

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
    crate::worker::serve(|question: Question, link| {
        let guard = StatementGuard::new(scope_of(question.opening), question.time_limit);
        Session { question: &question, guard, link }
            .answer()
            .unwrap_or_else(|error| Answer::Refused(error.into()))
    })
}

fn scope_of(opening: Opening) -> Scope {
    if opening == Opening::Change { Scope::Changing } else { Scope::Reading }
}

struct Session<'a> {
    question: &'a Question,
    guard: StatementGuard,
    link: &'a CallerLink,
}

impl Session<'_> {
    fn answer(&self) -> Result<Answer, ToolError> {
        self.confine().map_err(|cause| ToolError::io("Confining the worker", &cause))?;
        let shown = &self.question.shown;
        let connection = match self.open() {
            Ok(connection) => connection,
            Err(error) => {
                let refusal = file_error(shown, &self.guard, &error);
                if self.question.opening != Opening::InPlace {
                    return Err(refusal);
                }
                let state = match error.sqlite_error_code() {
                    _ if self.guard.is_cancelled() => FileState::Unreadable,
                    _ if is_busy(&error) => FileState::Locked,
                    Some(Code::ReadOnly) => FileState::Unfinished,
                    _ => FileState::Unreadable,
                };
                return Ok(Answer::NotInPlace { state, refusal: refusal.into() });
            }
        };
        match &self.question.task {
            SqlTask::Open => Ok(Answer::Opened),
            SqlTask::Describe(part) => self.describe(&connection, part),
            SqlTask::Run(statement) if self.guard.scope() == Scope::Changing => {
                self.change(&connection, statement)
            }
            SqlTask::Run(statement) => self.run(&connection, statement).map(|ran| ran.answer(None)),
        }
    }

    /// Limits this process to the database's own files. Then watches the runner, in a thread that has the limits too.
    fn confine(&self) -> io::Result<()> {
        let own = |suffix| suffixed(Path::new(&self.question.name), suffix);
        // SQLite begins its random numbers there, and finds the local time here.
        let system = ["/dev/urandom", "/etc/localtime", "/etc/zoneinfo", "/usr/share/zoneinfo"];
        let mut reads: Vec<PathBuf> = system.map(PathBuf::from).into();
        reads.extend(FILE_SUFFIXES.map(own));
        let mut writes = vec![std::env::temp_dir()];
        match self.question.opening {
            // A reader marks its place in the index of a log.
            Opening::InPlace => writes.push(own("-shm")),
            Opening::Immutable => {}
            Opening::Copy | Opening::Change => writes.push(PathBuf::from(".")),
        }
        let file_bytes =
            if self.guard.scope() == Scope::Changing { MAX_CHANGED_FILE } else { 2 * MAX_TEMP_BYTES };
        let processor_time = self.question.time_limit;
        WorkerLimits { reads, writes, memory_bytes: ADDRESS_SPACE, file_bytes, processor_time }.apply()?;
        let guard = self.guard.clone();
        self.link.on_hang_up(move || guard.cancel())
    }

    fn open(&self) -> rusqlite::Result<Connection> {
        if self.question.opening == Opening::InPlace {
            self.guard.within(READER_PATIENCE, || self.connect())
        } else {
            self.connect()
        }
    }

    fn connect(&self) -> rusqlite::Result<Connection> {
        // Not a bare name: SQLite would take `:memory:` and `file:` for something else.
        let mut path = Path::new(".").join(&self.question.name);
        let mut flags = OpenFlags::SQLITE_OPEN_NO_MUTEX | OpenFlags::SQLITE_OPEN_NOFOLLOW;
        match self.question.opening {
            Opening::InPlace => flags |= OpenFlags::SQLITE_OPEN_READ_ONLY,
            Opening::Immutable => {
                flags |= OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
                path = PathBuf::from(immutable_uri(&path));
            }
            Opening::Copy | Opening::Change => flags |= OpenFlags::SQLITE_OPEN_READ_WRITE,
        }
        let connection = Connection::open_with_flags(path, flags)?;
        self.check_file_id()?;
        connection.execute_batch(MEMORY)?;
        self.guard.install(&connection)?;
        // Opening reads nothing yet; this does, so that a file that cannot be read shows now.
        self.guard
            .retry_locked(|| connection.query_row("SELECT count(*) FROM sqlite_schema", [], |_| Ok(())))?;
        if let Ok(meta) = fs::metadata(&self.question.name)
            && self.guard.scope() == Scope::Changing
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
        Err(rusqlite::Error::SqliteFailure(code, Some("its folder was exchanged".to_owned())))
    }

    /// Accepts it: this system does not list open files.
    #[cfg(not(target_os = "linux"))]
    #[expect(clippy::unnecessary_wraps, reason = "as where it is checked")]
    fn check_file_id(&self) -> rusqlite::Result<()> {
        Ok(())
    }

    fn describe(&self, connection: &Connection, part: &SchemaPart) -> Result<Answer, ToolError> {
        let patience = self.question.time_limit / 2;
        let overview = Overview::read(connection, &self.guard, patience, part, self.question.longest_secret);
        overview.map(Answer::Described).map_err(|error| self.statement_error(connection, "", &error))
    }

    /// Runs the statement in a transaction, which is rolled back unless everything went well.
    fn change(&self, connection: &Connection, statement: &Statement) -> Result<Answer, ToolError> {
        let failed =
            |error: rusqlite::Error| rolled_back(&self.statement_error(connection, &statement.sql, &error));
        let transaction = ChangeTransaction::begin(connection, &self.guard).map_err(failed)?;
        let ran = self.run(connection, statement).map_err(|error| rolled_back(&error))?;
        if self.guard.should_stop() {
            return Err(failed(interrupted()));
        }
        let done = if ran.only_reads {
            "[the statement only reads, so nothing was changed; mode=ro does not keep other programs waiting]"
                .to_owned()
        } else {
            transaction.describe(StatementKind::from_sql(&statement.sql), &self.question.shown)
        };
        transaction.commit(self.link).map_err(|error| {
            commit_failed(&error, &self.statement_error(connection, &statement.sql, &error))
        })?;
        Ok(ran.answer(Some(done)))
    }

    /// Runs the statement and reads its rows.
    fn run(&self, connection: &Connection, statement: &Statement) -> Result<RanStatement, ToolError> {
        let failed = |error: rusqlite::Error| self.statement_error(connection, &statement.sql, &error);
        let mut prepared = self.guard.retry_locked(|| connection.prepare(&statement.sql)).map_err(failed)?;
        let only_reads = prepared.readonly() || prepared.is_explain() != 0;
        let is_question = only_reads && prepared.column_count() > 0;
        let verb = if is_question { StatementVerb::Other } else { self.check_change(statement, only_reads)? };
        parameters::bind(&mut prepared, statement.params.as_ref())?;
        let mut columns: Vec<String> = prepared.column_names().into_iter().map(str::to_owned).collect();
        let read = || {
            let reader = CellReader { longest_secret: self.question.longest_secret, ..CellReader::default() };
            RowPage::read(&mut prepared, &statement.page, &self.guard, reader)
        };
        let page = self.guard.retry_locked(read).map_err(failed)?;
        // Some ALTERs check the rows by a query of SQLite's own, whose columns are not the agent's.
        if !only_reads && page.rows.is_empty() && verb == StatementVerb::Other {
            columns.clear();
        }
        Ok(RanStatement { columns, page, only_reads })
    }

    /// Refuses a statement without rows that is not to be run.
    fn check_change(&self, statement: &Statement, only_reads: bool) -> Result<StatementVerb, ToolError> {
        let kind = StatementKind::from_sql(&statement.sql);
        // SQLite calls VACUUM INTO a reader.
        if only_reads && kind.verb != StatementVerb::Vacuum {
            let text = "The query holds no statement that gives rows, such as SELECT.";
            return Err(ToolError::invalid_args(text));
        }
        if self.guard.scope() == Scope::Reading {
            return Err(refused(Scope::Reading, None));
        }
        check_reach(kind, statement.confirm)?;
        Ok(kind.verb)
    }

    fn statement_error(&self, connection: &Connection, sql: &str, error: &rusqlite::Error) -> ToolError {
        statement_error(connection, &self.guard, &self.question.shown, sql, error)
    }
}

struct RanStatement {
    columns: Vec<String>,
    page: RowPage,
    only_reads: bool,
}

impl RanStatement {
    fn answer(self, note: Option<String>) -> Answer {
        Answer::Ran { columns: self.columns, page: self.page, note }
    }
}

/// `file:` with every byte that means something in a URI written as `%xx`.
fn immutable_uri(path: &Path) -> String {
    let mut uri = String::from("file:");
    for byte in path.as_os_str().as_encoded_bytes() {
        let byte = if cfg!(windows) && *byte == b'\\' { b'/' } else { *byte };
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
