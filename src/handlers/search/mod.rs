//! Search: files by name (Glob) and by content (Grep), in this process, without an external program. Not here:
//! reading files.

mod coverage;
mod file_encoding;
mod file_finder;
mod file_glob;
#[cfg(target_os = "linux")]
mod folder;
#[cfg(not(target_os = "linux"))]
#[path = "folder_by_path.rs"]
mod folder;
mod glob;
mod grep;
mod halt;
mod hits;
mod large_file;
mod line_pattern;
mod listing;
mod page;
mod queue;
mod report;
mod rules;
mod scope;
mod sweep;
mod walk;

use std::path::PathBuf;

use crate::acp::Workspace;
use crate::tool::{Entry, ToolSet};

/// The dependencies of the search tools.
#[derive(Debug, Clone)]
pub struct SearchDeps {
    /// The folders that may be searched.
    pub workspace: Workspace,
    /// The user's own git ignore file (`core.excludesFile`), applied as git does. It may lie outside the workspace,
    /// because only its patterns are read.
    pub user_ignore: Option<PathBuf>,
}

/// Returns the search tools.
pub fn tools(deps: SearchDeps) -> Vec<Entry> {
    ToolSet::new("search", deps).with::<glob::Glob>().with::<grep::Grep>().into_entries()
}
