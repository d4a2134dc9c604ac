//! ACP's terminal methods with their arguments and results.

mod command_change;
mod command_run;
mod end_for_owner;
mod exit_status;
mod run_report;
mod stop_signal;
mod terminal_keys;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::ToolFuture;
use punie_core::host_traffic::HostTraffic;
use punie_core::ids::{ConversationId, RequestId};
use punie_home::MountedSecrets;
use punie_text::output::{OutputHandle, TextBudget};

pub use command_change::end_change_with_command;
pub use command_run::{
    CommandRun, RunEnding, TerminalGuard, WatchedCommand, run_or_leave_running, run_to_end,
};
pub use end_for_owner::end_for_owner;
pub use exit_status::{ExitStatus, SIGKILL_EXIT_CODE};
pub use run_report::{
    build_run_report, describe_survivors, exit_phrase, format_seconds, list_processes,
    output_meta_with_handle, output_with_status, pending_state_note, status_line,
    terminal_output_meta,
};
pub use stop_signal::{StopSequence, StopSignal, StopStep, signal_name};
pub use terminal_keys::{TerminalInput, TerminalKey};

/// Starts commands and manages them. The methods are those of the Agent Client Protocol, version 1, each with a
/// superset of its arguments.
pub trait TerminalClient: Send + Sync + 'static {
    /// `terminal/create`: starts a command and returns at once.
    ///
    /// # Errors
    /// `invalid_args`, `policy_denied` (an environment entry), `too_large` (a command over the system's limit),
    /// `not_found` (the program or the folder), `permission_denied`, `io`. No command was started then.
    fn create_terminal(&self, request: CreateTerminal) -> ToolFuture<'_, OpenTerminal>;

    /// `terminal/output`: returns the output so far; never waits.
    ///
    /// # Errors
    /// `not_found` for an id that was released or never existed.
    fn terminal_output(&self, query: OutputQuery) -> ToolFuture<'_, TerminalOutput>;

    /// Beyond the protocol: waits until more was read than `seen` (an earlier answer's `bytes_read`), or until the
    /// command ended.
    ///
    /// # Errors
    /// `not_found`, as above.
    fn wait_for_terminal_output<'a>(&'a self, id: &'a TerminalId, seen: u64) -> ToolFuture<'a, ()>;

    /// Beyond the protocol: types at a terminal that was created with a `tty`. It waits only briefly for a program that
    /// does not read, and reports the number of bytes that were not taken.
    ///
    /// # Errors
    /// `not_found`, as above; `invalid_args` for a command without a tty, or one that has closed it; `too_large` for a
    /// line that the terminal would truncate.
    fn write_terminal<'a>(
        &'a self,
        id: &'a TerminalId,
        strokes: Vec<TerminalInput>,
    ) -> ToolFuture<'a, TypedBytes>;

    /// `terminal/wait_for_exit`: waits for the command itself, never for the end of a pipe that a background process
    /// still holds.
    ///
    /// # Errors
    /// `not_found`, as above.
    fn wait_for_terminal_exit<'a>(&'a self, id: &'a TerminalId) -> ToolFuture<'a, TerminalExit>;

    /// `terminal/kill`: stops the command and all its descendants. A process that another service started for it was
    /// never its child and continues. The id stays valid.
    ///
    /// # Errors
    /// `not_found`, as above. A command that has already ended is not an error.
    fn kill_terminal<'a>(
        &'a self,
        id: &'a TerminalId,
        sequence: StopSequence,
    ) -> ToolFuture<'a, StopReport>;

    /// `terminal/release`: stops a command that still runs and forgets the id.
    ///
    /// # Errors
    /// `not_found`, as above.
    fn release_terminal<'a>(&'a self, id: &'a TerminalId) -> ToolFuture<'a, ()>;

    /// Beyond the protocol: returns the addresses that the command and its descendants listen on, such as
    /// `127.0.0.1:3000`. Empty if they are unknown.
    ///
    /// # Errors
    /// `not_found`, as above.
    fn terminal_listeners<'a>(&'a self, _id: &'a TerminalId) -> ToolFuture<'a, Vec<String>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// Does the same as `release_terminal` without waiting, for a caller that is being dropped.
    fn abandon_terminal(&self, id: TerminalId);
}

