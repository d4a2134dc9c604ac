//! The list of shells in the background. Not here: the processes behind it (the terminal client).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::acp::TerminalClient;
use crate::acp::terminals::{OpenTerminal, OutputQuery, TerminalId, TerminalOutput};
use crate::tool::ToolError;

/// How many shells are listed before those that ended longest ago are forgotten.
const LISTED: usize = 50;

/// One shell in the background.
#[derive(Debug, Clone)]
pub struct Shell {
    /// Its name: `sh_1`.
    pub id: String,
    /// Its terminal.
    pub terminal: TerminalId,
    /// The process id of its command, where this is known.
    pub pid: Option<u32>,
    /// The command.
    pub command: String,
    /// The folder it started in.
    pub folder: String,
    /// What the caller said it is for.
    pub purpose: Option<String>,
}

impl Shell {
    /// `sh_1 (pid 4312)`
    pub fn shown(&self) -> String {
        match self.pid {
            Some(pid) => format!("{} (pid {pid})", self.id),
            None => self.id.clone(),
        }
    }

    /// The command and what it is for, on one line.
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

/// A command that becomes a shell.
pub(super) struct Newcomer {
    pub terminal: OpenTerminal,
    pub command: String,
    pub folder: String,
    pub purpose: Option<String>,
}

/// All shells of this process life, oldest first.
#[derive(Debug, Default)]
pub struct ShellBoard {
    listed: Mutex<Listed>,
}

#[derive(Debug, Default)]
struct Listed {
    shells: Vec<Shell>,
    given: u64,
}

impl ShellBoard {
    /// An empty board.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lists a shell and gives it its name.
    pub(super) fn admit(&self, newcomer: Newcomer) -> Shell {
        let mut listed = self.listed();
        listed.given += 1;
        let shell = Shell {
            id: format!("sh_{}", listed.given),
            terminal: newcomer.terminal.id,
            pid: newcomer.terminal.pid,
            command: newcomer.command,
            folder: newcomer.folder,
            purpose: newcomer.purpose,
        };
        listed.shells.push(shell.clone());
        shell
    }

    /// Every shell.
    pub(super) fn all(&self) -> Vec<Shell> {
        self.listed().shells.clone()
    }

    /// The shell of this name.
    pub(super) fn find(&self, id: &str) -> Result<Shell, ToolError> {
        let listed = self.listed();
        if let Some(shell) = listed.shells.iter().find(|shell| shell.id == id.trim()) {
            return Ok(shell.clone());
        }
        let known: Vec<&str> = listed.shells.iter().map(|shell| shell.id.as_str()).collect();
        let hint = if known.is_empty() {
            "There are no background shells; a restart of the runner ends them.".to_owned()
        } else {
            format!("There are: {}.", known.join(", "))
        };
        Err(ToolError::not_found(format!("There is no shell {id:?}. {hint}")))
    }

    /// A running shell with the same command in the same folder.
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

    /// Forgets those that ended longest ago when the list has become long.
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
                client.abandon_terminal(shell.terminal);
                surplus -= 1;
            }
        }
    }

    fn listed(&self) -> MutexGuard<'_, Listed> {
        self.listed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a shell's terminal says.
pub(super) async fn state(
    client: &dyn TerminalClient,
    shell: &Shell,
    since: Option<u64>,
) -> Result<TerminalOutput, ToolError> {
    client.terminal_output(OutputQuery { id: shell.terminal.clone(), since }).await
}

/// Whether the command runs, or something it left behind.
pub(super) fn is_alive(output: &TerminalOutput) -> bool {
    output.exit.is_none() || !output.left.is_empty()
}
