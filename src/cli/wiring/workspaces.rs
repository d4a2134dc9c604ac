//! Opens the owner's workspaces, and the folders in which the owner's rules allow sessions to work.

use std::path::PathBuf;
use std::sync::Arc;

use crate::config::{Config, ProcessEnvironment};
use punie_home::Home;
use punie_host::active_rules::ActiveRules;
use punie_host::permission::SessionFolders;
use punie_host::{LinkedRepository, Workspace};
use punie_sandbox::hidden_by_settings;

/// Opens the configured workspaces that are there.
pub(super) fn open_workspace(config: &Config, environment: &ProcessEnvironment) -> Workspace {
    let user_home = environment.user_dir().map(std::path::Path::to_owned);
    Workspace::open_existing(&config.workspaces, user_home)
}

/// Names the workspaces that are missing in the log.
pub(super) fn log_missing_folders(workspace: &Workspace) {
    for folder in workspace.missing_paths() {
        let folder = folder.display();
        tracing::warn!(%folder, "a workspace is missing; it is used again as soon as it is back");
    }
}

/// Opens the configured workspaces, with the folders in which the owner's rules allow sessions to work.
pub fn open_reachable_folders(
    config: &Config,
    home: &Home,
    environment: &ProcessEnvironment,
) -> Workspace {
    let workspace = open_workspace(config, environment);
    match load_session_folders(config, home, environment, &workspace) {
        Ok(folders) => workspace.with_folders(&folders.allowed()),
        Err(error) => {
            tracing::warn!(%error, "the folders of sessions are left out");
            workspace
        }
    }
}

/// Opens what decides about the folders of sessions, by the rules as they are now.
pub fn open_session_folders(
    config: &Config,
    home: &Home,
    environment: &ProcessEnvironment,
) -> anyhow::Result<SessionFolders> {
    let workspace = open_workspace(config, environment);
    load_session_folders(config, home, environment, &workspace)
}

fn load_session_folders(
    config: &Config,
    home: &Home,
    environment: &ProcessEnvironment,
    workspace: &Workspace,
) -> anyhow::Result<SessionFolders> {
    // The runner has checked the names of tools in this file.
    let is_tool = Arc::new(|_: &str| true);
    let rules = ActiveRules::load_from_home(home, config.workspaces.clone(), is_tool)?;
    let rules = Arc::new(rules);
    Ok(session_folders(config, home, environment, workspace, rules))
}

/// Returns the repositories of these workspaces that are hidden from git until the owner decides. None where the rules
/// cannot be read.
pub fn undecided_repositories(
    config: &Config,
    home: &Home,
    environment: &ProcessEnvironment,
    workspaces: &[String],
) -> Vec<LinkedRepository> {
    let mut config = config.clone();
    config.workspaces = workspaces.iter().map(PathBuf::from).collect();
    open_session_folders(&config, home, environment)
        .map(|folders| folders.undecided_repositories(&config.workspaces))
        .unwrap_or_default()
}

/// Returns what decides about the folders of sessions.
pub(super) fn session_folders(
    config: &Config,
    home: &Home,
    environment: &ProcessEnvironment,
    workspace: &Workspace,
    rules: Arc<ActiveRules>,
) -> SessionFolders {
    let sandbox = &config.sandbox;
    let granted: [&[PathBuf]; 2] = [&sandbox.read, &sandbox.write];
    let hidden = hidden_by_settings(environment.user_dir(), &granted, &sandbox.hide);
    SessionFolders::new(workspace.clone(), home, &config.file, &hidden, rules)
}
