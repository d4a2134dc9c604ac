//! SQLite: queries of a database file, and changes of it that are kept whole or not at all. The runner checks the file and
//! words the answer; SQLite itself runs in a worker process. Not here: the runner's own databases (journal).

mod allowlist;
mod database_file;
mod error_messages;
mod guard;
mod layout;
mod overview;
mod page;
mod parameters;
mod query;
mod question;
mod session;
mod snapshot;
mod statement_kind;
mod transaction;
mod value;

use std::path::PathBuf;

use crate::acp::Workspace;
use crate::redact::Redactor;
use crate::tool::{Entry, ToolSet};
use crate::worker::WorkerProgram;

pub use question::JOB;
pub use session::run_worker;

/// The things that the SQLite tool needs.
#[derive(Debug, Clone)]
pub struct SqliteDeps {
    /// The folders in which databases may be opened.
    pub workspace: Workspace,
    /// A private folder of the runner's own, for the rare snapshot of a database. It need not exist.
    pub scratch: PathBuf,
    /// The runner's own folder: nothing in it is opened, wherever the workspace is.
    pub home: PathBuf,
    /// Masks the owner's secrets, before a long text is cut.
    pub redactor: Redactor,
    /// Starts the process that opens the database.
    pub worker: WorkerProgram,
}

/// The SQLite tools.
pub fn tools(deps: SqliteDeps) -> Vec<Entry> {
    ToolSet::new("sqlite", deps).with::<query::SqliteQuery>().into_entries()
}
