//! Failures of functions: errors with data that clients act on, and errors that only a person can fix.
//! Not here: refusals before a function runs, which are HTTP statuses.

use serde::Serialize;

use punie_core::ids::BadId;

/// The codes of errors. Clients decide by the code, never by the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(super) enum FailureCode {
    BadSignature,
    CallerUnauthorized,
    DeviceKeyMismatch,
    DeviceUnauthorized,
    DeviceUnknown,
    InvalidArgument,
    LeaseLost,
    PairingRequired,
    RequestIdReused,
    RequestUnknown,
    ResultExists,
    SignatureReplayed,
    SignatureStale,
    TooLarge,
}

/// The data of an error that a function raised on purpose (`errorData` in the reply).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ThrownError {
    pub code: FailureCode,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_now_ms: Option<f64>,
}

/// The reason why a call has no value.
#[derive(Debug, thiserror::Error)]
pub(super) enum FunctionFailure {
    /// Raised on purpose: its data reaches the client.
    #[error("Uncaught ConvexError: {}", .0.message)]
    Thrown(ThrownError),
    /// The call itself is wrong: unknown function, wrong kind, or malformed arguments.
    #[error("{0}")]
    Refused(String),
    /// The database failed.
    #[error("the embedded backend's database failed: {0}")]
    Database(#[from] rusqlite::Error),
    /// The value could not be serialized as JSON.
    #[error("a reply could not be written: {0}")]
    Reply(#[from] serde_json::Error),
    /// The system provided no random bytes.
    #[error("no random bytes: {0}")]
    Random(#[from] getrandom::Error),
    /// The server is stopping, or the call's job panicked.
    #[error("the embedded backend is stopping")]
    Stopping,
}

/// The result of a function, or of a part of it.
pub(super) type FunctionResult<T> = Result<T, FunctionFailure>;

impl FunctionFailure {
    /// Creates an error with a code and no further data.
    pub fn with_code(code: FailureCode, message: impl Into<String>) -> Self {
        Self::Thrown(ThrownError {
            code,
            message: message.into(),
            limit: None,
            server_now_ms: None,
        })
    }

    /// Creates an error for a well-formed argument with an invalid value.
    pub fn invalid_argument(message: impl Into<String>) -> Self {
        Self::with_code(FailureCode::InvalidArgument, message)
    }

    /// Creates an error for text over the contract's size limit.
    pub fn payload_too_large(what: &str, limit: usize) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "limits are a few MiB")]
        Self::Thrown(ThrownError {
            code: FailureCode::TooLarge,
            message: format!("{what} is larger than {limit} bytes"),
            limit: Some(limit as f64),
            server_now_ms: None,
        })
    }

    /// Creates an error for a signature whose time is too far from the server's.
    pub fn stale_signature(server_now_ms: f64) -> Self {
        Self::Thrown(ThrownError {
            code: FailureCode::SignatureStale,
            message: "the signature's time is more than 5 minutes from the server's".into(),
            limit: None,
            server_now_ms: Some(server_now_ms),
        })
    }

    /// Returns the text for the client. A fault of this backend is logged, too.
    pub fn client_message(&self) -> String {
        if matches!(
            self,
            Self::Database(_) | Self::Reply(_) | Self::Random(_) | Self::Stopping
        ) {
            tracing::warn!(error = %self, "a function of the embedded backend failed");
        }
        self.to_string()
    }

    /// Returns the data of an error that was raised on purpose.
    pub fn thrown_data(&self) -> Option<&ThrownError> {
        match self {
            Self::Thrown(thrown) => Some(thrown),
            _ => None,
        }
    }
}

impl From<BadId> for FunctionFailure {
    fn from(bad: BadId) -> Self {
        Self::invalid_argument(bad.to_string())
    }
}
