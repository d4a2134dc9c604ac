//! Exit codes and the errors that lead to them. They are part of the interface: scripts and service managers rely on
//! them.

use std::fmt;
use std::process::ExitCode;

use serde::Serialize;

use crate::config::ConfigError;
use punie_dev_backend::DevBackendError;
use punie_engine::backend::{BackendError, BadUrl, RecoveryAction};
use punie_engine::journal::JournalError;
use punie_engine::runner::RunnerError;
#[cfg(feature = "bridges")]
use punie_home::BridgeError;
use punie_home::{HomeError, LockError};

/// The exit code of a command, from sysexits.h where possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Exit {
    /// Success.
    Done,
    /// Failure; for `send` and `call`: the tool answered with an error.
    Failed,
    /// Invalid command line.
    Usage,
    /// No runner runs.
    NotRunning,
    /// The backend cannot be reached, or an embedded one cannot listen on its port.
    Unreachable,
    /// State cannot be written.
    CannotWrite,
    /// Another instance runs.
    AlreadyRuns,
    /// Not paired, or refused.
    Refused,
    /// Bad configuration.
    Config,
    /// The wait ran out.
    TimedOut,
}

impl Exit {
    /// Returns the number.
    pub fn code(self) -> u8 {
        match self {
            Self::Done => 0,
            Self::Failed => 1,
            Self::Usage => 2,
            Self::NotRunning => 3,
            Self::Unreachable => 69,
            Self::CannotWrite => 73,
            Self::AlreadyRuns => 75,
            Self::Refused => 77,
            Self::Config => 78,
            Self::TimedOut => 124,
        }
    }

    fn from_code(code: u8) -> Self {
        [
            Self::Done,
            Self::Usage,
            Self::NotRunning,
            Self::Unreachable,
            Self::CannotWrite,
            Self::AlreadyRuns,
            Self::Refused,
            Self::Config,
            Self::TimedOut,
        ]
        .into_iter()
        .find(|exit| exit.code() == code)
        .unwrap_or(Self::Failed)
    }

    /// Returns the exit code for an error: that of the first cause in its chain with one.
    pub fn from_error(error: &anyhow::Error) -> Self {
        error
            .chain()
            .find_map(exit_for_cause)
            .unwrap_or(Self::Failed)
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}

fn exit_for_cause(cause: &(dyn std::error::Error + 'static)) -> Option<Exit> {
    if let Some(error) = cause.downcast_ref::<CommandError>() {
        return Some(error.exit);
    }
    if let Some(error) = cause.downcast_ref::<ConfigError>() {
        return Some(Exit::from_code(error.exit_code()));
    }
    if let Some(error) = cause.downcast_ref::<HomeError>() {
        return Some(Exit::from_code(error.exit_code()));
    }
    #[cfg(feature = "bridges")]
    if let Some(BridgeError::Home(error)) = cause.downcast_ref::<BridgeError>() {
        return Some(Exit::from_code(error.exit_code()));
    }
    if let Some(error) = cause.downcast_ref::<LockError>() {
        return Some(Exit::from_code(error.exit_code()));
    }
    if let Some(error) = cause.downcast_ref::<BackendError>() {
        return Some(exit_for_backend_error(error));
    }
    if let Some(error) = cause.downcast_ref::<RunnerError>() {
        return Some(match error {
            RunnerError::Journal(_) => Exit::CannotWrite,
            RunnerError::Barred(_) => Exit::Refused,
            RunnerError::OtherBackend => Exit::Unreachable,
            RunnerError::Backend(error) => exit_for_backend_error(error),
        });
    }
    if let Some(error) = cause.downcast_ref::<DevBackendError>() {
        return Some(match error {
            DevBackendError::Listen { .. } => Exit::Unreachable,
            _ => Exit::CannotWrite,
        });
    }
    if cause.is::<JournalError>() {
        return Some(Exit::CannotWrite);
    }
    cause.is::<BadUrl>().then_some(Exit::Config)
}

/// Describes an error with its causes, without the system's numbers. A cause that is named already is left out.
pub fn describe_error(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = without_os_error(&cause.to_string());
        if !text.contains(&cause) {
            text.extend([if text.is_empty() { "" } else { ": " }, &cause]);
        }
    }
    text
}

/// Removes each ` (os error N)`, which says nothing to people.
fn without_os_error(text: &str) -> String {
    let mut pieces = text.split(" (os error ");
    let mut plain = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        plain += piece.split_once(')').map_or(piece, |(_, rest)| rest);
    }
    plain
}

/// Returns the exit code for a backend's error.
pub fn exit_for_backend_error(error: &BackendError) -> Exit {
    match error.recovery_action() {
        RecoveryAction::Retry(_) | RecoveryAction::RetrySlowly => Exit::Unreachable,
        RecoveryAction::GiveUp
            if matches!(
                error.refusal_code(),
                Some("INVALID_ARGUMENT" | "REQUEST_ID_REUSED" | "REQUEST_UNKNOWN")
            ) =>
        {
            Exit::Failed
        }
        RecoveryAction::Shrink(_) => Exit::Failed,
        RecoveryAction::GiveUp
        | RecoveryAction::ReopenSession
        | RecoveryAction::CorrectClock(_)
        | RecoveryAction::SignAgain => Exit::Refused,
    }
}

/// An error with a message and an exit code.
#[derive(Debug)]
pub struct CommandError {
    exit: Exit,
    message: String,
}

impl CommandError {
    /// Creates an error with this exit code and message.
    pub fn with_exit(exit: Exit, message: impl Into<String>) -> anyhow::Error {
        Self {
            exit,
            message: message.into(),
        }
        .into()
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CommandError {}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn an_error_names_each_cause_once() {
        let source = io::Error::from_raw_os_error(13);
        let path = "/h/config.toml".into();
        let error = anyhow::Error::new(HomeError::Unwritable { path, source }).context("it failed");
        let text = describe_error(&error);
        assert!(text.starts_with("it failed: /h/config.toml cannot be written: "));
        assert_eq!(text.matches("denied").count(), 1, "{text}");
        assert!(
            !text.contains("os error") && !text.contains("disk"),
            "{text}"
        );
    }
}
