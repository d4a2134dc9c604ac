//! The tools, one folder a domain, one file a tool. This file is the only list of domains.

pub mod file;
pub mod git;
pub mod search;
pub mod shell;
pub mod sqlite;
pub mod state;
pub mod terminal;

use std::ffi::OsStr;
use std::io;

use crate::tool::{DuplicateName, Registry};

/// What each domain needs.
pub struct Deps {
    /// Files.
    pub file: file::FileDeps,
    /// Searching.
    pub search: search::SearchDeps,
    /// Commands and the shells that stay.
    pub shell: shell::ShellDeps,
    /// Commands as ACP's terminals know them.
    pub terminal: terminal::TerminalDeps,
    /// Repositories.
    pub git: git::GitDeps,
    /// Kept outputs and tasks.
    pub state: state::StateDeps,
    /// Databases.
    pub sqlite: sqlite::SqliteDeps,
}

/// Every tool of this device.
///
/// # Errors
/// [`DuplicateName`], which is a fault of this program.
pub fn registry(deps: Deps) -> Result<Registry, DuplicateName> {
    Registry::new([
        file::tools(deps.file),
        search::tools(deps.search),
        shell::tools(deps.shell),
        terminal::tools(deps.terminal),
        git::tools(deps.git),
        state::tools(deps.state),
        sqlite::tools(deps.sqlite),
    ])
}

/// Does one job as a worker process.
///
/// # Errors
/// An unknown job, or a runner that is gone.
pub fn run_worker(job: &OsStr) -> io::Result<()> {
    match job.to_str() {
        Some(sqlite::JOB) => sqlite::run_worker(),
        Some(file::PDF_JOB) => file::run_pdf_worker(),
        _ => Err(io::Error::from(io::ErrorKind::InvalidInput)),
    }
}
