//! The shell: commands that a model writes, in the foreground and in the background.
//! Not here: how processes are started, read and stopped (the terminal client).

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

/// What the shell tools share.
#[derive(Clone)]
pub struct ShellDeps {
    /// Starts the commands.
    pub terminals: Arc<dyn TerminalClient>,
    /// The folders they may start in.
    pub workspace: Workspace,
    /// The shells in the background.
    pub shells: Arc<ShellBoard>,
    /// Opens applications.
    pub apps: Arc<dyn AppClient>,
    /// Where the owner's skills and secrets are.
    pub home: Home,
    /// Is told of each secret before a command gets it.
    pub redactor: Redactor,
    /// What commands may do, for a model to read.
    pub command_rules: String,
    /// Whether applications may be opened, and there is a display to open them on.
    pub opens_apps: bool,
}

/// The tools of this domain.
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
