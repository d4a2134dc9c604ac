//! The record that must survive a crash: which requests were accepted, started, finished and delivered, in one SQLite
//! file. A request is accepted before anything is done about it, started before its effect, finished before its result
//! is posted. Not here: who posts (runner::delivery) and what is posted (request).

#![expect(
    clippy::disallowed_methods,
    reason = "this room owns the journal's file and those beside it, and makes their folder durable"
)]

mod accept;
mod backends;
mod backlog;
mod backup;
mod entry;
mod forgetting;
mod history;
mod incidents;
mod integrity;
mod intents;
mod migrate;
mod queue;
mod read;
mod recover;
mod room;
mod rules;
mod shells;
mod steps;
mod swap;
mod task_names;
#[cfg(test)]
mod tests;
mod transitions;
mod writer;

pub use accept::{Accepted, Admission, Conflict, InFlight, Offer, Refusal};
pub use backends::{BackendIdentity, WaitingBackend};
pub use backlog::{Room, Waiting};
pub use entry::{Origin, RecordedReply, State, Unfinished};
pub use forgetting::{BATCH, SignedUntil};
pub use history::{Incident, Life, Pending, Question, Whole};
pub use read::{ListedTask, LiveCounts, Reader, RequestLife};
pub use recover::DamageReport;
pub use room::{RESERVE, has_room_at};
pub use rules::{Comparison, Verdict};
pub use shells::{ShellExit, ShellRow, ShellState, ShellTrace};
pub use transitions::{Close, Fate, Started};

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use crate::ids::RequestId;
use integrity::Fault;
use writer::Writer;

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
    #[error("the journal {path} was written by a newer version of punie-runner; it is left as it is")]
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
    /// SQLite refused: a full disk, a broken file.
    #[error("the journal could not be written: {0}")]
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

/// The journal of one home. Cheap to clone; all clones share one writer.
#[derive(Debug, Clone)]
pub struct Journal {
    writer: Writer,
    disk: room::Disk,
    path: std::path::PathBuf,
    current: backends::Current,
    closed: Arc<Closed>,
}

/// The numbers of requests that this process closed.
#[derive(Debug, Default)]
struct Closed {
    delivered: AtomicU64,
    undeliverable: AtomicU64,
}

impl Journal {
    /// Opens the file for the backend that the last process worked for; else as [`Journal::open_for`].
    ///
    /// # Errors
    /// As [`Journal::open_for`].
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        Self::open_with(path, |connection| backends::last_used(connection))
    }

    /// Opens the file for work for this backend, making it, mending it and bringing it up to date where needed, and
    /// counts this run of the runner.
    ///
    /// # Errors
    /// [`JournalError::Open`], [`JournalError::Newer`], [`JournalError::Migrate`], [`JournalError::File`].
    pub fn open_for(path: &Path, backend: &BackendIdentity) -> Result<Self, JournalError> {
        Self::open_with(path, |connection| backends::select(connection, backend))
    }

    fn open_with(
        path: &Path,
        select: impl Fn(&mut rusqlite::Connection) -> rusqlite::Result<i64>,
    ) -> Result<Self, JournalError> {
        let mut connection = migrate::open(path, false)?;
        let disk = room::Disk::below(path);
        let mut prepare = || {
            recover::put_in_doubt(&connection)?;
            count_life(&connection)?;
            select(&mut connection)
        };
        let number = match prepare() {
            Err(error) if Fault::of(&error) == Fault::Full => {
                disk.release();
                prepare()?
            }
            number => number?,
        };
        let writer = Writer::start(connection, path, disk.clone());
        let current = backends::Current::new(number);
        Ok(Self { writer, disk, path: path.to_owned(), current, closed: Arc::default() })
    }

    /// Brings everything into the one file, when nothing more is to be written: the next start finds nothing to
    /// doubt.
    pub async fn rest(&self) {
        self.writer.rest().await;
    }

    /// A read-only view of the same file, as far as it is about the backend that this process works for.
    ///
    /// # Errors
    /// [`JournalError::Open`].
    pub fn reader(&self) -> Result<Reader, JournalError> {
        let mut reader = Reader::open(&self.path)?;
        reader.backend = Some(self.current.number());
        Ok(reader)
    }
}

fn count_life(connection: &rusqlite::Connection) -> rusqlite::Result<()> {
    let sql = "insert into kv (key, value) values ('epoch', '1') \
               on conflict (key) do update set value = cast(value as integer) + 1";
    connection.execute(sql, []).map(drop)
}
