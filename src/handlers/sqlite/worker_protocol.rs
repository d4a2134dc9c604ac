//! The question that SqliteQuery asks its worker, and the answer, as they travel between the two processes.

use std::ffi::OsString;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::parameters::Parameters;
use super::row_page::{PageRequest, RowPage};
use super::schema_overview::{SchemaOverview, SchemaPart};
use punie_tool::{ErrorCode, ToolError};

/// The worker's job, by its name on the command line.
pub const JOB: &str = "sqlite";

/// One statement on one database, in the worker's working directory.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct WorkerQuestion {
    /// The database's path for error messages.
    pub(super) shown: String,
    /// The database's name in the working directory.
    pub(super) name: OsString,
    /// The file that was checked, as device and inode.
    pub(super) file_id: Option<(u64, u64)>,
    pub(super) opening: OpenMode,
    pub(super) time_limit: Duration,
    pub(super) task: SqlTask,
    /// Bytes of the longest secret: a text that is cut carries as many characters more.
    pub(super) longest_secret: usize,
}

/// The way in which the database is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum OpenMode {
    /// To read it where it is, without waiting long for a lock.
    InPlace,
    /// To read it without locks: no program has it open for writing.
    Immutable,
    /// To read a private copy, in which unfinished changes are undone first.
    Copy,
    Change,
}

/// The work on an opened database.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) enum SqlTask {
    /// Nothing: opening it shows its state.
    Open,
    Describe(SchemaPart),
    Run(AgentStatement),
}

/// A statement of the agent's.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct AgentStatement {
    pub(super) sql: String,
    pub(super) params: Option<Parameters>,
    pub(super) confirm: bool,
    pub(super) page: PageRequest,
}

/// The worker's answer.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum WorkerAnswer {
    Opened,
    Described(SchemaOverview),
    Ran {
        columns: Vec<String>,
        page: RowPage,
        /// The outcome of a change, in one line.
        note: Option<String>,
    },
    /// It cannot be read where it is.
    NotInPlace {
        state: UnopenedState,
        refusal: SerializedError,
    },
    Refused(SerializedError),
}

/// The state of a database that was not opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum UnopenedState {
    /// Another program keeps it locked.
    Locked,
    /// A program was killed within a transaction, which is still to be undone.
    Unfinished,
    /// Anything else.
    Unreadable,
}

/// A [`ToolError`] that travels.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct SerializedError {
    code: ErrorCode,
    text: String,
}

impl From<ToolError> for SerializedError {
    fn from(error: ToolError) -> Self {
        Self {
            code: error.stable_code(),
            text: error.model_text().to_owned(),
        }
    }
}

impl From<SerializedError> for ToolError {
    fn from(refusal: SerializedError) -> Self {
        Self::new(refusal.code, refusal.text)
    }
}
