//! A request in the form for the device, and its status for the functions of its life cycle.

use rusqlite::types::Type;
use rusqlite::{Connection, Row};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::failure::{FailureCode, FunctionFailure, FunctionResult};
use crate::sql_calls::SqlCalls as _;
use punie_core::ids::{DeviceId, RequestId};

/// The most bytes of events or requests in one reply.
pub(super) const PAGE_BYTES: usize = 4 * 1024 * 1024;

/// The columns for [`StoredRequest::from_row`], from `requests r` joined with `request_args a`.
pub(super) const COLUMNS: &str = "r.request_id, r.tool_name, a.args, r.conversation_id, r.agent_type, \
     r.created_at_ms, r.deadline_ms, r.cancelled, r.attempt, r.issued_at_ms, r.signature, \
     r.caller_name, r.session";

/// A request in the form for the device.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StoredRequest {
    request_id: String,
    tool_name: String,
    args: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    conversation_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_type: Option<String>,
    created_at_ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    deadline_ms: Option<f64>,
    cancelled: bool,
    attempt: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    issued_at_ms: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    signature: Option<String>,
    /// The name of the token that sent it.
    #[serde(skip_serializing_if = "Option::is_none")]
    caller_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<Box<RawValue>>,
}

impl StoredRequest {
    /// Reads [`COLUMNS`], starting at this column.
    pub fn from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Self> {
        Ok(Self {
            request_id: row.get(first)?,
            tool_name: row.get(first + 1)?,
            args: row.get(first + 2)?,
            conversation_id: row.get(first + 3)?,
            agent_type: row.get(first + 4)?,
            created_at_ms: row.get(first + 5)?,
            deadline_ms: row.get(first + 6)?,
            cancelled: row.get(first + 7)?,
            attempt: row.get::<_, i32>(first + 8)?.into(),
            issued_at_ms: row.get(first + 9)?,
            signature: row.get(first + 10)?,
            caller_name: row.get(first + 11)?,
            session: read_session(row, first + 12)?,
        })
    }
}

/// Reads the JSON of a request's session.
fn read_session(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Box<RawValue>>> {
    let stored: Option<String> = row.get(column)?;
    stored
        .map(RawValue::from_string)
        .transpose()
        .map_err(|bad| rusqlite::Error::FromSqlConversionFailure(column, Type::Text, Box::new(bad)))
}

/// The time for which one call of `watchProgress` counts.
pub(crate) const WATCH_MS: f64 = 60_000.0;

pub(crate) struct RequestStatus {
    pub device: String,
    pub finished: bool,
    pub cancelled: bool,
    pub attempt: i32,
    /// The last lease granted, expired or not.
    pub lease: Option<String>,
    pub lease_expires_at_ms: f64,
    /// The time until which a caller listens for progress.
    pub watched_until_ms: f64,
}

impl RequestStatus {
    pub fn load(db: &Connection, request: &RequestId) -> rusqlite::Result<Option<Self>> {
        db.find_row(
            "SELECT device_id, state = 'finished', cancelled, attempt, lease_id, lease_expires_at_ms, \
             watched_until_ms \
             FROM requests WHERE request_id = ?1",
            [request.as_str()],
            |row| {
                Ok(Self {
                    device: row.get(0)?,
                    finished: row.get(1)?,
                    cancelled: row.get(2)?,
                    attempt: row.get(3)?,
                    lease: row.get(4)?,
                    lease_expires_at_ms: row.get::<_, Option<f64>>(5)?.unwrap_or(0.0),
                    watched_until_ms: row.get::<_, Option<f64>>(6)?.unwrap_or(0.0),
                })
            },
        )
    }

    /// Loads the status of a device's own request. Another device's request counts as unknown.
    pub fn load_device_status(
        db: &Connection,
        request: &RequestId,
        device: &DeviceId,
    ) -> FunctionResult<Self> {
        Self::load(db, request)?
            .filter(|standing| standing.device == device.as_str())
            .ok_or_else(|| {
                FunctionFailure::with_code(
                    FailureCode::RequestUnknown,
                    "this device has no request of this id",
                )
            })
    }

    /// Returns whether a caller listens for progress, so that it is worth sending.
    pub fn is_watched_at(&self, now_ms: f64) -> bool {
        !self.finished && now_ms < self.watched_until_ms
    }

    /// Refuses a lease that is not the last one granted. An unclaimed request has none.
    pub fn check_lease(&self, lease: &str) -> FunctionResult<()> {
        match &self.lease {
            Some(last) if last == lease => Ok(()),
            Some(_) => Err(FunctionFailure::with_code(
                FailureCode::LeaseLost,
                "another lease was granted for this request",
            )),
            None => Err(FunctionFailure::with_code(
                FailureCode::LeaseLost,
                "this request was never claimed",
            )),
        }
    }
}
