//! Converts the owner's settings to sandbox rules.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::workspaces::open_workspace;
use crate::config::{Config, ProcessEnvironment};
#[cfg(target_os = "linux")]
use punie_core::clock::Clock;
use punie_core::runner_home::is_runner_home;
use punie_home::Home;
#[cfg(target_os = "linux")]
use punie_home::{OwnerNotice, OwnerSwitches, command_to_type};
use punie_host::Workspace;
use punie_host::local::confinement::{Confinement, ConfinementSetup};
use punie_sandbox::{KnownFolders, SandboxRules, WorkspaceAccess, resolve_owner_paths};
use punie_text::output::number_format::format_size;

/// Builds the confinement for this machine's commands.
pub fn build_confinement(
    config: &Config,
    home: &Home,
    environment: &ProcessEnvironment,
) -> Confinement {
    let workspace = open_workspace(config, environment);
    Confinement::new(confinement_setup(config, home, environment, &workspace))
}

/// Converts the owner's settings, and the layout of this home, for the confinement. Commands get no view of a workspace
/// that is missing: it may come back as anything.
pub(super) fn confinement_setup(
    config: &Config,
    home: &Home,
    environment: &ProcessEnvironment,
    workspace: &Workspace,
) -> ConfinementSetup {
    let sandbox = &config.sandbox;
    let path = environment
        .path_variable()
        .map(std::env::split_paths)
        .into_iter()
        .flatten();
    // A link in a folder that commands write may be theirs. It must not lead to another grant.
    let writes = [config.workspaces.as_slice(), &sandbox.write].concat();
    let missing: Vec<&Path> = workspace.missing_paths().collect();
    let mut workspaces = config.workspaces.clone();
    workspaces.retain(|folder| !missing.contains(&folder.as_path()));
    // Resolved paths, as the kernel sees them.
    let rules = SandboxRules {
        repositories: Vec::new(),
        known_folders: KnownFolders::default(),
        workspace_access: WorkspaceAccess::Write,
        user_home: environment.user_dir().map(canonical_or_same),
        own_home: canonical_or_same(home.root_dir()),
        shown: [home.skills_dir(), home.plugins_dir(), home.hooks_dir()]
            .iter()
            .map(|path| canonical_or_same(path))
            .collect(),
        own_folder: None,
        pipes: canonical_or_same(&home.shells_dir()),
        temp: canonical_or_same(&home.temp_dir()),
        command_home: real_home_path(home, &home.command_home_dir()),
        cache_layers: real_home_path(home, &home.command_caches_dir()),
        service_homes: real_home_path(home, &home.service_homes_dir()),
        view_stage: real_home_path(home, &home.view_dir()),
        search_path: path.filter(|folder| folder.is_absolute()).collect(),
        certificates: Vec::new(),
        write: resolve_owner_paths(&writes, sandbox.write.iter().map(PathBuf::as_path)),
        read: resolve_owner_paths(&writes, sandbox.read.iter().map(PathBuf::as_path)),
        hide: sandbox
            .hide
            .iter()
            .map(|path| canonical_or_same(path))
            .chain(find_homes_below(&workspaces))
            .collect(),
        resolved_hidden: Arc::default(),
        network: sandbox.network,
        local_ports: sandbox.local_ports.clone(),
        workspaces,
    };
    ConfinementSetup {
        rules,
        require: sandbox.require,
        confine: sandbox.confine,
        apps: sandbox.apps,
        self_test: real_home_path(home, &home.self_test_dir()),
        java_trust_store: real_home_path(home, &home.authorities_dir()).join("java.jks"),
    }
}

/// Removes the copies of the user's caches that earlier versions made.
pub(super) async fn remove_copied_caches(home: Home) {
    match tokio::task::spawn_blocking(move || home.remove_copied_caches()).await {
        Ok(Ok(None)) => {}
        Ok(Ok(Some(bytes))) => tracing::info!(
            size = format_size(bytes),
            "removed the copies of your caches that an earlier version made; commands read yours now"
        ),
        Ok(Err(cause)) => {
            tracing::warn!(%cause, "copies of your caches that an earlier version made stay in command-home");
        }
        Err(fault) => tracing::warn!(%fault, "removing the copies of caches broke off"),
    }
}

/// Removes the copies of the user's settings that earlier versions made for commands, and tells the owner once.
#[cfg(target_os = "linux")]
pub(super) async fn remove_copied_settings(home: Home) {
    let commands = home.command_home_dir();
    let caches = home.command_caches_dir();
    let remove = move || punie_sandbox::remove_copied_settings(&commands, &caches);
    match tokio::task::spawn_blocking(remove).await {
        Ok(Ok(removed)) if removed.is_empty() => {}
        Ok(Ok(removed)) => {
            let list: Vec<String> = removed
                .iter()
                .map(|path| path.display().to_string())
                .collect();
            let text = format!(
                "removed what an earlier version had copied of your settings for commands; they may have read a \
                 credential in it: {}",
                list.join(", ")
            );
            tracing::warn!("{text}. `{}` acknowledges this", command_to_type("ack"));
            let notice = OwnerNotice {
                at_ms: Clock::system().now_ms(),
                path: home.command_home_dir().display().to_string(),
                request: None,
                text,
            };
            if let Err(error) = OwnerSwitches::in_home(&home).add_notice(&notice) {
                tracing::warn!(%error, "this is not in the owner's notices");
            }
        }
        Ok(Err(cause)) => {
            tracing::warn!(%cause, "copies of your settings that an earlier version made stay in commands/");
        }
        Err(fault) => tracing::warn!(%fault, "removing the copies of settings broke off"),
    }
}

/// Finds the homes of this program in the workspaces, up to three folders deep, such as that of a backend.
fn find_homes_below(workspaces: &[PathBuf]) -> Vec<PathBuf> {
    let walks = workspaces.iter().flat_map(|workspace| {
        ignore::WalkBuilder::new(workspace)
            .standard_filters(false)
            .max_depth(Some(3))
            .filter_entry(|at| at.file_type().is_some_and(|kind| kind.is_dir()))
            .build()
    });
    walks
        .filter_map(Result::ok)
        .map(ignore::DirEntry::into_path)
        .filter(|folder| is_runner_home(folder))
        .collect()
}

/// Returns a path of the home below the home's resolved folder. The path itself may not exist yet.
fn real_home_path(home: &Home, path: &Path) -> PathBuf {
    let below = path.strip_prefix(home.root_dir());
    canonical_or_same(home.root_dir()).join(below.expect("the path is one of this home"))
}

pub(super) fn canonical_or_same(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}
