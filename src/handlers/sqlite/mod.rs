//! SQLite: queries of a database file, and changes of it that are kept whole or not at all. The runner checks the file and
//! words the answer; SQLite itself runs in a worker process. Not here: the runner's own databases (journal).

mod allowlist;
mod cell_value;
mod database_file;
mod error_messages;
mod name_hints;
mod parameters;
mod query;
mod row_layout;
mod row_page;
mod schema_overview;
mod snapshot;
mod sqlite_call;
mod statement_guard;
mod statement_kind;
mod transaction;
mod worker_protocol;
mod worker_session;

use std::path::PathBuf;

use punie_host::Workspace;
use punie_host::worker::WorkerProgram;
use punie_text::redact::Redactor;
use punie_tool::{ToolDeps, ToolEntry, ToolError, ToolSet};

pub use worker_protocol::JOB;
pub use worker_session::run_worker;

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

impl ToolDeps for SqliteDeps {
    fn narrowed_to(&self, folders: &[PathBuf]) -> Result<Self, ToolError> {
        Ok(Self {
            workspace: self.workspace.narrowed_to(folders)?,
            ..self.clone()
        })
    }
}

/// The SQLite tools.
pub fn tools(deps: SqliteDeps) -> Vec<ToolEntry> {
    ToolSet::new("sqlite", deps)
        .with_tool::<query::SqliteQuery>()
        .into_entries()
}
