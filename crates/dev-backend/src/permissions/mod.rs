//! Approvals: a device asks if it may run a call, and the caller or a person at the device answers. The first answer
//! counts.
//! Not here: which calls need approval, and the result of a missing answer; the device decides these.

pub(super) mod answer;
pub(super) mod ask;
pub(super) mod caller_reads;
pub(super) mod pending;

use rusqlite::{Connection, Row};
use serde::{Deserialize, Serialize};

use super::auth;
use super::credentials::Sha256Hash;
use super::failure::FunctionResult;
use crate::sql_calls::SqlCalls as _;
use punie_core::ids::DeviceId;

/// The parties that may read and answer questions: the device by its session, or a caller.
enum ApprovalParty {
    Caller,
    Device(DeviceId),
}

impl ApprovalParty {
    fn authenticate(
        db: &Connection,
        caller_token: Option<&str>,
        device: Option<&str>,
        token: Option<&str>,
    ) -> FunctionResult<Self> {
        if let (Some(device), Some(token)) = (device, token) {
            return Ok(Self::Device(auth::authenticate_device(db, device, token)?));
        }
        let token = caller_token.unwrap_or_default();
        auth::authorize_caller(db, token, auth::CallerAction::Approve).map(|_| Self::Caller)
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Caller => "caller",
            Self::Device(_) => "device",
        }
    }
}

/// An option of a question.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct PermissionOption {
    option_id: String,
    name: String,
    kind: PermissionOptionKind,
}

/// The meaning of an option.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PermissionOptionKind {
    AllowOnce,
    AllowAlways,
    RejectOnce,
    RejectAlways,
}

/// The answer that counts.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct StoredAnswer {
    option_id: String,
    by: String,
    answered_at_ms: f64,
    /// The answer in words, where it has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
}

impl StoredAnswer {
    /// Reads option_id, answered_by, answered_at_ms and answer_text, starting at this column.
    fn from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Option<Self>> {
        let Some(option_id) = row.get(first)? else {
            return Ok(None);
        };
        Ok(Some(Self {
            option_id,
            by: row.get(first + 1)?,
            answered_at_ms: row.get(first + 2)?,
            text: row.get(first + 3)?,
        }))
    }
}

/// The parts of a stored question that repeated questions and answers need.
struct StoredPermission {
    device: String,
    body_hash: Sha256Hash,
    options: String,
    expires_at_ms: f64,
    /// True while its request has no result.
    open: bool,
    answer: Option<StoredAnswer>,
}

impl StoredPermission {
    fn find(db: &Connection, permission: &str) -> rusqlite::Result<Option<Self>> {
        db.find_row(
            "SELECT p.device_id, p.body_hash, p.options, p.expires_at_ms, r.state = 'open', p.option_id, \
             p.answered_by, p.answered_at_ms, p.answer_text FROM permissions p JOIN requests r ON r.request_id = p.request_id \
             WHERE p.permission_id = ?1",
            [permission],
            |row| {
                Ok(Self {
                    device: row.get(0)?,
                    body_hash: row.get(1)?,
                    options: row.get(2)?,
                    expires_at_ms: row.get(3)?,
                    open: row.get(4)?,
                    answer: StoredAnswer::from_row(row, 5)?,
                })
            },
        )
    }
}
