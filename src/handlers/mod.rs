//! The tools: one folder per domain, one file per tool. The only list of domains.
//!
//! Read first: [`build_registry`], which makes all tools; [`HandlerDeps`], what they need of the program; a small tool as an
//! example, such as `search/glob.rs`: its arguments, its access, its run.
//!
//! The program uses this crate. A domain uses no other one. It uses `punie-core`, `punie-home`, `punie-host`,
//! `punie-signals`, `punie-text` and `punie-tool`, and knows no engine.

#![cfg_attr(
    not(feature = "documents"),
    allow(dead_code, reason = "some helpers serve the left-out part alone")
)]

pub mod file;
pub mod git;
pub mod plugin;
pub mod search;
#[cfg(feature = "packages")]
pub mod self_mod;
pub mod shell;
pub mod sqlite;
pub mod state;
#[cfg(feature = "packages")]
pub mod store;
pub mod terminal;
pub mod user;

use std::ffi::OsStr;
use std::io;

use punie_tool::{DuplicateToolName, ToolRegistry};

/// The dependencies of all tools, by domain.
pub struct HandlerDeps {
    /// For the file tools.
    pub file: file::FileDeps,
    /// For the search tools.
    pub search: search::SearchDeps,
    /// For commands and background shells.
    pub shell: shell::ShellDeps,
    /// For the terminal tools, which follow ACP's terminal methods.
    pub terminal: terminal::TerminalDeps,
    /// For the git tools.
    pub git: git::GitDeps,
    /// For the tools that read stored outputs and tasks.
    pub state: state::StateDeps,
    /// For the SQLite tools.
    pub sqlite: sqlite::SqliteDeps,
    /// For questions to a person.
    pub user: user::UserDeps,
    #[cfg(feature = "packages")]
    /// For packages, where the owner switched them on.
    pub store: Option<store::StoreDeps>,
    #[cfg(feature = "packages")]
    /// For self-modification, where the owner has set its root.
    pub self_mod: Option<std::sync::Arc<self_mod::SelfModArea>>,
}

/// Builds the registry of all tools.
///
/// # Errors
/// [`DuplicateToolName`], which is a programming error.
pub fn build_registry(deps: HandlerDeps) -> Result<ToolRegistry, DuplicateToolName> {
    ToolRegistry::new([
        file::tools(deps.file),
        search::tools(deps.search),
        shell::tools(deps.shell),
        terminal::tools(deps.terminal),
        git::tools(deps.git),
        state::tools(deps.state),
        sqlite::tools(deps.sqlite),
        user::tools(deps.user),
        #[cfg(feature = "packages")]
        deps.store.map(store::tools).unwrap_or_default(),
        #[cfg(feature = "packages")]
        deps.self_mod.map(self_mod::tools).unwrap_or_default(),
    ])
}

/// Does one job as a worker process.
///
/// # Errors
/// An unknown job, or a runner that is gone.
pub fn run_worker(job: &OsStr) -> io::Result<()> {
    match job.to_str() {
        Some(sqlite::JOB) => sqlite::run_worker(),
        #[cfg(feature = "documents")]
        Some(file::DOCUMENT_JOB) => file::serve_document_questions(),
        _ => Err(io::Error::from(io::ErrorKind::InvalidInput)),
    }
}
