//! The list of background shells.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::background_shell::{
    BackgroundShell, EarlierShell, is_shell_running, is_still_running, query_shell_state,
};
use super::shell_records::{NewShell, NoShellRecords, ShellRecords};
use punie_host::TerminalClient;
use punie_host::terminals::{ExitStatus, OpenTerminal, TerminalId, TerminalOutput};
use punie_text::output::OutputHandle;
use punie_tool::{ToolContext, ToolError};

/// The largest number of shells in the list. Beyond it, the shells that ended longest ago are removed.
const MAX_SHELLS: usize = 50;
/// The number of ended shells that an answer lists.
const ENDED_SHOWN: usize = 10;
/// The command of a shell, as lists show it.
pub(super) struct ShellDescription {
    pub(super) command: String,
    pub(super) folder: String,
    pub(super) purpose: Option<String>,
    /// The folders of the session that it is narrowed to.
    pub session_folders: Option<Vec<PathBuf>>,
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
    pub fn restore(&self, shells: impl IntoIterator<Item = RestoredShell>) {
        let mut listed = self.listed.lock();
        for known in shells {
            listed.given = listed.given.max(known.number);
            let (terminal, earlier) = match known.now {
                Ok(terminal) => (terminal, None),
                Err(earlier) => (TerminalId::from("none"), Some(Arc::new(earlier))),
            };
            listed.shells.push(BackgroundShell {
                id: BackgroundShell::format_id(known.number),
                terminal,
                pid: known.pid,
                command: known.command,
                folder: known.folder,
                purpose: known.purpose,
                session_folders: None,
                earlier,
                stopped_by_owner: Arc::default(),
            });
        }
    }

    /// Adds a shell, gives it an id and records it. Removes the shells that ended longest ago, if the list is too
    /// long.
    pub(super) async fn add(
        &self,
        client: &dyn TerminalClient,
        terminal: OpenTerminal,
        about: ShellDescription,
    ) -> BackgroundShell {
        let shell = {
            let mut listed = self.listed.lock();
            listed.given += 1;
            let shell = BackgroundShell {
                id: BackgroundShell::format_id(listed.given),
                terminal: terminal.id,
                pid: terminal.pid,
                command: about.command,
                folder: about.folder,
                purpose: about.purpose,
                session_folders: about.session_folders,
                earlier: None,
                stopped_by_owner: Arc::default(),
            };
            listed.shells.push(shell.clone());
            shell
        };
        let state = query_shell_state(client, &shell).await.unwrap_or_default();
        let new = NewShell {
            shell: &shell,
            trace: terminal.trace.as_ref(),
            handle: state.handle.as_ref().map(OutputHandle::as_str),
            exit: state.exit.as_ref().map(|exit| &exit.status),
            runs: is_still_running(&state),
        };
        self.records.record_start(new).await;
        // An end before this point could not be recorded by a listener yet.
        if state.exit.is_none()
            && let Ok(TerminalOutput {
                exit: Some(exit), ..
            }) = query_shell_state(client, &shell).await
        {
            self.record_shell_end(&shell, &exit.status);
        }
        self.forget_oldest(client).await;
        shell
    }

    pub(super) fn all(&self) -> Vec<BackgroundShell> {
        self.listed.lock().shells.clone()
    }

    /// Returns the shells that the call may know of.
    pub(super) fn shown_to(&self, cx: &ToolContext) -> Vec<BackgroundShell> {
        let mut shells = self.all();
        let own = cx.session_folders();
        shells.retain(|shell| {
            // A skill's command begins in the skill's folder.
            let is_own = own.is_some() && shell.session_folders == own;
            is_own || cx.shows_folder(Path::new(&shell.folder))
        });
        shells
    }

    /// Returns the shell with this id, if the call may know of it.
    pub(super) fn find(&self, id: &str, cx: &ToolContext) -> Result<BackgroundShell, ToolError> {
        let shells = self.shown_to(cx);
        if let Some(shell) = shells.iter().find(|shell| shell.id == id.trim()) {
            return Ok(shell.clone());
        }
        let known: Vec<&str> = shells.iter().map(|shell| shell.id.as_str()).collect();
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
        cx: &ToolContext,
        client: &dyn TerminalClient,
        command: &str,
        folder: &str,
    ) -> Option<BackgroundShell> {
        for shell in self.shown_to(cx).into_iter().rev() {
            if shell.command == command
                && shell.folder == folder
                && is_shell_running(client, &shell).await
            {
                return Some(shell);
            }
        }
        None
    }

    /// Records that a shell and all its processes have ended.
    pub(super) fn record_shell_end(&self, shell: &BackgroundShell, exit: &ExitStatus) {
        self.records.record_end(shell.number(), exit);
    }

    async fn forget_oldest(&self, client: &dyn TerminalClient) {
        let all = self.all();
        let mut surplus = all.len().saturating_sub(MAX_SHELLS);
        for shell in all {
            if surplus == 0 {
                return;
            }
            if !is_shell_running(client, &shell).await {
                self.listed
                    .lock()
                    .shells
                    .retain(|other| other.id != shell.id);
                self.records.record_removal(shell.number());
                client.abandon_terminal(shell.terminal);
                surplus -= 1;
            }
        }
    }
}

/// Lists running shells that the call may know of, then the latest ended ones, at most [`ENDED_SHOWN`], with their output. Also returns the
/// number of further ended shells.
pub(super) async fn list_shells(
    cx: &ToolContext,
    list: &ShellList,
    client: &dyn TerminalClient,
) -> (
    Vec<(BackgroundShell, Result<TerminalOutput, ToolError>)>,
    usize,
) {
    let mut shown = Vec::new();
    let mut ended = Vec::new();
    for shell in list.shown_to(cx) {
        let output = query_shell_state(client, &shell).await;
        let part = if output.as_ref().is_ok_and(is_still_running) {
            &mut shown
        } else {
            &mut ended
        };
        part.push((shell, output));
    }
    let more = ended.len().saturating_sub(ENDED_SHOWN);
    shown.extend(ended.into_iter().rev().take(ENDED_SHOWN));
    (shown, more)
}
