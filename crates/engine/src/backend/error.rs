//! The errors of backend calls, and the reaction to each.

use std::time::Duration;

/// A failed call.
#[derive(Debug, Clone, thiserror::Error)]
pub enum BackendError {
    /// No answer: connection refused or reset, timeout, or unknown host. The call may or may not have taken effect.
    #[error("{url} cannot be reached: {cause}")]
    Unreachable {
        /// The backend's address.
        url: String,
        /// The transport's message.
        cause: String,
    },
    /// No secure connection: a certificate that is not trusted, or an answer that is not TLS. No call was made.
    #[error("{url} cannot be reached securely: {cause}")]
    TlsFailed {
        /// The backend's address.
        url: String,
        /// The fault of the certificate or the handshake.
        cause: String,
    },
    /// Something else answered: a captive portal, a proxy, or a truncated reply.
    #[error("{url} did not answer as an event backend: {cause}")]
    Intercepted {
        /// The backend's address.
        url: String,
        /// A description of the answer.
        cause: String,
    },
    /// The address answers 404 and has never answered as a backend: it is probably wrong.
    #[error("no event backend answers at {url}: it answered 404. Check the address")]
    NoBackend {
        /// The backend's address.
        url: String,
    },
    /// The answer exceeds the size limit.
    #[error("{url} answered with more than {limit} bytes")]
    Oversized {
        /// The backend's address.
        url: String,
        /// The size limit in bytes.
        limit: usize,
    },
    /// An HTTP status that says to come back later.
    #[error("the backend answered with status {status} ({code})")]
    Busy {
        /// The HTTP status.
        status: u16,
        /// The backend's code, if it gave one.
        code: String,
        /// The wait that the backend asked for.
        retry_after: Option<Duration>,
    },
    /// The caller's or the device's credentials were refused before any function ran.
    #[error("the backend refused the credentials ({code})")]
    Unauthorized {
        /// The backend's code, if it gave one.
        code: String,
    },
    /// The request was refused before any function ran: an error of the runner or a wrong address.
    #[error("the backend refused the call with status {status}: {message}")]
    BadCall {
        /// The HTTP status.
        status: u16,
        /// The backend's message.
        message: String,
    },
    /// A function failed without a code to act on. On a production deployment this also means an exceeded quota or a
    /// paused deployment.
    #[error("the backend's function failed: {message}")]
    Function {
        /// The backend's message.
        message: String,
    },
    /// A function refused, with a code.
    #[error("the backend refused: {0}")]
    Refused(FunctionRefusal),
    /// Another deployment than before answers at the address. Data stored for the old one is not valid for it.
    #[error("another backend answers at {url} than before")]
    OtherBackend {
        /// The address.
        url: String,
    },
    /// A function's answer does not match the contract.
    #[error("the backend's answer to {function} is not of the agreed shape: {cause}")]
    Shape {
        /// The function.
        function: &'static str,
        /// The part that does not match.
        cause: String,
    },
}

/// A refusal with a code of the contract.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{code}{}", if message.is_empty() { String::new() } else { format!(": {message}") })]
pub struct FunctionRefusal {
    /// The code.
    pub code: String,
    /// The message, if there is one.
    pub message: String,
    /// The limit of `TOO_LARGE`, in bytes.
    pub limit: Option<u64>,
    /// The backend's clock, with `SIGNATURE_STALE`.
    pub server_now_ms: Option<f64>,
}

/// The delay before a failed call may be repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryDelay {
    /// The usual back-off.
    BackOff,
    /// The back-off, and at least this many of its first intervals.
    Intervals(u32),
    /// A few seconds at most: no backend answered, so repeats add to no backend's load.
    Reconnect,
    /// The time that the backend asked for, with little added.
    Requested(Duration),
}

/// The reaction to a failed call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum RecoveryAction {
    /// Repeat the call after this delay.
    Retry(RetryDelay),
    /// Repeat the call rarely: the deployment may be out of order for long.
    RetrySlowly,
    /// Open a new session, then repeat the call.
    ReopenSession,
    /// Correct the clock to this time, then repeat the call.
    CorrectClock(Option<f64>),
    /// Sign again, then repeat the call.
    SignAgain,
    /// Shrink the payload to this many bytes, then repeat the call.
    Shrink(Option<u64>),
    /// Do not repeat the call: it can never succeed.
    GiveUp,
}

