//! The git that clones a repository for the owner's commands: without hooks, filters, credentials helpers and
//! questions.
#![expect(
    clippy::disallowed_methods,
    reason = "this file starts git for the owner, outside of any call"
)]

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Command, Stdio};

use super::git_binary::is_program;
use super::safe_settings::{GIT_VARIABLES, NO_HOOKS_SETTING, SAFE_SETTINGS};
use punie_host::local::variable_names::names_authorities;

/// Variables of the owner that reach git: how the network is reached, and the agent with SSH keys. Those of certificate
/// authorities reach it, too.
const PASSED_VARIABLES: &[&str] = &[
    "HOME",
    "USERPROFILE",
    "SystemRoot",
    "SSH_AUTH_SOCK",
    "HTTPS_PROXY",
    "https_proxy",
    "ALL_PROXY",
    "all_proxy",
    "NO_PROXY",
    "no_proxy",
];

/// Ends a transfer that stands still.
const TRANSFER_SETTINGS: &[(&str, &str)] =
    &[("http.lowSpeedLimit", "1000"), ("http.lowSpeedTime", "30")];

/// Clones the newest state of a repository into a folder that does not exist yet.
///
/// # Errors
/// The reason, for people.
pub fn clone_repository(
    address: &str,
    into: &Path,
    variables: &[(OsString, OsString)],
) -> Result<(), String> {
    let value = |name: &str| {
        let found = variables.iter().find(|(key, _)| key == name);
        found.map(|(_, value)| value.as_os_str())
    };
    let search_path = value("PATH").unwrap_or_default();
    let folders: Vec<_> = std::env::split_paths(search_path)
        .filter(|folder| folder.is_absolute())
        .collect();
    let name = if cfg!(windows) { "git.exe" } else { "git" };
    let program = folders
        .iter()
        .map(|folder| folder.join(name))
        .find(|file| is_program(file));
    let program = program.ok_or("git is not installed, or not on the PATH")?;
    let mut command = Command::new(program);
    command
        .args([
            "clone",
            "--quiet",
            "--depth=1",
            "--single-branch",
            "--no-tags",
            "--template=",
            "--",
        ])
        .arg(address)
        .arg(into)
        .stdin(Stdio::null())
        .env_clear()
        .env("PATH", std::env::join_paths(&folders).unwrap_or_default())
        .envs(GIT_VARIABLES.iter().copied())
        // Filters and other addresses are set in these files.
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_ALLOW_PROTOCOL", "https:ssh:file")
        .env("GIT_SSH_COMMAND", "ssh -oBatchMode=yes");
    let is_passed = |name: &str, value: &OsStr| {
        let leads_to_authorities = value
            .to_str()
            .is_some_and(|value| names_authorities(name, value));
        PASSED_VARIABLES.contains(&name) || leads_to_authorities
    };
    let passed = variables
        .iter()
        .filter(|(name, value)| name.to_str().is_some_and(|name| is_passed(name, value)));
    command.envs(passed.map(|(name, value)| (name, value)));
    let settings = SAFE_SETTINGS
        .iter()
        .chain([&NO_HOOKS_SETTING])
        .chain(TRANSFER_SETTINGS);
    command.env("GIT_CONFIG_COUNT", settings.clone().count().to_string());
    for (i, (key, value)) in settings.enumerate() {
        command
            .env(format!("GIT_CONFIG_KEY_{i}"), key)
            .env(format!("GIT_CONFIG_VALUE_{i}"), value);
    }
    let ended = command.output().map_err(|error| format!("git: {error}"))?;
    if ended.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&ended.stderr);
    let last = text.lines().rfind(|line| !line.trim().is_empty());
    Err(format!(
        "git cannot clone it: {}. If it needs a password, clone it yourself and import the folder",
        last.unwrap_or("no reason given")
            .trim_start_matches("fatal: ")
            .trim_end_matches('.')
    ))
}
