//! The shell: commands that a model writes, in the foreground and in the background.

mod background_shell;
mod bash;
mod bash_keys;
mod bash_reply;
mod kill_shell;
mod listening_ports;
mod open_app;
mod shell_list;
mod shell_records;
mod shell_snapshot;
mod shell_status;
mod shell_stop;
mod shell_wait;
mod skill_bash;
mod skill_secrets;
mod write_shell;

use std::path::PathBuf;
use std::sync::Arc;

use punie_home::Home;
use punie_host::local::local_terminals::LocalTerminals;
use punie_host::{TerminalClient, Workspace};
use punie_text::redact::Redactor;
use punie_tool::{ToolDeps, ToolEntry, ToolError, ToolSet};

pub use background_shell::{BackgroundShell, EarlierShell};
pub use shell_list::{RestoredShell, ShellList};
pub use shell_records::{NewShell, NoShellRecords, RecordFuture, ShellRecords};
pub use shell_snapshot::{snapshot_shell, snapshot_shells};
pub use shell_stop::end_shells;

/// The dependencies of the shell tools.
#[derive(Clone)]
pub struct ShellDeps {
    /// Starts the commands.
    pub terminals: Arc<dyn TerminalClient>,
    /// The folders in which commands may start.
    pub workspace: Workspace,
    /// The background shells.
    pub shells: Arc<ShellList>,
    /// Opens applications.
    pub apps: LocalTerminals,
    /// The home folder with the owner's skills and secrets.
    pub home: Home,
    /// Learns each secret before a command gets it.
    pub redactor: Redactor,
    /// The rules for commands, in words for a model.
    pub command_rules: String,
    /// The reason why no application can be opened here, if there is one.
    pub apps_obstacle: Option<&'static str>,
}

impl ToolDeps for ShellDeps {
    fn narrowed_to(&self, folders: &[PathBuf]) -> Result<Self, ToolError> {
        Ok(Self {
            workspace: self.workspace.narrowed_to(folders)?,
            ..self.clone()
        })
    }
}

/// Returns the shell tools.
pub fn tools(deps: ShellDeps) -> Vec<ToolEntry> {
    let command_rules = deps.command_rules.clone();
    let apps_obstacle = deps.apps_obstacle;
    ToolSet::new("shell", deps)
        .with_tool::<bash::Bash>()
        .with_device_note(&command_rules)
        .with_tool::<shell_status::ShellStatus>()
        .with_tool::<write_shell::WriteShell>()
        .with_tool::<kill_shell::KillShell>()
        .with_tool::<skill_bash::SkillBash>()
        .with_tool_unless::<open_app::OpenApp>(apps_obstacle)
        .into_entries()
}
