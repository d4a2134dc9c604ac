//! Sets self-modification up, where the owner has set its root.

use std::sync::Arc;

use crate::cli::exit::{self, Exit};
use crate::config::Config;
use punie_editor::EditorOverlay;
use punie_handlers::self_mod::{SelfModArea, StagedFileClient, StagedViews};
use punie_home::Home;
use punie_host::{FileClient, FileViews, Workspace};

/// Puts staged files before a client.
pub(super) fn put_staged_files_before(
    client: Arc<EditorOverlay>,
    area: Option<&Arc<SelfModArea>>,
) -> Arc<dyn FileClient> {
    match area {
        Some(area) => Arc::new(StagedFileClient::new(client, Arc::clone(area))),
        None => client,
    }
}

/// Returns the views of staged files for searches.
pub(super) fn staged_views(area: Option<&Arc<SelfModArea>>) -> Option<Arc<dyn FileViews>> {
    area.map(|area| Arc::new(StagedViews(Arc::clone(area))) as Arc<dyn FileViews>)
}

/// Opens the state of self-modification, if the owner has set its root.
pub(super) fn open_self_mod(
    config: &Config,
    home: &Home,
    workspace: &Workspace,
    is_runner: bool,
) -> anyhow::Result<Option<Arc<SelfModArea>>> {
    let Some(root) = &config.self_mod.root else {
        return Ok(None);
    };
    let area = SelfModArea::open(home, workspace, root, is_runner);
    area.map(Some).map_err(|cause| {
        exit::CommandError::with_exit(
            Exit::Config,
            format!("self_mod.root cannot be used: {}", cause.model_text()),
        )
    })
}
