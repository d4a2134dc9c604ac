//! Sets self-modification up, where the owner has set its root.

use std::sync::Arc;

use super::settings::open_packages;
use crate::cli::exit::{self, Exit};
use crate::config::Config;
use punie_handlers::self_mod::SelfModArea;
use punie_home::Home;
use punie_host::Workspace;

/// Opens the state of self-modification, if the owner has set its root. A runner also finishes a change of packages in
/// which an earlier process was killed.
pub(super) fn open_self_mod(
    config: &Config,
    home: &Home,
    workspace: &Workspace,
    is_runner: bool,
) -> anyhow::Result<Option<Arc<SelfModArea>>> {
    if is_runner && let Err(error) = open_packages(config, home).recover_changes() {
        tracing::warn!(%error, "packages cannot be installed or removed");
    }
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
