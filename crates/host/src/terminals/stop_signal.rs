//! Signals by name, and the sequence of signals by which a command is stopped.

use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

/// A signal that stops a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
pub enum StopSignal {
    /// As Ctrl-C does.
    #[serde(rename = "INT", alias = "SIGINT")]
    Interrupt,
    /// Asks it to end.
    #[default]
    #[serde(rename = "TERM", alias = "SIGTERM")]
    Terminate,
    /// As a closed terminal does.
    #[serde(rename = "HUP", alias = "SIGHUP")]
    HangUp,
    /// Ends it, often with a trace.
    #[serde(rename = "QUIT", alias = "SIGQUIT")]
    Quit,
    /// Cannot be refused.
    #[serde(rename = "KILL", alias = "SIGKILL")]
    Kill,
}

impl StopSignal {
    /// Returns the system's name of the signal.
    pub fn system_name(self) -> &'static str {
        match self {
            Self::Interrupt => "SIGINT",
            Self::Terminate => "SIGTERM",
            Self::HangUp => "SIGHUP",
            Self::Quit => "SIGQUIT",
            Self::Kill => "SIGKILL",
        }
    }
}

impl fmt::Display for StopSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.system_name())
    }
}

/// One step of stopping: a signal, and the time until the next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StopStep {
    /// The signal to send.
    pub signal: StopSignal,
    /// The time before the next step. A command that ends sooner is not waited for.
    pub grace: Duration,
}

/// The steps by which a command is stopped. SIGKILL always follows the last one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopSequence(Vec<StopStep>);

impl StopSequence {
    /// Creates a sequence of these steps.
    pub fn from_steps(rungs: Vec<StopStep>) -> Self {
        Self(rungs)
    }

    /// Returns the steps for a cancelled call: SIGINT as from a keyboard, then SIGTERM.
    pub fn for_cancel() -> Self {
        Self(vec![
            StopStep {
                signal: StopSignal::Interrupt,
                grace: Duration::from_secs(2),
            },
            StopStep {
                signal: StopSignal::Terminate,
                grace: Duration::from_secs(8),
            },
        ])
    }

    /// Returns the steps for a command that exceeded its time limit.
    pub fn for_timeout() -> Self {
        Self::for_signal(StopSignal::Terminate, Duration::from_secs(2))
    }

    /// Returns the steps for a command that the owner stops: it must end within a second.
    pub fn for_owner_stop() -> Self {
        Self::for_signal(StopSignal::Terminate, Duration::from_millis(500))
    }

    /// Returns the steps of one signal, then SIGKILL after `grace`.
    pub fn for_signal(signal: StopSignal, grace: Duration) -> Self {
        match signal {
            StopSignal::Kill => Self::kill_at_once(),
            signal => Self(vec![StopStep { signal, grace }]),
        }
    }

    /// Returns a sequence that sends SIGKILL at once.
    pub fn kill_at_once() -> Self {
        Self(Vec::new())
    }

    /// Returns the steps before SIGKILL.
    pub fn steps(&self) -> &[StopStep] {
        &self.0
    }
}

/// Returns the name of a signal, such as `SIGSEGV`.
#[cfg(unix)]
pub fn signal_name(number: i32) -> Option<&'static str> {
    let known = [
        (libc::SIGHUP, "SIGHUP"),
        (libc::SIGINT, "SIGINT"),
        (libc::SIGQUIT, "SIGQUIT"),
        (libc::SIGILL, "SIGILL"),
        (libc::SIGTRAP, "SIGTRAP"),
        (libc::SIGABRT, "SIGABRT"),
        (libc::SIGBUS, "SIGBUS"),
        (libc::SIGBUS, "SIGBUS"),
        (libc::SIGFPE, "SIGFPE"),
        (libc::SIGKILL, "SIGKILL"),
        (libc::SIGUSR1, "SIGUSR1"),
        (libc::SIGSEGV, "SIGSEGV"),
        (libc::SIGUSR2, "SIGUSR2"),
        (libc::SIGPIPE, "SIGPIPE"),
        (libc::SIGALRM, "SIGALRM"),
        (libc::SIGTERM, "SIGTERM"),
        (libc::SIGXCPU, "SIGXCPU"),
        (libc::SIGXFSZ, "SIGXFSZ"),
        (libc::SIGVTALRM, "SIGVTALRM"),
        (libc::SIGPROF, "SIGPROF"),
        (libc::SIGIO, "SIGIO"),
        (libc::SIGSYS, "SIGSYS"),
    ];
    known
        .iter()
        .find(|(n, _)| *n == number)
        .map(|(_, name)| *name)
}

/// Returns `None`, because this system has no signals.
#[cfg(not(unix))]
pub fn signal_name(_number: i32) -> Option<&'static str> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_is_read_with_and_without_its_prefix() {
        for text in ["\"TERM\"", "\"SIGTERM\""] {
            assert_eq!(
                serde_json::from_str::<StopSignal>(text).expect(text),
                StopSignal::Terminate
            );
        }
        assert!(serde_json::from_str::<StopSignal>("\"STOP\"").is_err());
    }

    #[test]
    fn asking_for_kill_climbs_no_rung() {
        assert_eq!(
            StopSequence::for_signal(StopSignal::Kill, Duration::from_secs(9)),
            StopSequence::kill_at_once()
        );
    }
}
