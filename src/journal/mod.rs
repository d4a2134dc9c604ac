//! What must survive a crash: which requests were accepted, started, finished and delivered, in one SQLite file.
//! A request is accepted before anything is done about it, started before its effect, finished before its result
//! is posted. Not here: who posts (runner::delivery) and what is posted (request).

mod accept;
mod entry;
mod intents;
mod migrate;
#[cfg(test)]
mod model;
mod read;
mod rules;
mod shells;
mod steps;
mod transitions;
mod writer;

pub use accept::{Accepted, Admission, Conflict, Offer, Refusal};
pub use entry::{Origin, RecordedReply, State, Unfinished};
pub use read::{ListedTask, LiveCounts, Reader, RequestLife};
pub use rules::{Comparison, Verdict};
pub use shells::{ShellExit, ShellRow, ShellState, ShellTrace};
pub use transitions::{Close, Fate, Started};

use std::path::Path;

use crate::ids::RequestId;
use writer::Writer;

/// Why the journal did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// The file cannot be opened or written.
    #[error("the journal {path} cannot be opened: {cause}")]
    Open {
        /// Its path.
        path: String,
        /// What SQLite said.
        cause: rusqlite::Error,
    },
    /// The file is of a newer version of this program.
    #[error("the journal {path} was written by a newer version of punie-runner; it is left as it is")]
    Newer {
        /// Its path.
        path: String,
    },
    /// A migration failed; the file is as it was.
    #[error("the journal {path} cannot be brought up to date: {cause}")]
    Migrate {
        /// Its path.
        path: String,
        /// What failed.
        cause: String,
    },
    /// SQLite refused: a full disk, a broken file.
    #[error("the journal could not be written: {0}")]
    Sqlite(#[from] rusqlite::Error),
    /// The transaction that this was part of did not commit.
    #[error("the journal could not commit")]
    NotCommitted,
    /// The caller took the request back; it is not begun.
    #[error("request {id} was taken back")]
    TakenBack {
        /// The request.
        id: RequestId,
    },
    /// Somebody else moved the request on.
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
    path: std::path::PathBuf,
}

impl Journal {
    /// Opens the file, making it and bringing it up to date where needed, and counts this life of the runner.
    ///
    /// # Errors
    /// [`JournalError::Open`], [`JournalError::Newer`], [`JournalError::Migrate`].
    pub fn open(path: &Path) -> Result<Self, JournalError> {
        let connection = migrate::open(path)?;
        connection.execute(
            "insert into kv (key, value) values ('epoch', '1') \
             on conflict (key) do update set value = cast(value as integer) + 1",
            [],
        )?;
        Ok(Self { writer: Writer::start(connection), path: path.to_owned() })
    }

    /// A read-only view of the same file.
    ///
    /// # Errors
    /// [`JournalError::Open`].
    pub fn reader(&self) -> Result<Reader, JournalError> {
        Reader::open(&self.path)
    }
}
