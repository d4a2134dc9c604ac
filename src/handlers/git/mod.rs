//! Git: changes of a repository, its history, and commits.

mod add;
mod blame;
mod blob;
mod captured_output;
mod clone_repository;
mod commit;
mod commit_details;
mod commit_hooks;
mod commit_list;
mod commit_order;
mod commit_recovery;
mod commit_report;
mod create_commit;
mod diff;
mod diff_output;
mod diff_stat;
mod disable_repo_programs;
mod display_text;
mod get_diff;
mod get_git_status;
mod git_add_commit;
mod git_binary;
mod git_command;
mod git_diff;
mod git_log;
mod git_process;
mod git_status;
mod log;
mod object_paths;
mod patch_capture;
mod path_attributes;
mod pending_operation;
mod porcelain;
mod repo_locks;
mod repository;
mod repository_place;
mod requested_path;
mod resolve_revision;
mod safe_settings;
mod secret_scan;
mod show;
mod staging;
mod staging_candidate;
mod status;
mod submodule_changes;
mod tree_entry;

pub use clone_repository::clone_repository;
pub use commit_hooks::COMMIT_HOOKS;
pub use commit_recovery::{has_git_intent, resolve_git_intents};
pub use repo_locks::RepoLocks;

use std::fmt;
use std::path::PathBuf;

use punie_host::Workspace;
use punie_host::local::confinement::Confinement;
use punie_host::local::hook_environment::HookWrappers;
use punie_text::output::OutputStore;
use punie_text::redact::Redactor;
use punie_tool::{ToolDeps, ToolEntry, ToolError, ToolSet};

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
    /// Masks secrets in stored outputs.
    pub redactor: Redactor,
    /// Locks that let one call at a time change a repository.
    pub repo_locks: RepoLocks,
    /// Gives the hooks of commits the environment of commands. Without them, hooks have that of git.
    pub hook_wrappers: Option<HookWrappers>,
    /// The sandbox for git and its child processes.
    pub confinement: Confinement,
}

impl GitDeps {
    /// Returns the workspace with the repositories outside of it that git uses for working trees in it.
    fn with_repositories(&self) -> Workspace {
        self.workspace
            .with_folders(&self.confinement.repositories())
    }
}

impl ToolDeps for GitDeps {
    fn narrowed_to(&self, folders: &[PathBuf]) -> Result<Self, ToolError> {
        Ok(Self {
            workspace: self.workspace.narrowed_to(folders)?,
            confinement: self.confinement.narrowed_to(folders),
            ..self.clone()
        })
    }
}

impl fmt::Debug for GitDeps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GitDeps")
            .field("workspace", &self.workspace)
            .finish_non_exhaustive()
    }
}

/// Returns the git tools.
pub fn tools(deps: GitDeps) -> Vec<ToolEntry> {
    ToolSet::new("git", deps)
        .with_tool::<status::GitStatus>()
        .with_tool::<diff::GitDiff>()
        .with_tool::<log::GitLog>()
        .with_tool::<show::GitShow>()
        .with_tool::<blame::GitBlame>()
        .with_tool::<add::GitAdd>()
        .with_tool::<commit::GitCommit>()
        .with_tool::<git_status::PlainStatus>()
        .with_tool::<git_diff::PlainDiff>()
        .with_tool::<get_git_status::GetGitStatus>()
        .with_tool::<get_diff::GetDiff>()
        .with_tool::<git_log::PlainLog>()
        .with_tool::<git_add_commit::GitAddCommit>()
        .into_entries()
}
