//! The journal's nouns: states, origins, and the reply that may be posted because it is recorded.

use std::sync::Arc;

use rusqlite::Row;
use rusqlite::types::{FromSql, FromSqlError, FromSqlResult, ValueRef};
use serde::Serialize;

use punie_core::ids::{ConversationId, LeaseId, RequestId, ToolName};
use punie_tool::request::{OutcomeKind, RequestSession, ToolEffect, ToolRequest};

/// The origin of a request, which decides whether its result is posted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestOrigin {
    /// The backend offered it; its result is posted.
    Backend,
    /// A Task tool made it; its result is read here.
    Task,
}

impl RequestOrigin {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Backend => "backend",
            Self::Task => "task",
        }
    }
}

/// The state of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestState {
    /// Promised, not begun.
    Accepted,
    /// Its effect may have begun.
    Started,
    /// Its reply is recorded, not yet delivered.
    Finished,
    /// The backend has its reply.
    Delivered,
    /// The backend will never take its reply.
    Undeliverable,
}

impl RequestState {
    /// The word in the file and in `history`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Started => "started",
            Self::Finished => "finished",
            Self::Delivered => "delivered",
            Self::Undeliverable => "undeliverable",
        }
    }
}

macro_rules! from_text {
    ($type:ty, $($word:literal => $value:expr),+ $(,)?) => {
        impl FromSql for $type {
            fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
                match value.as_str()? {
                    $($word => Ok($value),)+
                    _ => Err(FromSqlError::InvalidType),
                }
            }
        }
    };
}

from_text!(RequestOrigin, "backend" => RequestOrigin::Backend, "task" => RequestOrigin::Task);
from_text!(RequestState,
    "accepted" => RequestState::Accepted, "started" => RequestState::Started, "finished" => RequestState::Finished,
    "delivered" => RequestState::Delivered, "undeliverable" => RequestState::Undeliverable,
);

/// An outcome as its column holds it.
pub(super) struct StoredOutcome(pub(super) OutcomeKind);

from_text!(StoredOutcome,
    "ok" => Self(OutcomeKind::Ok), "error" => Self(OutcomeKind::Error), "cancelled" => Self(OutcomeKind::Cancelled),
);

/// A reply that is durable. Delivery posts nothing else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedReply {
    id: RequestId,
    lease: LeaseId,
    kind: OutcomeKind,
    payload: String,
    truncated: bool,
    claimed: bool,
}

/// The columns of [`RecordedReply::from_row`], of `request join result`.
pub(super) const REPLY_COLUMNS: &str =
    "id, lease_id, outcome, payload, truncated, effect <> 'reads' and attempt > 0";

impl RecordedReply {
    /// The same with another payload that leaves something out.
    pub(super) fn with_smaller_payload(&self, payload: String) -> Self {
        Self {
            payload,
            truncated: true,
            ..self.clone()
        }
    }

    /// From [`REPLY_COLUMNS`].
    pub(super) fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        Ok(Self {
            id: parse_column(row, 0, RequestId::parse)?,
            lease: parse_column(row, 1, LeaseId::parse)?,
            kind: row.get::<_, StoredOutcome>(2)?.0,
            payload: row.get(3)?,
            truncated: row.get(4)?,
            claimed: row.get(5)?,
        })
    }

    /// Returns whether its lease was surely granted: a tool with effects starts only then.
    pub fn is_claimed(&self) -> bool {
        self.claimed
    }

    /// The request it answers.
    pub fn request_id(&self) -> &RequestId {
        &self.id
    }
    /// The lease under which it is posted.
    pub fn lease_id(&self) -> &LeaseId {
        &self.lease
    }
    /// The outcome of the call.
    pub fn outcome_kind(&self) -> OutcomeKind {
        self.kind
    }
    /// The JSON text.
    pub fn payload_text(&self) -> &str {
        &self.payload
    }
    /// Returns whether something was left out of it.
    pub fn is_truncated(&self) -> bool {
        self.truncated
    }
}

/// A request that is promised and not answered; whether it was taken back, its `cancelled` says.
#[derive(Debug, Clone)]
pub struct UnfinishedRequest {
    /// The request.
    pub request: ToolRequest,
    /// Its origin.
    pub origin: RequestOrigin,
    /// The most that its tool may do.
    pub effect: ToolEffect,
    /// [`RequestState::Accepted`] or [`RequestState::Started`].
    pub state: RequestState,
    /// The number of times it was started.
    pub attempt: u32,
    /// The lease it was accepted under.
    pub lease: LeaseId,
}

/// The columns of [`request_from_row`], in order.
pub(super) const REQUEST_COLUMNS: &str = "id, tool, args, conversation, agent_type, created_at_ms, deadline_ms, cancel_requested, signature, caller, session";

pub(super) fn request_from_row(row: &Row<'_>) -> rusqlite::Result<ToolRequest> {
    let signature: Option<String> = row.get(8)?;
    Ok(ToolRequest {
        id: parse_column(row, 0, RequestId::parse)?,
        tool: parse_column(row, 1, ToolName::parse)?,
        args: row.get(2)?,
        conversation: parse_column(row, 3, ConversationId::from_key)?,
        agent_type: row.get(4)?,
        caller: row.get(9)?,
        session: row
            .get::<_, Option<String>>(10)?
            .map(|json| RequestSession::from_json(&json).map(Arc::new))
            .transpose()
            .map_err(|bad| {
                rusqlite::Error::FromSqlConversionFailure(10, rusqlite::types::Type::Text, bad)
            })?,
        created_at_ms: row.get(5)?,
        deadline_ms: row.get(6)?,
        cancelled: row.get(7)?,
        // A signed request was made when it was signed: see the runner's intake.
        issued_at_ms: signature.is_some().then(|| row.get(5)).transpose()?,
        signature,
    })
}

pub(super) fn parse_column<T, E: std::error::Error + Send + Sync + 'static>(
    row: &Row<'_>,
    column: usize,
    parse: impl FnOnce(String) -> Result<T, E>,
) -> rusqlite::Result<T> {
    parse(row.get(column)?).map_err(|cause| {
        rusqlite::Error::FromSqlConversionFailure(
            column,
            rusqlite::types::Type::Text,
            Box::new(cause),
        )
    })
}
