//! The interface for records of shells, which survive a restart of the runner.

use std::future::Future;
use std::pin::Pin;

use super::background_shell::BackgroundShell;
use punie_host::terminals::{CommandTrace, ExitStatus};

/// A future that completes once the record is stored.
pub type RecordFuture<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// A shell to record.
pub struct NewShell<'a> {
    /// The shell.
    pub shell: &'a BackgroundShell,
    /// Identifies its command across runner processes.
    pub trace: Option<&'a CommandTrace>,
    /// The handle of its stored output, if it has printed anything.
    pub handle: Option<&'a str>,
    /// The exit status of its command, if it has ended.
    pub exit: Option<&'a ExitStatus>,
    /// Its command or a process that it left still runs.
    pub runs: bool,
}

/// Records shells.
pub trait ShellRecords: Send + Sync + 'static {
    /// Records a new shell.
    fn record_start<'a>(&'a self, shell: NewShell<'a>) -> RecordFuture<'a>;
    /// Records the end of a shell. Does not change an end that is already recorded.
    fn record_end(&self, number: u32, exit: &ExitStatus);
    /// Records that a shell was removed from the list.
    fn record_removal(&self, number: u32);
}

/// Records nothing, for a process that runs one tool and exits.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoShellRecords;

impl ShellRecords for NoShellRecords {
    fn record_start<'a>(&'a self, _: NewShell<'a>) -> RecordFuture<'a> {
        Box::pin(std::future::ready(()))
    }
    fn record_end(&self, _: u32, _: &ExitStatus) {}
    fn record_removal(&self, _: u32) {}
}
