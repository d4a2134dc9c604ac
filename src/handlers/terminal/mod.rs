//! Terminals as in the Agent Client Protocol: created, waited for, read and released. Not here: background shells.

mod board;
mod get_shell_info;
mod get_terminal_output;
mod kill_terminal;
mod release_terminal;
mod run_command;
mod wait_for_terminal_exit;

use std::sync::Arc;

use crate::acp::{TerminalClient, Workspace};
use crate::tool::{Entry, ToolSet};

pub use board::TerminalBoard;

/// The dependencies of the terminal tools.
#[derive(Clone)]
pub struct TerminalDeps {
    /// Starts the commands.
    pub terminals: Arc<dyn TerminalClient>,
    /// The folders in which commands may start.
    pub workspace: Workspace,
    /// The terminals that outlive their call.
    pub board: Arc<TerminalBoard>,
    /// Returns the current rules for commands.
    pub command_rules: CommandRules,
}

/// A function that describes the rules for commands in a sentence or two.
pub type CommandRules = Arc<dyn Fn() -> String + Send + Sync>;

/// Names that models use for the key of a terminal.
const ALIASES: &[(&str, &str)] = &[("id", "terminal_id"), ("terminal", "terminal_id")];

/// Returns the terminal tools.
pub fn tools(deps: TerminalDeps) -> Vec<Entry> {
    ToolSet::new("terminal", deps)
        .with::<run_command::RunCommand>()
        .with::<get_terminal_output::GetTerminalOutput>()
        .with::<wait_for_terminal_exit::WaitForTerminalExit>()
        .with::<kill_terminal::KillTerminal>()
        .with::<release_terminal::ReleaseTerminal>()
        .with::<get_shell_info::GetShellInfo>()
        .into_entries()
}
