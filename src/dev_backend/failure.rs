//! How a function says no: an error with data that clients act on, or one that only a person can mend.
//! Not here: refusals before a function runs, which are HTTP statuses.

use serde::Serialize;

use crate::ids::BadId;

/// The codes clients act on. A client decides by the code, never by the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub(super) enum Code {
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

/// The data of an error that a function threw on purpose (`errorData` on the wire).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Thrown {
    pub code: Code,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_now_ms: Option<f64>,
}

/// Why a call has no value.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    /// Thrown on purpose: its data reaches the client in every mode.
    #[error("Uncaught ConvexError: {}", .0.message)]
    Thrown(Thrown),
    /// The call itself is wrong: unknown function, wrong kind, arguments of another shape.
    #[error("{0}")]
    Refused(String),
    /// The database failed.
    #[error("the embedded backend's database failed: {0}")]
    Database(#[from] rusqlite::Error),
    /// The value could not be written as JSON.
    #[error("a reply could not be written: {0}")]
    Reply(#[from] serde_json::Error),
    /// The system gave no random bytes.
    #[error("no random bytes: {0}")]
    Random(#[from] getrandom::Error),
    /// The server is stopping, or the call's own job died.
    #[error("the embedded backend is stopping")]
    Stopping,
}

impl Failure {
    /// An error with a code and nothing else to act on.
    pub fn thrown(code: Code, message: impl Into<String>) -> Self {
        Self::Thrown(Thrown { code, message: message.into(), limit: None, server_now_ms: None })
    }

    /// An argument of the right shape that cannot mean anything.
    pub fn invalid(message: impl Into<String>) -> Self {
        Self::thrown(Code::InvalidArgument, message)
    }

    /// Text longer than the contract lets it be.
    pub fn too_large(what: &str, limit: usize) -> Self {
        #[expect(clippy::cast_precision_loss, reason = "limits are a few MiB")]
        Self::Thrown(Thrown {
            code: Code::TooLarge,
            message: format!("{what} is larger than {limit} bytes"),
            limit: Some(limit as f64),
            server_now_ms: None,
        })
    }

    /// A signature made too far from the server's time.
    pub fn stale(server_now_ms: f64) -> Self {
        Self::Thrown(Thrown {
            code: Code::SignatureStale,
            message: "the signature's time is more than 5 minutes from the server's".into(),
            limit: None,
            server_now_ms: Some(server_now_ms),
        })
    }
}

/// What a client is told of a failure.
pub(super) struct Told<'f> {
    pub message: String,
    pub data: Option<&'f Thrown>,
}

impl Failure {
    /// In production only thrown data tells what happened.
    pub fn told(&self, production: bool) -> Told<'_> {
        let message = if production {
            let id = uuid::Uuid::new_v4().simple().to_string();
            format!("[Request ID: {}] Server Error", &id[..16])
        } else {
            self.to_string()
        };
        if matches!(self, Self::Database(_) | Self::Reply(_) | Self::Random(_) | Self::Stopping) {
            tracing::warn!(error = %self, "a function of the embedded backend failed");
        }
        Told { message, data: self.data() }
    }

    /// The data of an error that was thrown on purpose.
    pub fn data(&self) -> Option<&Thrown> {
        match self {
            Self::Thrown(thrown) => Some(thrown),
            _ => None,
        }
    }
}

impl From<BadId> for Failure {
    fn from(bad: BadId) -> Self {
        Self::invalid(bad.to_string())
    }
}
