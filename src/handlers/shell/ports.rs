//! The ports that shells listen on: said of each, and of the one that holds a port that a failed command wanted.
//! Not here: how they are found (the terminal client).

use super::ShellDeps;
use super::board::{Shell, is_alive, state};
use crate::acp::TerminalClient;

/// What programs print when a port is taken: the system's words, and the name of its error.
const TAKEN: &[&str] = &["address already in use", "address in use", "eaddrinuse"];

/// `, listening on 127.0.0.1:3000`; nothing where it listens nowhere.
pub(super) async fn listening_words(client: &dyn TerminalClient, shell: &Shell) -> String {
    let found = listeners(client, shell).await;
    if found.is_empty() { String::new() } else { format!(", listening on {}", found.join(", ")) }
}

/// Which of our shells holds the port that a failed command could not have; none where the output does not speak of a
/// taken port, or none of them holds it.
pub(super) async fn holder_words(deps: &ShellDeps, command: &str, output: &str) -> Option<String> {
    let folded = output.to_ascii_lowercase();
    let told: Vec<&str> =
        folded.lines().filter(|line| TAKEN.iter().any(|words| line.contains(words))).collect();
    if told.is_empty() {
        return None;
    }
    // Some programs do not say which port; then the command may.
    let wanted: Vec<u16> = told.into_iter().chain([command]).flat_map(numbers).collect();
    for shell in deps.shells.all() {
        let client = deps.terminals.as_ref();
        if !state(client, &shell, Some(u64::MAX)).await.is_ok_and(|output| is_alive(&output)) {
            continue;
        }
        let port = |address: &String| address.rsplit(':').next().and_then(|port| port.parse().ok());
        let held: Vec<u16> = listeners(client, &shell).await.iter().filter_map(port).collect();
        if let Some(port) = wanted.iter().find(|port| held.contains(port)) {
            return Some(format!(
                "Port {port} is held by shell {}: {}. Use that one, or end it with KillShell.",
                shell.shown(),
                shell.title()
            ));
        }
    }
    None
}

async fn listeners(client: &dyn TerminalClient, shell: &Shell) -> Vec<String> {
    if shell.past.is_some() {
        return Vec::new();
    }
    client.terminal_listeners(&shell.terminal).await.unwrap_or_default()
}

/// Every number in a text that could be a port.
fn numbers(text: &str) -> impl Iterator<Item = u16> {
    text.split(|c: char| !c.is_ascii_digit())
        .filter_map(|digits| digits.parse().ok())
        .filter(|port| *port > 0)
}
