//! ACP's terminal methods and what they take and give. Not here: who serves them, and which texts a tool makes of
//! their answers.

mod keys;
mod report;
mod run;
mod signal;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::Answer;
use crate::home::Mounted;
use crate::ids::RequestId;
use crate::output::{Budget, OutputHandle};

pub use keys::{Key, Stroke};
pub use report::{
    conclude, ending_words, facts, list, output_with_status, seconds, status_line, unshown_words,
};
pub use run::{Ending, Run, TerminalGuard, Watched, run_or_leave, run_to_end};
pub use signal::{Ladder, Rung, StopSignal, signal_name};

/// Starts commands and looks after them. The methods are those of the Agent Client Protocol, version 1, each with a
/// superset of its arguments.
pub trait TerminalClient: Send + Sync + 'static {
    /// `terminal/create`: starts a command and returns at once.
    ///
    /// # Errors
    /// `invalid_args`, `policy_denied` (an environment entry), `too_large` (a command over the system's limit),
    /// `not_found` (the program or the folder), `permission_denied`, `io`. Nothing has been started then.
    fn create_terminal(&self, request: CreateTerminal) -> Answer<'_, OpenTerminal>;

    /// `terminal/output`: what was printed so far; never waits.
    ///
    /// # Errors
    /// `not_found` for an id that was released or never given.
    fn terminal_output(&self, query: OutputQuery) -> Answer<'_, TerminalOutput>;

    /// Beyond the protocol: waits until more was read than `seen` (an earlier answer's `bytes_read`), or until the
    /// command ended.
    ///
    /// # Errors
    /// `not_found`, as above.
    fn wait_for_terminal_output<'a>(&'a self, id: &'a TerminalId, seen: u64) -> Answer<'a, ()>;

    /// Beyond the protocol: types at a terminal that was created with a `tty`. The moment for which a program that
    /// does not read is waited for is short; what it did not take is told.
    ///
    /// # Errors
    /// `not_found`, as above; `invalid_args` for a command without a tty, or one that has closed it; `too_large` for
    /// a line that the terminal would cut.
    fn write_terminal<'a>(&'a self, id: &'a TerminalId, strokes: Vec<Stroke>) -> Answer<'a, Typed>;

    /// `terminal/wait_for_exit`: waits for the command itself, never for the end of a pipe that something it left
    /// behind still holds.
    ///
    /// # Errors
    /// `not_found`, as above.
    fn wait_for_terminal_exit<'a>(&'a self, id: &'a TerminalId) -> Answer<'a, TerminalExit>;

    /// `terminal/kill`: stops the command and every process that it started, directly or not. What another service
    /// was asked to start was never its child and goes on. The id stays valid.
    ///
    /// # Errors
    /// `not_found`, as above. Something that already ended is not an error.
    fn kill_terminal<'a>(&'a self, id: &'a TerminalId, ladder: Ladder) -> Answer<'a, Stopped>;

    /// `terminal/release`: stops what still runs and forgets the id.
    ///
    /// # Errors
    /// `not_found`, as above.
    fn release_terminal<'a>(&'a self, id: &'a TerminalId) -> Answer<'a, ()>;

    /// Beyond the protocol: the addresses that the command and what it started listen on, as `127.0.0.1:3000`. Empty
    /// where this is not known.
    ///
    /// # Errors
    /// `not_found`, as above.
    fn terminal_listeners<'a>(&'a self, _id: &'a TerminalId) -> Answer<'a, Vec<String>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    /// The same as `release_terminal` without waiting, for a caller that is being dropped.
    fn abandon_terminal(&self, id: TerminalId);
}

/// The name of a terminal: `term-0`, `term-1` and so on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct TerminalId(String);

impl TerminalId {
    /// The `n`-th terminal of this process life.
    pub fn nth(n: u64) -> Self {
        Self(format!("term-{n}"))
    }

    /// As it travels.
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

/// What is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Launch {
    /// A command line, read by bash.
    Shell(String),
    /// A program with its arguments, read by nobody.
    Program {
        /// The program: a path, or a name looked up on the PATH.
        command: String,
        /// Its arguments, passed on as they are.
        args: Vec<String>,
    },
}

impl fmt::Display for Launch {
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
    /// How wide a line is.
    pub cols: u16,
    /// How many lines there are.
    pub rows: u16,
}

impl Default for WindowSize {
    fn default() -> Self {
        Self { cols: 120, rows: 40 }
    }
}

/// What came of typing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Typed {
    /// How many bytes were to be typed.
    pub given: usize,
    /// How many the terminal took.
    pub taken: usize,
}

/// What a command with a terminal waits for, as far as the system shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputWait {
    /// A line that its terminal does not echo, as at a password prompt.
    Unechoed,
    /// Input: a process of it is blocked reading its terminal.
    Blocked,
}

