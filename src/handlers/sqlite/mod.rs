//! SQLite: questions to a database file, and changes of it that are kept whole or not at all. Not here: the runner's
//! own databases (journal).

mod change;
mod databases;
mod guard;
mod interface;
mod layout;
mod leave;
mod linear;
mod overview;
mod page;
mod parameters;
mod parked;
mod query;
mod shape;
mod snapshot;
mod spill;
mod trouble;
mod value;
mod vocabulary;
mod weight;

use std::path::PathBuf;

use crate::acp::Workspace;
use crate::redact::Redactor;
use crate::tool::{Entry, ToolSet};

/// What the SQLite tool needs.
#[derive(Debug, Clone)]
pub struct SqliteDeps {
    /// The folders in which databases may be opened.
    pub workspace: Workspace,
    /// A private folder of the runner's own, for the rare snapshot of a database. It need not exist.
    pub scratch: PathBuf,
    /// The runner's own folder: nothing in it is opened, wherever the workspace is.
    pub home: PathBuf,
    /// What masks the owner's secrets, before a long text is cut.
    pub redactor: Redactor,
}

/// What its tools share.
#[derive(Debug, Clone)]
struct Room {
    deps: SqliteDeps,
    parked: parked::Parked,
    left: leave::Left,
}

/// The SQLite tools.
pub fn tools(deps: SqliteDeps) -> Vec<Entry> {
    ToolSet::new("sqlite", Room { deps, parked: parked::Parked::default(), left: leave::Left::default() })
        .with::<query::SqliteQuery>()
        .into_entries()
}
