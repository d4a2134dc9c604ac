//! The ports on which shells listen, and the shell that holds the port that a failed command wanted.

use super::ShellDeps;
use super::background_shell::{BackgroundShell, is_shell_running};
use punie_host::TerminalClient;
use punie_tool::ToolContext;

/// Texts that programs print when a port is taken.
const PORT_TAKEN_TEXTS: &[&str] = &["already in use", "address in use", "eaddrinuse"];

/// Formats `, listening on 127.0.0.1:3000`, or nothing.
pub(super) async fn format_listening(
    client: &dyn TerminalClient,
    shell: &BackgroundShell,
) -> String {
    let found = listening_addresses(client, shell).await;
    if found.is_empty() {
        String::new()
    } else {
        format!(", listening on {}", found.join(", "))
    }
}

/// Names the shell that holds the port that a failed command wanted. Returns `None` if the output mentions no taken
/// port, or if no shell holds it.
pub(super) async fn find_port_holder(
    cx: &ToolContext,
    deps: &ShellDeps,
    command: &str,
    output: &str,
) -> Option<String> {
    let folded = output.to_ascii_lowercase();
    let matching: Vec<&str> = folded
        .lines()
        .filter(|line| PORT_TAKEN_TEXTS.iter().any(|words| line.contains(words)))
        .collect();
    if matching.is_empty() {
        return None;
    }
    // Some programs do not print the port, but the command may contain it.
    let wanted: Vec<u16> = matching
        .into_iter()
        .chain([command])
        .flat_map(port_numbers)
        .collect();
    for shell in deps.shells.shown_to(cx) {
        let client = deps.terminals.as_ref();
        if !is_shell_running(client, &shell).await {
            continue;
        }
        let addresses = listening_addresses(client, &shell).await;
        let parse_port = |address: &String| address.rsplit(':').next()?.parse::<u16>().ok();
        let is_used = |port: &&u16| addresses.iter().any(|at| parse_port(at) == Some(**port));
        if let Some(port) = wanted.iter().find(is_used) {
            return Some(format!(
                "Port {port} is held by shell {}: {}. Use that one, or end it with KillShell.",
                shell.name_with_pid(),
                shell.describe_command()
            ));
        }
    }
    None
}

async fn listening_addresses(client: &dyn TerminalClient, shell: &BackgroundShell) -> Vec<String> {
    if shell.earlier.is_some() {
        return Vec::new();
    }
    client
        .terminal_listeners(&shell.terminal)
        .await
        .unwrap_or_default()
}

/// Returns every number in a text that could be a port.
fn port_numbers(text: &str) -> impl Iterator<Item = u16> {
    text.split(|c: char| !c.is_ascii_digit())
        .filter_map(|digits| digits.parse().ok())
        .filter(|port| *port > 0)
}
