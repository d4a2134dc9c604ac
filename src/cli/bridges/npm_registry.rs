//! The registry of the owner's npm settings: the only one of them that reaches npm when it installs for a bridge.

use std::process::Stdio;
use std::time::Duration;

use crate::bridges::{RegistryAddress, check_registry};
use crate::config::ProcessEnvironment;

const TIMEOUT: Duration = Duration::from_secs(30);

/// Finds the registry: that of the variable `npm_config_registry`, else the one that the owner's npm uses. An error is a
/// part of a sentence.
pub(super) async fn find_registry(
    environment: &ProcessEnvironment,
) -> Result<RegistryAddress, String> {
    let named = ["npm_config_registry", "NPM_CONFIG_REGISTRY"]
        .into_iter()
        .find_map(|name| environment.get(name)?.to_str().map(str::to_owned));
    match named {
        Some(url) => check_registry(&url),
        None => check_registry(ask_npm().await?.trim()),
    }
}

async fn ask_npm() -> Result<String, String> {
    // In the root folder, so that no project's settings count.
    let asking = tokio::process::Command::new("npm")
        .args(["config", "get", "registry"])
        .current_dir("/")
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let asked = tokio::time::timeout(TIMEOUT, asking).await;
    let asked = asked.map_err(|_| "npm does not say its registry in time".to_owned())?;
    let asked = asked.map_err(|error| format!("npm cannot be started: {error}"))?;
    Ok(String::from_utf8_lossy(&asked.stdout).into_owned())
}
