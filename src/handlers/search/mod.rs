//! Search: finding files by name (Glob) and by content (Grep), in this process, without an external program.
//! Not here: reading what was found (file).

mod coverage;
mod file_glob;
mod glob;
mod grep;
mod halt;
mod hits;
mod line_pattern;
mod page;
mod report;
mod scope;
mod sweep;

use crate::acp::Workspace;
use crate::tool::{Entry, ToolSet};

/// What the search tools need.
#[derive(Debug, Clone)]
pub struct SearchDeps {
    /// The folders that may be searched.
    pub workspace: Workspace,
}

/// The search tools.
pub fn tools(deps: SearchDeps) -> Vec<Entry> {
    ToolSet::new("search", deps).with::<glob::Glob>().with::<grep::Grep>().into_entries()
}
