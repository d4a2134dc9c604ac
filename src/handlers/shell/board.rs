//! The list of background shells. Not here: their processes (the terminal client).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::records::{NewShell, Past, ShellRecords, Unrecorded};
use crate::acp::TerminalClient;
use crate::acp::terminals::{ExitStatus, OpenTerminal, OutputQuery, TerminalId, TerminalOutput};
use crate::output::OutputHandle;
use crate::tool::ToolError;

/// The largest number of shells in the list. Beyond it, the shells that ended longest ago are removed.
const LISTED: usize = 50;
/// The number of ended shells that an answer lists.
const ENDED_SHOWN: usize = 10;
/// The prefix of shell ids.
const NAME: &str = "sh_";

/// A background shell.
#[derive(Debug, Clone)]
pub struct Shell {
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
    pub past: Option<Arc<Past>>,
}

impl Shell {
    /// Returns the number in its id.
    pub fn number(&self) -> u32 {
        self.id.strip_prefix(NAME).and_then(|number| number.parse().ok()).unwrap_or(0)
    }

    /// Formats the id with the process id: `sh_1 (pid 4312)`.
    pub fn shown(&self) -> String {
        match self.pid {
            Some(pid) => format!("{} (pid {pid})", self.id),
            None => self.id.clone(),
        }
    }

