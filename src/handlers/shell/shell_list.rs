//! The list of background shells. Not here: their processes (the terminal client).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::shell_records::{EarlierShell, NewShell, NoShellRecords, ShellRecords};
use crate::acp::TerminalClient;
use crate::acp::terminals::{ExitStatus, OpenTerminal, OutputQuery, TerminalId, TerminalOutput};
use crate::output::OutputHandle;
use crate::tool::ToolError;

/// The largest number of shells in the list. Beyond it, the shells that ended longest ago are removed.
const MAX_SHELLS: usize = 50;
/// The number of ended shells that an answer lists.
const ENDED_SHOWN: usize = 10;
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
    /// The end of a shell of an earlier runner process; such a shell has no terminal.
    pub earlier: Option<Arc<EarlierShell>>,
}

impl BackgroundShell {
    /// Returns the number in its id.
    pub fn shell_number(&self) -> u32 {
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
        let mut line: String = self
            .command
            .chars()
            .take(100)
            .map(|c| if c.is_control() { ' ' } else { c })
            .collect();
        if self.command.chars().count() > 100 {
            line.push('…');
        }
        match &self.purpose {
            Some(purpose) => format!("{line} ({purpose})"),
            None => line,
        }
    }
}

/// A command to be added as a shell.
pub(super) struct ShellStart {
    pub terminal: OpenTerminal,
    pub command: String,
    pub folder: String,
    pub purpose: Option<String>,
}

/// A shell of an earlier runner process.
pub struct RestoredShell {
    /// The number in its id.
    pub number: u32,
    /// The process id of its command.
    pub pid: Option<u32>,
    /// The command.
    pub command: String,
    /// The folder in which it started.
    pub folder: String,
    /// The purpose that the caller gave.
    pub purpose: Option<String>,
    /// Its terminal if it still runs, otherwise its end.
    pub now: Result<TerminalId, EarlierShell>,
}

/// All shells, oldest first.
pub struct ShellList {
    listed: Mutex<ShellListState>,
    records: Arc<dyn ShellRecords>,
}

impl Default for ShellList {
    fn default() -> Self {
        Self::with_records(Arc::new(NoShellRecords))
    }
}

#[derive(Debug, Default)]
struct ShellListState {
    shells: Vec<BackgroundShell>,
    given: u32,
}

impl ShellList {
    /// Creates an empty list without records.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an empty list whose changes are recorded.
    pub fn with_records(records: Arc<dyn ShellRecords>) -> Self {
        Self {
            listed: Mutex::default(),
            records,
        }
    }

    /// Adds the shells of earlier runner processes, oldest first. Must run before any new shell is added.
    pub fn restore_shells(&self, shells: impl IntoIterator<Item = RestoredShell>) {
        let mut listed = self.lock_shells();
        for known in shells {
            listed.given = listed.given.max(known.number);
            let (terminal, past) = match known.now {
                Ok(terminal) => (terminal, None),
                Err(past) => (TerminalId::from("none"), Some(Arc::new(past))),
            };
            listed.shells.push(BackgroundShell {
                id: format!("{ID_PREFIX}{}", known.number),
                terminal,
                pid: known.pid,
                command: known.command,
                folder: known.folder,
                purpose: known.purpose,
                earlier: past,
            });
        }
    }

    /// Adds a shell, gives it an id and records it.
    pub(super) async fn add_shell(
        &self,
        client: &dyn TerminalClient,
        newcomer: ShellStart,
    ) -> BackgroundShell {
        let shell = {
            let mut listed = self.lock_shells();
            listed.given += 1;
            let shell = BackgroundShell {
                id: format!("{ID_PREFIX}{}", listed.given),
                terminal: newcomer.terminal.id,
                pid: newcomer.terminal.pid,
                command: newcomer.command,
                folder: newcomer.folder,
                purpose: newcomer.purpose,
                earlier: None,
            };
            listed.shells.push(shell.clone());
            shell
        };
        let look = async || {
            query_shell_output(client, &shell, Some(u64::MAX))
                .await
                .unwrap_or_default()
        };
        let known = look().await;
        let new = NewShell {
            shell: &shell,
            trace: newcomer.terminal.trace.as_ref(),
            handle: known.handle.as_ref().map(OutputHandle::as_str),
            exit: known.exit.as_ref().map(|exit| &exit.status),
            runs: is_still_running(&known),
        };
        self.records.record_start(new).await;
        // An end before this point could not be recorded by a listener yet.
        if let (None, Some(exit)) = (&known.exit, look().await.exit) {
            self.records.record_end(shell.shell_number(), &exit.status);
        }
        shell
    }

