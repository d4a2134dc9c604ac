//! What can go wrong with a backend call, and what to do about each.

use std::time::Duration;

/// A failed call.
#[derive(Debug, Clone, thiserror::Error)]
pub enum BackendError {
    /// No answer: refused, reset, timed out, no name. Whether the call took effect is unknown.
    #[error("{url} cannot be reached: {cause}")]
    Unreachable {
        /// The backend's address.
        url: String,
        /// The transport's words.
        cause: String,
    },
    /// Something answered, but not this API: a captive portal, a proxy, half a reply.
    #[error("{url} did not answer as an event backend: {cause}")]
    Intercepted {
        /// The backend's address.
        url: String,
        /// What came instead.
        cause: String,
    },
    /// The address answers 404 and has never answered as a backend: it is probably wrong.
    #[error("no event backend answers at {url} (404): check the address")]
    NoBackend {
        /// The backend's address.
        url: String,
    },
    /// The answer is longer than what is read.
    #[error("{url} answered with more than {limit} bytes")]
    Oversized {
        /// The backend's address.
        url: String,
        /// What is read at most.
        limit: usize,
    },
    /// An HTTP status that says to come back later.
    #[error("the backend answered with status {status} ({code})")]
    Busy {
        /// The HTTP status.
        status: u16,
        /// Its code, where it gave one.
        code: String,
        /// When it wants to be asked again.
        retry_after: Option<Duration>,
    },
    /// The caller's or the device's credentials were refused before any function ran.
    #[error("the backend refused the credentials ({code})")]
    Unauthorized {
        /// Its code, where it gave one.
        code: String,
    },
    /// The request itself was refused before any function ran: a fault of ours, or of the address.
    #[error("the backend refused the call with status {status}: {message}")]
    BadCall {
        /// The HTTP status.
        status: u16,
        /// Its words.
        message: String,
    },
    /// A function failed without saying why in a form to act on; on a production deployment also: quota, paused.
    #[error("the backend's function failed: {message}")]
    Function {
        /// Its words.
        message: String,
    },
    /// A function refused, with a code.
    #[error("the backend refused: {0}")]
    Refused(Refusal),
    /// Another deployment answers at the address than before: what is kept for that one is not for this one.
    #[error("another backend answers at {url} than before")]
    OtherBackend {
        /// The address.
        url: String,
    },
    /// A function's answer is not of the contract's shape.
    #[error("the backend's answer to {function} is not of the agreed shape: {cause}")]
    Shape {
        /// The function.
        function: &'static str,
        /// What does not fit.
        cause: String,
    },
}

/// A refusal with a code of the contract.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{code}{}", if message.is_empty() { String::new() } else { format!(": {message}") })]
pub struct Refusal {
    /// The code.
    pub code: String,
    /// More words, where there are.
    pub message: String,
    /// The limit of `TOO_LARGE`, in bytes.
    pub limit: Option<u64>,
    /// The backend's clock, with `SIGNATURE_STALE`.
    pub server_now_ms: Option<f64>,
}

/// How soon a failed call may be repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pause {
    /// After the back-off.
    BackOff,
    /// After the back-off, and at least so many of its first intervals.
    Intervals(u32),
    /// When the backend says: after this time, and little more.
    Asked(Duration),
}

/// What to do about a failed call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Disposition {
    /// Ask again, so soon.
    Retry(Pause),
    /// Ask again, seldom: the deployment may be out of order for long.
    RetrySlowly,
    /// Open the session anew, then ask again.
    Reopen,
    /// Correct the clock by this reading, then ask again.
    CorrectClock(Option<f64>),
    /// Sign anew, then ask again.
    SignAgain,
    /// Shrink the payload to this many bytes, then ask again.
    Shrink(Option<u64>),
    /// Asking again can never succeed.
    Never,
}

/// The reason why nothing comes through to the backend, the one that matters most to a person first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConnectionProblem {
    /// The backend refuses this device.
    Refused,
    /// Something between here and the backend answers in its place.
    Intercepted,
    /// There is no backend at the address.
    NoBackend,
    /// The address cannot be reached.
    Unreachable,
    /// The backend asks to wait.
    Busy,
    /// The backend fails, or answers what is not understood.
    Failing,
}

impl ConnectionProblem {
    /// The word for it in `status` and in scripts.
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
    /// What to do about it.
    pub fn disposition(&self) -> Disposition {
        match self {
            Self::Busy { retry_after: Some(time), .. } => Disposition::Retry(Pause::Asked(*time)),
            // Convex gave up a slot after seconds of waiting, or repeated the transaction itself several times.
            Self::Busy { status: 429, .. } => Disposition::Retry(Pause::Intervals(3)),
            Self::Busy { status: 503, .. } => Disposition::Retry(Pause::Intervals(1)),
            // An address without a backend may be one whose functions are being deployed.
            Self::Busy { .. }
            | Self::Unreachable { .. }
            | Self::Intercepted { .. }
            | Self::NoBackend { .. }
            | Self::OtherBackend { .. }
            | Self::Oversized { .. } => Disposition::Retry(Pause::BackOff),
            Self::Unauthorized { .. } => Disposition::Reopen,
            // Something on the way takes less than the contract says.
            Self::BadCall { status: 413, .. } => Disposition::Shrink(None),
            Self::BadCall { .. } | Self::Function { .. } | Self::Shape { .. } => Disposition::RetrySlowly,
            Self::Refused(refusal) => refusal.disposition(),
        }
    }

    /// The reason that a person is given while nothing comes through.
    pub fn problem(&self) -> ConnectionProblem {
        match (self, self.disposition()) {
            (Self::Intercepted { .. }, _) => ConnectionProblem::Intercepted,
            (Self::NoBackend { .. }, _) => ConnectionProblem::NoBackend,
            (Self::Unreachable { .. }, _) => ConnectionProblem::Unreachable,
            (Self::Oversized { .. }, _) => ConnectionProblem::Failing,
            (_, Disposition::Retry(_)) => ConnectionProblem::Busy,
            (_, Disposition::Reopen | Disposition::Never) => ConnectionProblem::Refused,
            _ => ConnectionProblem::Failing,
        }
    }

    /// The contract's code, where the backend gave one.
    pub fn code(&self) -> Option<&str> {
        match self {
            Self::Refused(refusal) => Some(&refusal.code),
            _ => None,
        }
    }
}

impl Refusal {
    fn disposition(&self) -> Disposition {
        match self.code.as_str() {
            "TOO_LARGE" => Disposition::Shrink(self.limit),
            "DEVICE_UNAUTHORIZED" | "DEVICE_UNKNOWN" => Disposition::Reopen,
            "SIGNATURE_STALE" => Disposition::CorrectClock(self.server_now_ms),
            "SIGNATURE_REPLAYED" => Disposition::SignAgain,
            "BAD_SIGNATURE"
            | "DEVICE_KEY_MISMATCH"
            | "REQUEST_ID_REUSED"
            | "REQUEST_UNKNOWN"
            | "RESULT_EXISTS"
            | "LEASE_LOST"
            | "CALLER_UNAUTHORIZED"
            | "PAIRING_REQUIRED"
            | "INVALID_ARGUMENT" => Disposition::Never,
            _ => Disposition::RetrySlowly,
        }
    }
}