    /// Formats the command and its purpose on one line.
    pub fn title(&self) -> String {
        let mut line: String =
            self.command.chars().take(100).map(|c| if c.is_control() { ' ' } else { c }).collect();
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
pub(super) struct Newcomer {
    pub terminal: OpenTerminal,
    pub command: String,
    pub folder: String,
    pub purpose: Option<String>,
}

/// A shell of an earlier runner process.
pub struct Remembered {
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
    pub now: Result<TerminalId, Past>,
}

/// All shells, oldest first.
pub struct ShellBoard {
    listed: Mutex<Listed>,
    records: Arc<dyn ShellRecords>,
}

impl Default for ShellBoard {
    fn default() -> Self {
        Self::recorded(Arc::new(Unrecorded))
    }
}

#[derive(Debug, Default)]
struct Listed {
    shells: Vec<Shell>,
    given: u32,
}

impl ShellBoard {
    /// Creates an empty list without records.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an empty list whose changes are recorded.
    pub fn recorded(records: Arc<dyn ShellRecords>) -> Self {
        Self { listed: Mutex::default(), records }
    }

    /// Adds the shells of earlier runner processes, oldest first. Must run before any new shell is added.
    pub fn remember(&self, shells: impl IntoIterator<Item = Remembered>) {
        let mut listed = self.listed();
        for known in shells {
            listed.given = listed.given.max(known.number);
            let (terminal, past) = match known.now {
                Ok(terminal) => (terminal, None),
                Err(past) => (TerminalId::from("none"), Some(Arc::new(past))),
            };
            listed.shells.push(Shell {
                id: format!("{NAME}{}", known.number),
                terminal,
                pid: known.pid,
                command: known.command,
                folder: known.folder,
                purpose: known.purpose,
                past,
            });
        }
    }

    /// Adds a shell, gives it an id and records it.
    pub(super) async fn admit(&self, client: &dyn TerminalClient, newcomer: Newcomer) -> Shell {
        let shell = {
            let mut listed = self.listed();
            listed.given += 1;
            let shell = Shell {
                id: format!("{NAME}{}", listed.given),
                terminal: newcomer.terminal.id,
                pid: newcomer.terminal.pid,
                command: newcomer.command,
                folder: newcomer.folder,
                purpose: newcomer.purpose,
                past: None,
            };
            listed.shells.push(shell.clone());
            shell
        };
        let look = async || state(client, &shell, Some(u64::MAX)).await.unwrap_or_default();
        let known = look().await;
        let new = NewShell {
            shell: &shell,
            trace: newcomer.terminal.trace.as_ref(),
            handle: known.handle.as_ref().map(OutputHandle::as_str),
            exit: known.exit.as_ref().map(|exit| &exit.status),
            runs: is_alive(&known),
        };
        self.records.begun(new).await;
        // An end before this point could not be recorded by a listener yet.
        if let (None, Some(exit)) = (&known.exit, look().await.exit) {
            self.records.ended(shell.number(), &exit.status);
        }
        shell
    }

    /// Returns all shells.
    pub(super) fn all(&self) -> Vec<Shell> {
        self.listed().shells.clone()
    }

    /// Returns the shell with this id.
    pub(super) fn find(&self, id: &str) -> Result<Shell, ToolError> {
        let listed = self.listed();
        if let Some(shell) = listed.shells.iter().find(|shell| shell.id == id.trim()) {
            return Ok(shell.clone());
        }
        let known: Vec<&str> = listed.shells.iter().map(|shell| shell.id.as_str()).collect();
        let hint = if known.is_empty() {
            "There are no background shells.".to_owned()
        } else {
            format!("There are: {}.", known.join(", "))
        };
        Err(ToolError::not_found(format!("There is no shell {id:?}. {hint}")))
    }

    /// Returns a running shell with the same command in the same folder.
    pub(super) async fn twin(
        &self,
        client: &dyn TerminalClient,
        command: &str,
        folder: &str,
    ) -> Option<Shell> {
        let alike =
            self.all().into_iter().rev().filter(|shell| shell.command == command && shell.folder == folder);
        for shell in alike {
            if state(client, &shell, Some(u64::MAX)).await.is_ok_and(|output| is_alive(&output)) {
                return Some(shell);
            }
        }
        None
    }

    /// Records that a shell and all its processes have ended.
    pub(super) fn ended(&self, shell: &Shell, exit: &ExitStatus) {
        self.records.ended(shell.number(), exit);
    }

    /// Removes the shells that ended longest ago, if the list is too long.
    pub(super) async fn tidy(&self, client: &Arc<dyn TerminalClient>) {
        let all = self.all();
        let mut surplus = all.len().saturating_sub(LISTED);
        for shell in all {
            if surplus == 0 {
                return;
            }
            let over = state(client.as_ref(), &shell, Some(u64::MAX))
                .await
                .map_or(true, |output| !is_alive(&output));
            if over {
                self.listed().shells.retain(|other| other.id != shell.id);
                self.records.forgotten(shell.number());
                client.abandon_terminal(shell.terminal);
                surplus -= 1;
            }
        }
    }

    fn listed(&self) -> MutexGuard<'_, Listed> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Lists running shells, then the latest ended ones, at most [`ENDED_SHOWN`], with their output. Also returns the
/// number of further ended shells.
pub(super) async fn overview(
    board: &ShellBoard,
    client: &dyn TerminalClient,
) -> (Vec<(Shell, Result<TerminalOutput, ToolError>)>, usize) {
    let (mut shown, mut ended) = (Vec::new(), Vec::new());
    for shell in board.all() {
        let output = state(client, &shell, Some(u64::MAX)).await;
        let list = if output.as_ref().is_ok_and(is_alive) { &mut shown } else { &mut ended };
        list.push((shell, output));
    }
    let more = ended.len().saturating_sub(ENDED_SHOWN);
    shown.extend(ended.into_iter().rev().take(ENDED_SHOWN));
    (shown, more)
}

/// Returns the output and state of a shell.
pub(super) async fn state(
    client: &dyn TerminalClient,
    shell: &Shell,
    since: Option<u64>,
) -> Result<TerminalOutput, ToolError> {
    if let Some(past) = &shell.past {
        let text = if since.is_some() { String::new() } else { past.output.text.clone() };
        return Ok(TerminalOutput { text, ..past.output.clone() });
    }
    client.terminal_output(OutputQuery { id: shell.terminal.clone(), since }).await
}

/// Returns whether the command or a process that it left still runs.
pub(super) fn is_alive(output: &TerminalOutput) -> bool {
    output.exit.is_none() || !output.left.is_empty()
}
