//! What a request is, what comes of it, and the only way from an outcome to something postable.
//! Not here: the wire's JSON (backend::wire) and what is durable (journal).

mod meta;
mod payload;
mod reply;
mod seal;
mod signature;
mod uncut;

pub use meta::{FileChange, Meta};
pub use payload::shrink_payload;
pub use reply::{Body, Reply};
pub use seal::{CleanReply, Sealing};
pub use signature::{NotSigned, RequestAuth, Signed, public_key_of};
pub use uncut::uncut;

use serde::{Deserialize, Serialize};

use crate::ids::{ConversationId, RequestId, ToolName};

/// One request as the backend offered it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolRequest {
    /// Made by the caller; the device dedups by it.
    pub id: RequestId,
    /// The tool asked for; it may not exist.
    pub tool: ToolName,
    /// The arguments as JSON text, not yet looked at.
    pub args: String,
    /// Calls of one conversation keep their order.
    pub conversation: ConversationId,
    /// What kind of agent asks, where the caller said so.
    pub agent_type: Option<String>,
    /// When the backend stored it, in its milliseconds.
    pub created_at_ms: f64,
    /// When its answer stops being of use, in the backend's milliseconds.
    pub deadline_ms: Option<f64>,
    /// Whether the caller already took it back.
    pub cancelled: bool,
    /// When the caller signed it, in milliseconds since 1970 by the caller's clock. Not kept by the journal, like the
    /// signature: both are for the door.
    pub issued_at_ms: Option<f64>,
    /// The caller's signature, as base64.
    pub signature: Option<String>,
}

/// What a tool may do, declared once: it decides the gate, what may run side by side, and what a crash means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Changes nothing; may run beside others and again after a crash.
    #[default]
    Reads,
    /// Changes files; at most once.
    Writes,
    /// Runs programs; at most once.
    Executes,
    /// Waits for a person; at most once, and holds no lane.
    AsksUser,
}

impl Effect {
    /// The name in the catalog and the journal.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reads => "reads",
            Self::Writes => "writes",
            Self::Executes => "executes",
            Self::AsksUser => "asks_user",
        }
    }

    /// Whether running it a second time could do harm.
    pub fn at_most_once(self) -> bool {
        self != Self::Reads
    }
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
    /// The code as it travels in `meta.code`.
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

    /// Whether asking the same again may succeed without anything being changed first.
    pub fn retryable(self) -> bool {
        matches!(self, Self::Timeout | Self::Busy | Self::Interrupted | Self::Expired)
    }
}

/// How a call ended: a result or an error, never both, never neither.
#[derive(Debug)]
pub enum Outcome {
    /// The tool answered. A command that failed is an answer too.
    Ok(Reply),
    /// The call failed; the text says what to do next.
    Error(Failure),
    /// The caller took it back; the text says what had been done.
    Cancelled(Failure),
}

/// A failed or cancelled call.
#[derive(Debug)]
pub struct Failure {
    /// Why, as a stable code.
    pub code: ErrorCode,
    /// Why and what next, for the model.
    pub text: String,
    /// Whatever is known beside it.
    pub meta: Meta,
}

/// The kind of an outcome, as the wire and the journal name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "the names are the wire's own words")]
pub enum OutcomeKind {
    Ok,
    Error,
    Cancelled,
}

impl OutcomeKind {
    /// The word on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
        }
    }
}
