//! Git: what changed in a repository. Not here: changing one.

mod command;
mod diff;
mod repository;
mod status;

use std::path::PathBuf;

use crate::acp::Workspace;
use crate::tool::{Entry, ToolSet};

/// What the git tools need.
#[derive(Debug, Clone)]
pub struct GitDeps {
    /// The folders in which repositories may be looked at.
    pub workspace: Workspace,
    /// The PATH on which git is looked for.
    pub search_path: String,
    /// The user's home, where git finds the user's own settings.
    pub home: PathBuf,
}

/// The git tools.
pub fn tools(deps: GitDeps) -> Vec<Entry> {
    ToolSet::new("git", deps).with::<status::GitStatus>().with::<diff::GitDiff>().into_entries()
}
