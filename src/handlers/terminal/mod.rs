//! Terminals as in the Agent Client Protocol: created, waited for, read and released.

mod get_shell_info;
mod get_terminal_output;
mod kill_terminal;
mod release_terminal;
mod run_command;
mod terminal_list;
mod terminal_queries;
mod terminal_stop;
mod wait_for_terminal_exit;

use std::path::PathBuf;
use std::sync::Arc;

use punie_host::{TerminalClient, Workspace};
use punie_tool::{ToolDeps, ToolEntry, ToolError, ToolSet};

pub use terminal_list::TerminalList;
pub use terminal_stop::end_terminals;

/// The dependencies of the terminal tools.
#[derive(Clone)]
pub struct TerminalDeps {
    /// Starts the commands.
    pub terminals: Arc<dyn TerminalClient>,
    /// The folders in which commands may start.
    pub workspace: Workspace,
    /// The terminals that outlive their call.
    pub board: Arc<TerminalList>,
    /// Returns the current rules for commands.
    pub command_rules: CommandRules,
}

impl ToolDeps for TerminalDeps {
    fn narrowed_to(&self, folders: &[PathBuf]) -> Result<Self, ToolError> {
        Ok(Self {
            workspace: self.workspace.narrowed_to(folders)?,
            ..self.clone()
        })
    }
}

/// A function that describes the rules for commands in a sentence or two.
pub type CommandRules = Arc<dyn Fn() -> String + Send + Sync>;

/// Returns the terminal tools.
pub fn tools(deps: TerminalDeps) -> Vec<ToolEntry> {
    ToolSet::new("terminal", deps)
        .with_tool::<run_command::RunCommand>()
        .with_tool::<get_terminal_output::GetTerminalOutput>()
        .with_tool::<wait_for_terminal_exit::WaitForTerminalExit>()
        .with_tool::<kill_terminal::KillTerminal>()
        .with_tool::<release_terminal::ReleaseTerminal>()
        .with_tool::<get_shell_info::GetShellInfo>()
        .into_entries()
}
