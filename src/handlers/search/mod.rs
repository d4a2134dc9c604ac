//! Search: files by name (Glob) and by content (Grep), in this process, without an external program.

mod content_search;
mod coverage;
mod file_encoding;
mod file_finder;
mod file_glob;
mod file_hits;
mod file_search;
#[cfg(target_os = "linux")]
mod folder;
#[cfg(not(target_os = "linux"))]
#[path = "folder_by_path.rs"]
mod folder;
mod folder_entries;
mod folder_walk;
mod glob;
mod grep;
mod grep_report;
mod ignore_rules;
mod large_file;
mod line_pattern;
mod result_text;
mod search_plan;
mod search_scope;
mod search_stop;
mod smallest_items;
mod walk_entry;
mod walk_queue;

use std::path::PathBuf;
use std::sync::Arc;

use punie_host::{FileView, FileViews, Workspace};
use punie_tool::{ToolContext, ToolDeps, ToolEntry, ToolError, ToolSet};

/// The dependencies of the search tools.
#[derive(Debug, Clone)]
pub struct SearchDeps {
    /// The folders that may be searched.
    pub workspace: Workspace,
    /// The user's own git ignore file (`core.excludesFile`), applied as git does. It may lie outside the workspace,
    /// because only its patterns are read.
    pub user_ignore: Option<PathBuf>,
    /// Decides which calls see other files than the real ones.
    pub views: Option<Arc<dyn FileViews>>,
}

impl ToolDeps for SearchDeps {
    fn narrowed_to(&self, folders: &[PathBuf]) -> Result<Self, ToolError> {
        Ok(Self {
            workspace: self.workspace.narrowed_to(folders)?,
            ..self.clone()
        })
    }
}

impl SearchDeps {
    async fn view_for_call(&self, cx: &ToolContext) -> Result<Option<Arc<FileView>>, ToolError> {
        match &self.views {
            Some(views) => views.view_for_call(cx).await,
            None => Ok(None),
        }
    }
}

/// Returns the search tools.
pub fn tools(deps: SearchDeps) -> Vec<ToolEntry> {
    ToolSet::new("search", deps)
        .with_tool::<glob::Glob>()
        .with_tool::<grep::Grep>()
        .into_entries()
}
