//! The question that SqliteQuery asks its worker, and the answer, as they travel between the two processes. Not here:
//! asking (query), and answering (session).

use std::ffi::OsString;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::overview::{Overview, SchemaPart};
use super::page::{PageRequest, RowPage};
use super::parameters::Parameters;
use crate::tool::{ErrorCode, ToolError};

/// The worker's job, by its name on the command line.
pub const JOB: &str = "sqlite";

/// One statement on one database, in the worker's working directory.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Question {
    /// The database's path for error messages.
    pub(super) shown: String,
    /// The database's name in the working directory.
    pub(super) name: OsString,
    /// The file that was checked, as device and inode.
    pub(super) file_id: Option<(u64, u64)>,
    pub(super) opening: Opening,
    pub(super) time_limit: Duration,
    pub(super) task: SqlTask,
    /// Bytes of the longest secret: a text that is cut carries as many characters more.
    pub(super) longest_secret: usize,
}

/// The way in which the database is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Opening {
    /// To read it where it is, without waiting long for a lock.
    InPlace,
    /// To read it without locks: no program has it open for writing.
    Immutable,
    /// To read a private copy, in which unfinished changes are undone first.
    Copy,
    /// To change it.
    Change,
}

/// The work on an opened database.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum SqlTask {
    /// Nothing: opening it shows its state.
    Open,
    Describe(SchemaPart),
    Run(Statement),
}

/// A statement of the agent's.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Statement {
    pub(super) sql: String,
    pub(super) params: Option<Parameters>,
    pub(super) confirm: bool,
    pub(super) page: PageRequest,
}

/// The worker's answer.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Answer {
    Opened,
    Described(Overview),
    Ran {
        columns: Vec<String>,
        page: RowPage,
        /// The outcome of a change, in one line.
        note: Option<String>,
    },
    /// It cannot be read where it is.
    NotInPlace {
        state: FileState,
        refusal: Refusal,
    },
    Refused(Refusal),
}

/// The state of a database that was not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum FileState {
    /// Another program keeps it locked.
    Locked,
    /// A program was killed within a transaction, which is still to be undone.
    Unfinished,
    /// Anything else.
    Unreadable,
}

/// A [`ToolError`] that travels.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Refusal {
    code: ErrorCode,
    text: String,
}

impl From<ToolError> for Refusal {
    fn from(error: ToolError) -> Self {
        Self { code: error.code(), text: error.text().to_owned() }
    }
}

impl From<Refusal> for ToolError {
    fn from(refusal: Refusal) -> Self {
        Self::new(refusal.code, refusal.text)
    }
}