/// The id of a terminal: `term-0`, `term-1` and so on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TerminalId(String);

impl TerminalId {
    /// Returns the id of the `n`-th terminal of this process.
    pub fn from_number(n: u64) -> Self {
        Self(format!("term-{n}"))
    }

    /// Returns the id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for TerminalId {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Display for TerminalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A command to start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommandLaunch {
    /// A command line, parsed by bash.
    Shell(String),
    /// A program with its arguments, which no shell parses.
    Program {
        /// The program: a path, or a name looked up on the PATH.
        command: String,
        /// Its arguments, passed on unchanged.
        args: Vec<String>,
    },
}

impl fmt::Display for CommandLaunch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Shell(line) => f.write_str(line),
            Self::Program { command, args } => {
                f.write_str(command)?;
                args.iter().try_for_each(|arg| write!(f, " {arg}"))
            }
        }
    }
}

/// The size of a terminal's window, in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowSize {
    /// The width of a line.
    pub cols: u16,
    /// The number of lines.
    pub rows: u16,
}

impl Default for WindowSize {
    fn default() -> Self {
        Self {
            cols: 120,
            rows: 40,
        }
    }
}

/// The result of typing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TypedBytes {
    /// The number of bytes to type.
    pub given: usize,
    /// The number of bytes that the terminal accepted.
    pub taken: usize,
}

/// The input that a command with a terminal waits for, as far as the system shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputWait {
    /// A line that its terminal does not echo, as at a password prompt.
    Unechoed,
    /// Input: one of its processes is blocked reading its terminal.
    Blocked,
}

/// The arguments of `terminal/create`. Beyond the protocol's are the wanted amount of text, the input, the terminal's
/// window, and the request under which the output is stored.
#[derive(Debug, Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a choice of its own")]
pub struct CreateTerminal {
    /// The command to start.
    pub launch: CommandLaunch,
    /// Entries added to the environment; those that change how programs are loaded are refused.
    pub env: Vec<(String, String)>,
    /// Its working directory: absolute, and known to be inside the workspace.
    pub cwd: PathBuf,
    /// The bytes of output that an editor should keep. This machine stores all of it on disk and does not need it.
    pub output_byte_limit: Option<u64>,
    /// The wanted amount of text.
    pub budget: TextBudget,
    /// Keeps escape sequences and progress lines.
    pub raw: bool,
    /// The command's input; `None` means an empty input.
    pub stdin: Option<String>,
    /// The size of a pseudo terminal that is its input and output; the input is then typed there.
    pub tty: Option<WindowSize>,
    /// A background command, which survives a crash of the runner and is taken over by the next run.
    pub background: bool,
    /// The command continues when its call has ended, so it runs on this machine even if an editor follows the call.
    pub outlives_call: bool,
    /// Secrets for the command, until all of its processes have ended. It then runs on this machine, and ends with the
    /// runner.
    pub mounted: Option<Arc<MountedSecrets>>,
    /// A person allowed the command the runner's own network, which no proxy restricts.
    pub whole_network: bool,
    /// The tool that starts it.
    pub tool: &'static str,
    /// The conversation whose commands share temporary files with it.
    pub conversation: Option<ConversationId>,
    /// The folders of the session that the command is narrowed to; `None` for all workspaces.
    pub folders: Option<Vec<PathBuf>>,
    /// The request that starts it.
    pub request: RequestId,
    /// The number of this output among those of the request, from 0.
    pub output_number: u32,
}

impl CreateTerminal {
    /// Starts this in this folder, with defaults for all other arguments.
    pub fn new(request: &RequestId, launch: CommandLaunch, cwd: PathBuf) -> Self {
        Self {
            launch,
            env: Vec::new(),
            cwd,
            output_byte_limit: None,
            budget: TextBudget::default(),
            raw: false,
            stdin: None,
            tty: None,
            background: false,
            outlives_call: false,
            mounted: None,
            whole_network: false,
            tool: "Bash",
            conversation: None,
            folders: None,
            request: request.clone(),
            output_number: 0,
        }
    }
}

