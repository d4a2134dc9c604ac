//! A background shell, its state and its output.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use punie_host::TerminalClient;
use punie_host::terminals::{OutputQuery, TerminalId, TerminalOutput};
use punie_tool::ToolError;

/// The prefix of shell ids.
const ID_PREFIX: &str = "sh_";

/// A background shell.
#[derive(Debug, Clone)]
pub struct BackgroundShell {
    /// Its id: `sh_1`.
    pub id: String,
    /// Its terminal.
    pub terminal: TerminalId,
    /// The process id of its command, if known.
    pub pid: Option<u32>,
    /// The command.
    pub command: String,
    /// The folder in which it started.
    pub folder: String,
    /// The purpose that the caller gave.
    pub purpose: Option<String>,
    /// The folders of the session that it is narrowed to, if this runner process started it for one.
    pub session_folders: Option<Vec<PathBuf>>,
    /// The end of a shell of an earlier runner process; such a shell has no terminal.
    pub earlier: Option<Arc<EarlierShell>>,
    /// Set when the owner ends it.
    pub stopped_by_owner: Arc<AtomicBool>,
}

impl BackgroundShell {
    /// Formats the id of the shell with this number.
    pub(super) fn format_id(number: u32) -> String {
        format!("{ID_PREFIX}{number}")
    }

    /// Returns the number in its id.
    pub fn number(&self) -> u32 {
        self.id
            .strip_prefix(ID_PREFIX)
            .and_then(|number| number.parse().ok())
            .unwrap_or(0)
    }

    /// Formats the id with the process id: `sh_1 (pid 4312)`.
    pub fn name_with_pid(&self) -> String {
        match self.pid {
            Some(pid) => format!("{} (pid {pid})", self.id),
            None => self.id.clone(),
        }
    }

    /// Formats the command and its purpose on one line.
    pub fn describe_command(&self) -> String {
        let mut chars = self.command.chars();
        let visible = |c: char| if c.is_control() { ' ' } else { c };
        let mut line: String = chars.by_ref().take(100).map(visible).collect();
        if chars.next().is_some() {
            line.push('…');
        }
        match &self.purpose {
            Some(purpose) => format!("{line} ({purpose})"),
            None => line,
        }
    }
}

/// An ended shell of an earlier runner process.
#[derive(Debug)]
pub struct EarlierShell {
    /// Its end in words: `ended before the runner was restarted, exit code 0`.
    pub words: String,
    /// Its output, as far as known.
    pub output: TerminalOutput,
}

/// Returns the output and state of a shell.
pub(super) async fn query_shell_output(
    client: &dyn TerminalClient,
    shell: &BackgroundShell,
    since: Option<u64>,
) -> Result<TerminalOutput, ToolError> {
    if let Some(past) = &shell.earlier {
        let mut output = past.output.clone();
        if since.is_some() {
            output.text.clear();
        }
        return Ok(output);
    }
    let id = shell.terminal.clone();
    client.terminal_output(OutputQuery { id, since }).await
}

/// Returns the state of a shell, without its output.
pub(super) async fn query_shell_state(
    client: &dyn TerminalClient,
    shell: &BackgroundShell,
) -> Result<TerminalOutput, ToolError> {
    query_shell_output(client, shell, Some(u64::MAX)).await
}

/// Returns whether a shell still exists and runs.
pub(super) async fn is_shell_running(client: &dyn TerminalClient, shell: &BackgroundShell) -> bool {
    let state = query_shell_state(client, shell).await;
    state.is_ok_and(|output| is_still_running(&output))
}

/// Returns whether the command or a process that it left still runs.
pub(super) fn is_still_running(output: &TerminalOutput) -> bool {
    output.exit.is_none() || !output.left.is_empty()
}
