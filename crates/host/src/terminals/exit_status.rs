//! The exit status of a command.

use super::stop_signal::signal_name;

/// The exit status of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExitStatus {
    /// It exited with this code.
    Code(i32),
    /// It was ended by a signal, such as `SIGKILL`.
    Signal(String),
    /// Its exit was not observed, for this reason.
    Unseen(&'static str),
}

/// The exit code by which a shell reports SIGKILL: 128 and the signal's number.
pub const SIGKILL_EXIT_CODE: i32 = 137;

impl ExitStatus {
    /// Returns the status of a process that this signal ended.
    pub fn from_signal_number(number: i32) -> Self {
        Self::Signal(signal_name(number).map_or_else(|| format!("signal {number}"), str::to_owned))
    }

    /// Returns whether it exited with a code other than 0.
    pub fn has_failed(&self) -> bool {
        matches!(self, Self::Code(code) if *code != 0)
    }

    /// Returns whether SIGKILL ended it, or one of its programs as a shell reports it.
    pub fn may_be_killed(&self) -> bool {
        match self {
            Self::Code(code) => *code == SIGKILL_EXIT_CODE,
            Self::Signal(name) => name == "SIGKILL",
            Self::Unseen(_) => false,
        }
    }
}
