//! The record that must survive a crash: which requests were accepted, started, finished and delivered, in one SQLite
//! file. A request is accepted before anything is done about it, started before its effect, finished before its result
//! is posted.

mod accept_requests;
mod apply_transition;
mod backend_rows;
mod backlog;
mod backup;
mod child_rows;
mod corruption_recovery;
mod disk_reserve;
mod entry;
mod facts;
mod file_replace;
mod health_problem;
mod history;
mod incidents;
mod integrity;
mod intents;
mod job_queue;
mod journal_reader;
mod migrate;
mod open_journal;
mod reply_rows;
mod retention;
mod shell_rows;
mod statements;
mod task_rows;
#[cfg(test)]
mod tests;
mod transition_rules;
mod transitions;
mod write_job;
mod writer;
mod writer_thread;

pub use accept_requests::{
    AcceptedRequest, IdConflict, OfferOutcome, RepeatedRequest, RequestOffer, UnreadableRequest,
};
pub use backend_rows::{BackendIdentity, WaitingBackend};
pub use backlog::{BacklogLimit, WaitingRequests};
pub use corruption_recovery::DamageReport;
pub use disk_reserve::{DISK_RESERVE_BYTES, has_disk_space_at};
pub use entry::{RecordedReply, RequestOrigin, RequestState, UnfinishedRequest};
pub(crate) use facts::BACKEND_TIME;
pub use health_problem::HealthProblem;
pub use history::{
    FullHistory, HistoryEntry, HistoryQuery, InterruptedQuestion, PendingRequests, RequestIncident,
};
pub use incidents::{ALLOWED, ANSWERED, ASKED, DENIED};
pub use journal_reader::{JournalReader, OpenRequestCounts, RequestRecord};
pub use retention::{BATCH, SignatureExpiry};
pub use shell_rows::{JournalShellState, ShellExit, ShellProcessTrace, ShellRow};
pub use task_rows::ListedTask;
pub use transition_rules::{EffectComparison, RulesReply};
pub use transitions::{CloseReason, RecordedStart, RecoveredRequest};

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use integrity::DatabaseFault;
use punie_core::ids::RequestId;
use writer::JournalWriter;

/// The reason for which a journal operation failed.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file cannot be opened or written.
    #[error("the journal {path} cannot be opened: {cause}")]
    Open {
        /// Its path.
        path: String,
        /// The error from SQLite.
        cause: rusqlite::Error,
    },
    /// The file is of a newer version of this program.
    #[error(
        "the journal {path} was written by a newer version of punie-runner; it is left as it is"
    )]
    Newer {
        /// Its path.
        path: String,
    },
    /// The file is of an older version of this program, whose next runner brings it up to date.
    #[error(
        "the journal {path} was written by an older version of punie-runner; the next start of the runner brings it up to date"
    )]
    Older {
        /// Its path.
        path: String,
    },
    /// The file is damaged.
    #[error("the journal {path} is damaged: {cause}")]
    Corrupt {
        /// Its path.
        path: String,
        /// The damage that was found.
        cause: String,
    },
    /// A file beside it cannot be written, or its folder not be made durable.
    #[error("{path} cannot be written: {cause}")]
    File {
        /// The path.
        path: String,
        /// The error from the system.
        cause: std::io::Error,
    },
    /// A migration failed; the file is as it was.
    #[error("the journal {path} cannot be brought up to date: {cause}")]
    Migrate {
        /// Its path.
        path: String,
        /// The step that failed.
        cause: String,
    },
    /// SQLite refused: a full disk, a broken file, a lock of another process.
    #[error("{}", integrity::describe_refusal(.0))]
    Sqlite(#[from] rusqlite::Error),
    /// The transaction that this was part of did not commit.
    #[error("the journal could not commit")]
    NotCommitted,
    /// The disk was full. Its reserve is given up by now: once more may succeed.
    #[error("the disk is full, the journal could not be written")]
    Full,
    /// The file could not be kept, and nothing is written to it any more.
    #[error("the disk did not keep what was written to the journal, and no new file could be made")]
    Failed,
    /// The caller took the request back; it is not begun.
    #[error("request {id} was taken back")]
    TakenBack {
        /// The request.
        id: RequestId,
    },
    /// The request moved on meanwhile.
    #[error("request {id} is not {expected} any more")]
    Moved {
        /// The request.
        id: RequestId,
        /// The state it was thought to be in.
        expected: &'static str,
    },
}

