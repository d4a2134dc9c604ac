//! The lines with which a runner starts: what it works for, where, and how commands are confined.

use super::console;
use super::wiring::RunnerProcesses;
use crate::config::Config;
use crate::home::{DeviceIdentity, Home};

/// Prints where requests come from, where they work, and the confinement of commands.
pub(super) async fn print_banner(config: &Config, home: &Home, processes: &RunnerProcesses) {
    if let Some(url) = &config.backend.url {
        print_fact("Backend", &url.to_string());
    }
    if let Ok(identity) = DeviceIdentity::load_or_create(home) {
        print_fact("Device", identity.device_id().as_str());
    }
    let folders: Vec<String> = config
        .workspaces
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    print_fact("Workspace", &folders.join(", "));
    print_confinement(processes).await;
}

/// Prints the confinement of commands, once it is known.
pub(super) async fn print_confinement(processes: &RunnerProcesses) {
    print_fact("Commands", &processes.describe_commands().await);
    console::print_line("Waiting for requests. Ctrl-C stops.");
}

/// Prints a line with a label.
pub(super) fn print_fact(label: &str, text: &str) {
    console::print_line(&format!("{label:<11}{text}"));
}
