//! The shell: commands that a model writes, in the foreground and in the background. Not here: starting, reading and
//! stopping processes (the terminal client).

mod bash;
mod bash_keys;
mod board;
mod kill_shell;
mod look;
mod open_app;
mod ports;
mod records;
mod shell_status;
mod skill_bash;
mod skill_secrets;
mod write_shell;

use std::sync::Arc;

use crate::acp::{AppClient, TerminalClient, Workspace};
use crate::home::Home;
use crate::redact::Redactor;
use crate::tool::{Entry, ToolSet};

pub use board::{Remembered, Shell, ShellBoard};
pub use look::{ShellLook, look_at, look_at_all};
pub use records::{NewShell, Past, ShellRecords, Unrecorded, Written};

/// The dependencies of the shell tools.
#[derive(Clone)]
pub struct ShellDeps {
    /// Starts the commands.
    pub terminals: Arc<dyn TerminalClient>,
    /// The folders in which commands may start.
    pub workspace: Workspace,
    /// The background shells.
    pub shells: Arc<ShellBoard>,
    /// Opens applications.
    pub apps: Arc<dyn AppClient>,
    /// The home folder with the owner's skills and secrets.
    pub home: Home,
    /// Learns each secret before a command gets it.
    pub redactor: Redactor,
    /// The rules for commands, in words for a model.
    pub command_rules: String,
    /// Applications may be opened, and there is a display for them.
    pub opens_apps: bool,
}

/// Returns the shell tools.
pub fn tools(deps: ShellDeps) -> Vec<Entry> {
    let (command_rules, opens_apps) = (deps.command_rules.clone(), deps.opens_apps);
    ToolSet::new("shell", deps)
        .with::<bash::Bash>()
        .on_this_device(&command_rules)
        .with::<shell_status::ShellStatus>()
        .with::<write_shell::WriteShell>()
        .with::<kill_shell::KillShell>()
        .with::<skill_bash::SkillBash>()
        .with_where::<open_app::OpenApp>(opens_apps)
        .into_entries()
}