/// The reason why the backend cannot be used, in order of importance to a person.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConnectionProblem {
    /// The backend refuses this device.
    Refused,
    /// Something between the device and the backend answers in its place.
    Intercepted,
    /// There is no backend at the address.
    NoBackend,
    /// The address cannot be reached.
    Unreachable,
    /// The backend asks to wait.
    Busy,
    /// The backend fails, or its answers are not understood.
    Failing,
}

impl ConnectionProblem {
    /// The problems in which no backend answers.
    pub const UNREACHABLE: [Self; 3] = [Self::Intercepted, Self::NoBackend, Self::Unreachable];

    /// Returns the name in `status` and in scripts.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Intercepted => "intercepted",
            Self::NoBackend => "no_backend",
            Self::Unreachable => "unreachable",
            Self::Busy => "busy",
            Self::Failing => "failing",
        }
    }
}

impl BackendError {
    /// Returns the reaction to this error.
    pub fn recovery_action(&self) -> RecoveryAction {
        match self {
            Self::Busy {
                retry_after: Some(time),
                ..
            } => RecoveryAction::Retry(RetryDelay::Requested(*time)),
            // Convex waited seconds for a free slot and gave up, or repeated the transaction itself several times.
            Self::Busy { status: 429, .. } => RecoveryAction::Retry(RetryDelay::Intervals(3)),
            Self::Busy { status: 503, .. } => RecoveryAction::Retry(RetryDelay::Intervals(1)),
            // An address without a backend may be one whose functions are just being deployed.
            Self::Unreachable { .. }
            | Self::TlsFailed { .. }
            | Self::Intercepted { .. }
            | Self::NoBackend { .. } => RecoveryAction::Retry(RetryDelay::Reconnect),
            Self::Busy { .. } | Self::OtherBackend { .. } | Self::Oversized { .. } => {
                RecoveryAction::Retry(RetryDelay::BackOff)
            }
            Self::Unauthorized { .. } => RecoveryAction::ReopenSession,
            // A server in between accepts less than the contract allows.
            Self::BadCall { status: 413, .. } => RecoveryAction::Shrink(None),
            Self::BadCall { .. } | Self::Function { .. } | Self::Shape { .. } => {
                RecoveryAction::RetrySlowly
            }
            Self::Refused(refusal) => refusal.recovery_for_code(),
        }
    }

    /// Returns the reason that people see while the backend cannot be used.
    pub fn connection_problem(&self) -> ConnectionProblem {
        match (self, self.recovery_action()) {
            (Self::Intercepted { .. }, _) => ConnectionProblem::Intercepted,
            (Self::NoBackend { .. }, _) => ConnectionProblem::NoBackend,
            (Self::Unreachable { .. } | Self::TlsFailed { .. }, _) => {
                ConnectionProblem::Unreachable
            }
            (Self::Oversized { .. }, _) => ConnectionProblem::Failing,
            (_, RecoveryAction::Retry(_)) => ConnectionProblem::Busy,
            (_, RecoveryAction::ReopenSession | RecoveryAction::GiveUp) => {
                ConnectionProblem::Refused
            }
            _ => ConnectionProblem::Failing,
        }
    }

    /// Returns whether no backend answered: each of its calls ends so until it is back.
    pub fn is_unreachable(&self) -> bool {
        ConnectionProblem::UNREACHABLE.contains(&self.connection_problem())
    }

    /// Returns the contract's code, if the backend gave one.
    pub fn refusal_code(&self) -> Option<&str> {
        match self {
            Self::Refused(refusal) => Some(&refusal.code),
            _ => None,
        }
    }
}

impl FunctionRefusal {
    fn recovery_for_code(&self) -> RecoveryAction {
        match self.code.as_str() {
            "TOO_LARGE" => RecoveryAction::Shrink(self.limit),
            "DEVICE_UNAUTHORIZED" | "DEVICE_UNKNOWN" => RecoveryAction::ReopenSession,
            "SIGNATURE_STALE" => RecoveryAction::CorrectClock(self.server_now_ms),
            "SIGNATURE_REPLAYED" => RecoveryAction::SignAgain,
            "BAD_SIGNATURE"
            | "DEVICE_KEY_MISMATCH"
            | "REQUEST_ID_REUSED"
            | "REQUEST_UNKNOWN"
            | "RESULT_EXISTS"
            | "LEASE_LOST"
            | "CALLER_UNAUTHORIZED"
            | "PAIRING_REQUIRED"
            | "INVALID_ARGUMENT" => RecoveryAction::GiveUp,
            _ => RecoveryAction::RetrySlowly,
        }
    }
}
