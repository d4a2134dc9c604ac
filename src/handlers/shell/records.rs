//! What the list of shells needs of whoever writes them down, so that they are still known after a restart of the
//! runner. Not here: how that is done.

use std::future::Future;
use std::pin::Pin;

use super::board::Shell;
use crate::acp::terminals::{CommandTrace, ExitStatus, TerminalOutput};

/// Done when it is written down.
pub type Written<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// A shell to be written down.
pub struct NewShell<'a> {
    /// Its name and what is said of it.
    pub shell: &'a Shell,
    /// Identifies its command beyond this process.
    pub trace: Option<&'a CommandTrace>,
    /// Where its output is kept, if it has printed anything.
    pub handle: Option<&'a str>,
    /// How its command has ended, if it has.
    pub exit: Option<&'a ExitStatus>,
    /// Whether the command runs, or something it left behind.
    pub runs: bool,
}

/// Writes shells down.
pub trait ShellRecords: Send + Sync + 'static {
    /// There is a new one.
    fn begun<'a>(&'a self, shell: NewShell<'a>) -> Written<'a>;
    /// It has ended; what is known already is not changed.
    fn ended(&self, number: u32, exit: &ExitStatus);
    /// It is not listed any more.
    fn forgotten(&self, number: u32);
}

/// Writes nothing down: for a command that runs one tool and ends.
#[derive(Debug, Clone, Copy, Default)]
pub struct Unrecorded;

impl ShellRecords for Unrecorded {
    fn begun<'a>(&'a self, _: NewShell<'a>) -> Written<'a> {
        Box::pin(std::future::ready(()))
    }
    fn ended(&self, _: u32, _: &ExitStatus) {}
    fn forgotten(&self, _: u32) {}
}

/// A shell of an earlier life of the runner that is over.
#[derive(Debug)]
pub struct Past {
    /// What became of it: `ended before the runner was restarted, exit code 0`.
    pub words: String,
    /// What is known of its output.
    pub output: TerminalOutput,
}