    /// Returns all shells.
    pub(super) fn all_shells(&self) -> Vec<BackgroundShell> {
        self.lock_shells().shells.clone()
    }

    /// Returns the shell with this id.
    pub(super) fn find_shell(&self, id: &str) -> Result<BackgroundShell, ToolError> {
        let listed = self.lock_shells();
        if let Some(shell) = listed.shells.iter().find(|shell| shell.id == id.trim()) {
            return Ok(shell.clone());
        }
        let known: Vec<&str> = listed
            .shells
            .iter()
            .map(|shell| shell.id.as_str())
            .collect();
        let hint = if known.is_empty() {
            "There are no background shells.".to_owned()
        } else {
            format!("There are: {}.", known.join(", "))
        };
        Err(ToolError::not_found(format!(
            "There is no shell {id:?}. {hint}"
        )))
    }

    /// Returns a running shell with the same command in the same folder.
    pub(super) async fn find_running_duplicate(
        &self,
        client: &dyn TerminalClient,
        command: &str,
        folder: &str,
    ) -> Option<BackgroundShell> {
        let alike = self
            .all_shells()
            .into_iter()
            .rev()
            .filter(|shell| shell.command == command && shell.folder == folder);
        for shell in alike {
            if query_shell_output(client, &shell, Some(u64::MAX))
                .await
                .is_ok_and(|output| is_still_running(&output))
            {
                return Some(shell);
            }
        }
        None
    }

    /// Records that a shell and all its processes have ended.
    pub(super) fn record_shell_end(&self, shell: &BackgroundShell, exit: &ExitStatus) {
        self.records.record_end(shell.shell_number(), exit);
    }

    /// Removes the shells that ended longest ago, if the list is too long.
    pub(super) async fn forget_oldest(&self, client: &Arc<dyn TerminalClient>) {
        let all = self.all_shells();
        let mut surplus = all.len().saturating_sub(MAX_SHELLS);
        for shell in all {
            if surplus == 0 {
                return;
            }
            let over = query_shell_output(client.as_ref(), &shell, Some(u64::MAX))
                .await
                .map_or(true, |output| !is_still_running(&output));
            if over {
                self.lock_shells()
                    .shells
                    .retain(|other| other.id != shell.id);
                self.records.record_removal(shell.shell_number());
                client.abandon_terminal(shell.terminal);
                surplus -= 1;
            }
        }
    }

    fn lock_shells(&self) -> MutexGuard<'_, ShellListState> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lists running shells, then the latest ended ones, at most [`ENDED_SHOWN`], with their output. Also returns the
/// number of further ended shells.
pub(super) async fn list_shells(
    board: &ShellList,
    client: &dyn TerminalClient,
) -> (
    Vec<(BackgroundShell, Result<TerminalOutput, ToolError>)>,
    usize,
) {
    let (mut shown, mut ended) = (Vec::new(), Vec::new());
    for shell in board.all_shells() {
        let output = query_shell_output(client, &shell, Some(u64::MAX)).await;
        let list = if output.as_ref().is_ok_and(is_still_running) {
            &mut shown
        } else {
            &mut ended
        };
        list.push((shell, output));
    }
    let more = ended.len().saturating_sub(ENDED_SHOWN);
    shown.extend(ended.into_iter().rev().take(ENDED_SHOWN));
    (shown, more)
}

/// Returns the output and state of a shell.
pub(super) async fn query_shell_output(
    client: &dyn TerminalClient,
    shell: &BackgroundShell,
    since: Option<u64>,
) -> Result<TerminalOutput, ToolError> {
    if let Some(past) = &shell.earlier {
        let text = if since.is_some() {
            String::new()
        } else {
            past.output.text.clone()
        };
        return Ok(TerminalOutput {
            text,
            ..past.output.clone()
        });
    }
    client
        .terminal_output(OutputQuery {
            id: shell.terminal.clone(),
            since,
        })
        .await
}

/// Returns whether the command or a process that it left still runs.
pub(super) fn is_still_running(output: &TerminalOutput) -> bool {
    output.exit.is_none() || !output.left.is_empty()
}