impl JournalError {
    /// Returns a function that makes the error of a database that cannot be opened.
    fn cannot_open(path: &Path) -> impl Fn(rusqlite::Error) -> Self {
        move |cause| Self::Open {
            path: path.display().to_string(),
            cause,
        }
    }

    /// Returns a function that makes the error of a file that cannot be written.
    fn cannot_write(path: &Path) -> impl Fn(std::io::Error) -> Self {
        move |cause| Self::File {
            path: path.display().to_string(),
            cause,
        }
    }
}

/// The journal of one home. Cheap to clone; all clones share one writer.
#[derive(Debug, Clone)]
pub struct Journal {
    writer: JournalWriter,
    disk: disk_reserve::DiskReserve,
    path: std::path::PathBuf,
    current: backend_rows::CurrentBackend,
    closed: Arc<ClosedCounts>,
}

/// The numbers of requests that this process closed.
#[derive(Debug, Default)]
struct ClosedCounts {
    delivered: AtomicU64,
    undeliverable: AtomicU64,
}

impl Journal {
    /// Opens the file for the backend that the last process worked for; else as [`Journal::open_for_backend`].
    ///
    /// # Errors
    /// As [`Journal::open_for_backend`].
    pub fn open_for_last_backend(path: &Path) -> Result<Self, JournalError> {
        Self::open_with_backend_row(path, |connection| {
            backend_rows::last_used_backend(connection)
        })
    }

    /// Opens the file for work for this backend, making it, mending it and bringing it up to date where needed, and
    /// counts this run of the runner.
    ///
    /// # Errors
    /// [`JournalError::Open`], [`JournalError::Newer`], [`JournalError::Migrate`], [`JournalError::File`].
    pub fn open_for_backend(path: &Path, backend: &BackendIdentity) -> Result<Self, JournalError> {
        Self::open_with_backend_row(path, |connection| {
            backend_rows::select_backend(connection, backend)
        })
    }

    fn open_with_backend_row(
        path: &Path,
        select: impl Fn(&mut rusqlite::Connection) -> rusqlite::Result<i64>,
    ) -> Result<Self, JournalError> {
        let mut connection = open_journal::open_for_writing(path, false)?;
        let disk = disk_reserve::DiskReserve::for_journal(path);
        let mut prepare = || {
            corruption_recovery::mark_outcome_unknown(&connection)?;
            count_start(&connection)?;
            select(&mut connection)
        };
        let number = match prepare() {
            Err(error) if DatabaseFault::from_sqlite_error(&error) == DatabaseFault::Full => {
                disk.release();
                prepare()?
            }
            number => number?,
        };
        punie_core::lock_wait::end_opening(&connection)?;
        let writer = JournalWriter::start_thread(connection, path, disk.clone());
        let current = backend_rows::CurrentBackend::new(number);
        Ok(Self {
            writer,
            disk,
            path: path.to_owned(),
            current,
            closed: Arc::default(),
        })
    }

    /// Brings everything into the one file, when nothing more is to be written: the next start finds nothing to
    /// doubt.
    pub async fn checkpoint_wal(&self) {
        self.writer.checkpoint_log().await;
    }

    /// Reads on a blocking thread. A panic of `read` goes on here.
    ///
    /// # Errors
    /// [`JournalError::Open`], and the errors of `read`.
    pub async fn read_blocking<T: Send + 'static>(
        &self,
        read: impl FnOnce(&JournalReader) -> Result<T, JournalError> + Send + 'static,
    ) -> Result<T, JournalError> {
        let journal = self.clone();
        match tokio::task::spawn_blocking(move || read(&journal.open_reader()?)).await {
            Ok(read) => read,
            Err(failure) => match failure.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Err(JournalError::NotCommitted),
            },
        }
    }

    /// A read-only view of the same file, as far as it is about the backend that this process works for.
    ///
    /// # Errors
    /// [`JournalError::Open`].
    pub fn open_reader(&self) -> Result<JournalReader, JournalError> {
        let mut reader = JournalReader::open_read_only(&self.path)?;
        reader.backend = Some(self.current.row_id());
        Ok(reader)
    }
}

fn count_start(connection: &rusqlite::Connection) -> rusqlite::Result<()> {
    let sql = "insert into kv (key, value) values ('epoch', '1') \
               on conflict (key) do update set value = cast(value as integer) + 1";
    connection.execute(sql, []).map(drop)
}
