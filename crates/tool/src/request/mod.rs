//! Requests, their outcomes, and the one way from an outcome to a payload that may be posted.

mod payload;
mod request_signature;
mod result_meta;
mod seal;
mod tool_reply;

pub use payload::{shrink_payload, untold_notes};
pub use punie_core::request_session::RequestSession;
pub use punie_core::tool_effect::ToolEffect;
pub use request_signature::{RequestAuth, SignatureRejection, SignedRequest, public_key_from_seed};
pub use result_meta::{FileChange, ResultMeta};
pub use seal::{CallEnd, CleanReply, SealContext};
pub use tool_reply::{ReplyBody, ToolReply};

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use punie_core::ids::{ConversationId, RequestId, ToolName};

/// One request as the backend offered it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolRequest {
    /// The id that the caller made; the device runs each id once.
    pub id: RequestId,
    /// The tool that is asked for; it may not exist.
    pub tool: ToolName,
    /// The arguments as JSON text, not yet parsed.
    pub args: String,
    /// Calls of one conversation keep their order.
    pub conversation: ConversationId,
    /// The kind of agent that asks, if the caller named it.
    pub agent_type: Option<String>,
    /// The caller's name, which the backend knows by the token. `None` if the backend does not name callers.
    pub caller: Option<String>,
    /// The client and the folders of its session. `None` if the request belongs to none, and is not narrowed.
    pub session: Option<Arc<RequestSession>>,
    /// The time at which the backend stored it: milliseconds of the backend's clock.
    pub created_at_ms: f64,
    /// The time after which its answer is useless: milliseconds of the backend's clock.
    pub deadline_ms: Option<f64>,
    /// True if the caller has already cancelled it.
    pub cancelled: bool,
    /// The time at which the caller signed it: milliseconds since 1970 by the caller's clock. The journal stores
    /// neither this nor the signature, because both are checked on arrival only.
    pub issued_at_ms: Option<f64>,
    /// The caller's signature, as base64.
    pub signature: Option<String>,
}

/// The stable codes of a failed call (spec: tools, section 0).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are the field's own words")]
pub enum ErrorCode {
    InvalidArgs,
    UnknownTool,
    NotFound,
    IsDirectory,
    NotText,
    TooLarge,
    OutsideWorkspace,
    PermissionDenied,
    PolicyDenied,
    Ambiguous,
    NoMatch,
    Stale,
    Timeout,
    Cancelled,
    Expired,
    Busy,
    Interrupted,
    Io,
    Internal,
}

impl ErrorCode {
    /// Returns the code for `meta.code`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::InvalidArgs => "invalid_args",
            Self::UnknownTool => "unknown_tool",
            Self::NotFound => "not_found",
            Self::IsDirectory => "is_directory",
            Self::NotText => "not_text",
            Self::TooLarge => "too_large",
            Self::OutsideWorkspace => "outside_workspace",
            Self::PermissionDenied => "permission_denied",
            Self::PolicyDenied => "policy_denied",
            Self::Ambiguous => "ambiguous",
            Self::NoMatch => "no_match",
            Self::Stale => "stale",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
            Self::Expired => "expired",
            Self::Busy => "busy",
            Self::Interrupted => "interrupted",
            Self::Io => "io",
            Self::Internal => "internal",
        }
    }

    /// Returns whether the same call may succeed later without any change.
    pub fn is_retryable(self) -> bool {
        matches!(
            self,
            Self::Timeout | Self::Busy | Self::Interrupted | Self::Expired
        )
    }
}

/// The outcome of a call: either a result or an error.
#[derive(Debug)]
pub enum CallOutcome {
    /// The tool's answer. A command that failed is an answer, too.
    Ok(ToolReply),
    /// A failure; its text says what to do next.
    Error(CallFailure),
    /// The caller cancelled the call; the text says what was done before.
    Cancelled(CallFailure),
}

/// A failed or cancelled call.
#[derive(Debug)]
pub struct CallFailure {
    /// The reason as a stable code.
    pub code: ErrorCode,
    /// The reason and the next step, for the model.
    pub text: String,
    /// Other facts about it.
    pub meta: ResultMeta,
}

impl CallFailure {
    /// Creates a failure with this code and this text for the caller's model.
    pub fn new(code: ErrorCode, text: impl Into<String>) -> Self {
        Self {
            code,
            text: text.into(),
            meta: ResultMeta::default(),
        }
    }

    /// Sets the facts beside the text.
    #[must_use]
    pub fn with_meta(self, meta: ResultMeta) -> Self {
        Self { meta, ..self }
    }
}

/// The kind of an outcome, as the contract and the journal name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are the wire's own words")]
pub enum OutcomeKind {
    Ok,
    Error,
    Cancelled,
}

impl OutcomeKind {
    /// Returns the name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
        }
    }
}
