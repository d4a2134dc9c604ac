//! The terminal by the Agent Client Protocol's way of running a command: created, waited for, read, released.
//! Not here: shells in the background and their list.

mod run_command;

use std::sync::Arc;

use crate::acp::{TerminalClient, Workspace};
use crate::tool::{Entry, ToolSet};

/// What the terminal tools share.
#[derive(Clone)]
pub struct TerminalDeps {
    /// Starts the commands.
    pub terminals: Arc<dyn TerminalClient>,
    /// The folders they may start in.
    pub workspace: Workspace,
}

/// The tools of this domain.
pub fn tools(deps: TerminalDeps) -> Vec<Entry> {
    ToolSet::new("terminal", deps).with::<run_command::RunCommand>().into_entries()
}