/// The arguments of `terminal/create`. Beyond the protocol's: how much text is wanted, what the command reads,
/// whether it gets a terminal of its own, and the request under whose name its output is kept.
#[derive(Debug, Clone)]
pub struct CreateTerminal {
    /// What to start.
    pub launch: Launch,
    /// Entries added to the environment; those that change how programs are loaded are refused.
    pub env: Vec<(String, String)>,
    /// Where it starts: absolute, and inside the workspace already.
    pub cwd: PathBuf,
    /// How much output an editor should keep. This machine keeps all of it on disk and does not need it.
    pub output_byte_limit: Option<u64>,
    /// How much text is wanted back.
    pub budget: Budget,
    /// Keep escape sequences and progress lines.
    pub raw: bool,
    /// What the command reads; nothing means an empty input.
    pub stdin: Option<String>,
    /// A pseudo terminal of this size as its input and output; its input is then what is typed there.
    pub tty: Option<WindowSize>,
    /// It is meant to go on by itself: it lives through a crash of the runner, whose next life takes it up again.
    pub background: bool,
    /// It goes on when its call is over, so it runs on this machine whoever follows the call.
    pub outlives_call: bool,
    /// Secrets that it is given, for as long as anything of it runs. It then runs on this machine, and ends with the
    /// runner.
    pub mounted: Option<Arc<Mounted>>,
    /// The request that asks.
    pub request: RequestId,
    /// Which of the request's outputs this is, from 0.
    pub output_number: u32,
}

impl CreateTerminal {
    /// Starts this at this place, with everything else at its default.
    pub fn new(request: &RequestId, launch: Launch, cwd: PathBuf) -> Self {
        Self {
            launch,
            env: Vec::new(),
            cwd,
            output_byte_limit: None,
            budget: Budget::default(),
            raw: false,
            stdin: None,
            tty: None,
            background: false,
            outlives_call: false,
            mounted: None,
            request: request.clone(),
            output_number: 0,
        }
    }
}

/// A terminal that was started.
#[derive(Debug, Clone)]
pub struct OpenTerminal {
    /// Its name from now on.
    pub id: TerminalId,
    /// The command's process id, where this is known.
    pub pid: Option<u32>,
    /// Identifies it beyond this process; absent where the system does not tell processes apart.
    pub trace: Option<CommandTrace>,
}

/// Identifies a command beyond the runner process that started it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommandTrace {
    /// Which process it is, for ever.
    pub identity: String,
    /// The named pipe of its output; absent where the command ends with the runner.
    pub output: Option<PathBuf>,
    /// The request that started it.
    pub request: RequestId,
    /// Escape sequences and progress lines are kept.
    pub raw: bool,
}

/// The arguments of `terminal/output`.
#[derive(Debug, Clone)]
pub struct OutputQuery {
    /// Which terminal.
    pub id: TerminalId,
    /// Only what was printed after this cursor of an earlier answer.
    pub since: Option<u64>,
}

impl OutputQuery {
    /// All of it.
    pub fn all(id: &TerminalId) -> Self {
        Self { id: id.clone(), since: None }
    }
}

/// What a terminal has printed.
#[derive(Debug, Clone, Default)]
pub struct TerminalOutput {
    /// The text, within the budget; with a cursor, what is new, at most the last 64 KiB of it.
    pub text: String,
    /// How many bytes the text leaves out.
    pub omitted_bytes: u64,
    /// Where the whole is kept; absent when nothing was printed yet, or when nothing of it could be kept.
    pub handle: Option<OutputHandle>,
    /// The next `since`.
    pub cursor: u64,
    /// How many bytes were read from the command so far.
    pub bytes_read: u64,
    /// How the command ended, if it has.
    pub exit: Option<TerminalExit>,
    /// How long the command ran, or runs so far.
    pub elapsed: Duration,
    /// What it left behind that still lives; only looked for after the command ended.
    pub left: Vec<ProcessName>,
    /// Bytes that were no text.
    pub lossy_chars: u64,
    /// Secret values masked.
    pub redactions: u64,
    /// Why not everything is on disk.
    pub cut_short: Option<String>,
    /// Whether the command has a terminal to type at.
    pub tty: bool,
    /// What it waits for to be typed; when it was stopped, what it waited for then.
    pub input: Option<InputWait>,
    /// Characters after the text that are not shown yet: they may be the beginning of a secret.
    pub held_back: usize,
    /// The command runs in an editor's terminal.
    pub in_editor: bool,
    /// Things worth knowing of where and how it ran.
    pub warnings: Vec<String>,
    /// Why a command that failed may have, where its confinement explains it.
    pub hint: Option<String>,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExitStatus {
    /// By itself, with this code.
    Code(i32),
    /// By a signal, as `SIGKILL`.
    Signal(String),
    /// In a way that nobody saw, for this reason.
    Unseen(&'static str),
}

/// What a shell makes of a program that SIGKILL ended: 128 and the signal's number.
pub const KILLED: i32 = 137;

impl ExitStatus {
    /// Whether it ended with a code that says that something went wrong.
    pub fn is_a_failure(&self) -> bool {
        matches!(self, Self::Code(code) if *code != 0)
    }

    /// Whether SIGKILL ended it, or a program of it as a shell tells that.
    pub fn may_be_a_kill(&self) -> bool {
        match self {
            Self::Code(code) => *code == KILLED,
            Self::Signal(name) => name == "SIGKILL",
            Self::Unseen(_) => false,
        }
    }
}

/// The end of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TerminalExit {
    /// How it ended.
    pub status: ExitStatus,
    /// Something it started still holds the output open.
    pub output_open: bool,
    /// What it left running.
    pub left: Vec<ProcessName>,
    /// It was killed, or a process of it was, and the system ended something for want of memory meanwhile.
    pub out_of_memory: bool,
}

/// A process, as an answer names it.
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

/// What came of stopping a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stopped {
    /// The last signal sent; none when nothing ran any more.
    pub by: Option<StopSignal>,
    /// What would not die.
    pub survivors: Vec<ProcessName>,
    /// The editor that was told to stop it, where it ran there: which signal it sends is its own matter.
    pub in_editor: Option<String>,
}
