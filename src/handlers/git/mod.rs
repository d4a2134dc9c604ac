//! Git: changes of a repository, its history, and commits. Not here: operations that contact another machine.

mod add;
mod aftermath;
mod blame;
mod blob;
mod command;
mod commit;
mod committing;
mod comparison;
mod diff;
mod disarm;
mod get_diff;
mod get_git_status;
mod git_add_commit;
mod git_diff;
mod git_log;
mod git_status;
mod history;
mod hooks;
mod log;
mod names;
mod objects;
mod patch;
mod porcelain;
mod process;
mod program;
mod progress;
mod repository;
mod revision;
mod secrets;
mod settings;
mod show;
mod staging;
mod stat;
mod status;
mod turns;
mod whole;

pub use aftermath::{concerns, settle};
pub use turns::Turns;

use std::fmt;
use std::path::PathBuf;

use crate::acp::Workspace;
use crate::acp::local::confinement::Confinement;
use crate::output::{FilterFactory, OutputStore};
use crate::tool::{Entry, ToolSet};

/// The dependencies of the git tools.
#[derive(Clone)]
pub struct GitDeps {
    /// The folders in which the tools may read repositories.
    pub workspace: Workspace,
    /// The PATH on which the runner looks for git.
    pub search_path: String,
    /// The user's home folder, with the user's own git settings.
    pub home: PathBuf,
    /// Stores outputs that are too long for an answer.
    pub outputs: OutputStore,
    /// Creates the filters that mask secrets in stored outputs.
    pub filters: FilterFactory,
    /// Locks that let one call at a time change a repository.
    pub turns: Turns,
    /// The sandbox for git and its child processes.
    pub confinement: Confinement,
}

impl fmt::Debug for GitDeps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GitDeps").field("workspace", &self.workspace).finish_non_exhaustive()
    }
}

/// Returns the git tools.
pub fn tools(deps: GitDeps) -> Vec<Entry> {
    ToolSet::new("git", deps)
        .with::<status::GitStatus>()
        .with::<diff::GitDiff>()
        .with::<log::GitLog>()
        .with::<show::GitShow>()
        .with::<blame::GitBlame>()
        .with::<add::GitAdd>()
        .with::<commit::GitCommit>()
        .with::<git_status::PlainStatus>()
        .with::<git_diff::PlainDiff>()
        .with::<get_git_status::GetGitStatus>()
        .with::<get_diff::GetDiff>()
        .with::<git_log::PlainLog>()
        .with::<git_add_commit::GitAddCommit>()
        .into_entries()
}
