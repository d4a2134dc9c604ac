//! The terminal by the Agent Client Protocol's way of running a command: created, waited for, read, released.
//! Not here: shells in the background and their list.

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

/// What the terminal tools share.
#[derive(Clone)]
pub struct TerminalDeps {
    /// Starts the commands.
    pub terminals: Arc<dyn TerminalClient>,
    /// The folders they may start in.
    pub workspace: Workspace,
    /// The terminals that outlive their call.
    pub board: Arc<TerminalBoard>,
    /// Tells what commands may do, as it holds now.
    pub command_rules: CommandRules,
}

/// Gives a sentence or two about what commands may do.
pub type CommandRules = Arc<dyn Fn() -> String + Send + Sync>;

/// Names that models use for the key that the tools for one terminal take.
const ALIASES: &[(&str, &str)] = &[("id", "terminal_id"), ("terminal", "terminal_id")];

/// The tools of this domain.
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