/// A terminal that was started.
#[derive(Debug, Clone)]
pub struct OpenTerminal {
    /// Its id.
    pub id: TerminalId,
    /// The command's process id, if it is known.
    pub pid: Option<u32>,
    /// Identifies the command beyond this process; `None` where the system cannot tell processes apart.
    pub trace: Option<CommandTrace>,
}

/// Identifies a command beyond the runner process that started it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandTrace {
    /// The permanent identity of its process.
    pub identity: String,
    /// The named pipe of its output; `None` if the command ends with the runner.
    pub output: Option<PathBuf>,
    /// The request that started it.
    pub request: RequestId,
    /// Escape sequences and progress lines are kept.
    pub raw: bool,
}

/// The arguments of `terminal/output`.
#[derive(Debug, Clone)]
pub struct OutputQuery {
    /// The terminal.
    pub id: TerminalId,
    /// Requests only the output after this cursor of an earlier answer.
    pub since: Option<u64>,
}

impl OutputQuery {
    /// Requests the whole output.
    pub fn whole(id: &TerminalId) -> Self {
        Self {
            id: id.clone(),
            since: None,
        }
    }

    /// Requests the state without output: nothing is printed after this cursor.
    pub fn state_only(id: &TerminalId) -> Self {
        Self {
            id: id.clone(),
            since: Some(u64::MAX),
        }
    }
}

/// The output of a terminal.
#[derive(Debug, Clone, Default)]
pub struct TerminalOutput {
    /// The text, within the budget; with a cursor, the new text, at most its last 64 KiB.
    pub text: String,
    /// The number of bytes that the text leaves out.
    pub omitted_bytes: u64,
    /// The handle of the stored output; `None` if there is no output yet, or none could be stored.
    pub handle: Option<OutputHandle>,
    /// The next `since`.
    pub cursor: u64,
    /// The number of bytes that were read from the command so far.
    pub bytes_read: u64,
    /// The command's exit, if it has ended.
    pub exit: Option<TerminalExit>,
    /// The time that the command ran, or has run so far.
    pub elapsed: Duration,
    /// Background processes that still run; only searched after the command ended.
    pub left: Vec<ProcessName>,
    /// The number of bytes that were not valid text.
    pub lossy_chars: u64,
    /// The number of masked secrets.
    pub redactions: u64,
    /// The reason why the stored output is incomplete.
    pub cut_short: Option<String>,
    /// The command has a terminal to type at.
    pub tty: bool,
    /// The input that it waits for; if it was stopped, the input that it waited for then.
    pub input: Option<InputWait>,
    /// The number of characters after the text that are not shown yet, because a secret may begin there.
    pub held_back: usize,
    /// The command runs in an editor's terminal.
    pub in_editor: bool,
    /// Notes on where and how it ran.
    pub warnings: Vec<String>,
    /// The probable reason why a command failed, if its confinement explains it.
    pub hint: Option<String>,
    /// The traffic with other hosts.
    pub network: Vec<HostTraffic>,
}

/// The end of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TerminalExit {
    /// Its exit status.
    pub status: ExitStatus,
    /// A background process still holds the output open.
    pub output_open: bool,
    /// The background processes that still run.
    pub left: Vec<ProcessName>,
    /// The command met its limit of processes and threads.
    pub at_process_limit: bool,
    /// The command or one of its processes was killed, and the system ended a process for lack of memory meanwhile.
    pub out_of_memory: bool,
}

/// A process, as a reply names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessName {
    /// Its id.
    pub pid: u32,
    /// Its command line, shortened.
    pub command: String,
}

impl fmt::Display for ProcessName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (pid {})", self.command, self.pid)
    }
}

/// The result of stopping a command.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StopReport {
    /// The last signal sent; `None` if no process was running any more.
    pub by: Option<StopSignal>,
    /// The processes that could not be ended.
    pub survivors: Vec<ProcessName>,
    /// The command had as many processes and threads as it may have.
    pub at_process_limit: bool,
    /// The editor that was told to stop the command, if it ran there; the editor chooses the signal.
    pub in_editor: Option<String>,
}
