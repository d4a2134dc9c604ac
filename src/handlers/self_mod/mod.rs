//! Self-modification: an agent's changes below one folder are staged, applied together and reverted together.

mod apply;
mod current_file;
mod file_changes;
mod package;
mod pending_changes;
mod revert;
mod self_mod_area;
mod staged_client;
mod staged_listing;
mod staged_write;
mod start;
mod status;

use std::path::PathBuf;
use std::sync::Arc;

pub use self_mod_area::{SelfModArea, StagedViews};
pub use staged_client::StagedFileClient;

use punie_tool::{ErrorCode, ToolDeps, ToolEntry, ToolError, ToolSet};

/// The dependencies of the self-modification tools.
#[derive(Debug, Clone)]
pub(super) struct SelfModDeps {
    /// The root and the state of its features.
    pub(super) area: Arc<SelfModArea>,
}

impl ToolDeps for SelfModDeps {
    fn narrowed_to(&self, folders: &[PathBuf]) -> Result<Self, ToolError> {
        let root = self.area.root_path();
        if folders.iter().any(|folder| root.starts_with(folder)) {
            return Ok(self.clone());
        }
        let text = format!(
            "{} lies outside of this session's folders, so it cannot be changed from here.",
            root.display()
        );
        Err(ToolError::new(ErrorCode::OutsideWorkspace, text))
    }
}

/// Returns the self-modification tools.
pub fn tools(area: Arc<SelfModArea>) -> Vec<ToolEntry> {
    ToolSet::new("self_mod", SelfModDeps { area })
        .with_tool::<start::SelfModStart>()
        .with_tool::<apply::SelfModApply>()
        .with_tool::<revert::SelfModRevert>()
        .with_tool::<status::SelfModStatus>()
        .with_tool::<package::SelfModPackage>()
        .into_entries()
}
