//! `permissions:pending`: the open questions. A caller sees unanswered ones. The device sees answered ones too, until
//! the request has its result. The reader judges if a question has expired.

use rusqlite::Row;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{ApprovalParty, StoredAnswer};
use crate::args::{WireNumber, optional};
use crate::failure::FunctionResult;
use crate::function_traits::{PollHold, QueryFunction, SnapshotView};
use punie_core::ids::DeviceId;

/// The arguments of `permissions:pending`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ListPending {
    #[serde(default, deserialize_with = "optional")]
    caller_token: Option<String>,
    #[serde(default, deserialize_with = "optional")]
    device_id: Option<String>,
    #[serde(default, deserialize_with = "optional")]
    token: Option<String>,
    #[serde(default, deserialize_with = "optional")]
    wait_ms: Option<WireNumber>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PendingQuestion {
    permission_id: String,
    request_id: String,
    device_id: String,
    title: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    options: Box<RawValue>,
    asked_at_ms: f64,
    expires_at_ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<StoredAnswer>,
}

impl PendingQuestion {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        let options: String = row.get(4)?;
        Ok(Self {
            permission_id: row.get(0)?,
            request_id: row.get(1)?,
            device_id: row.get(2)?,
            title: row.get(3)?,
            host: row.get(11)?,
            options: RawValue::from_string(options).expect("what was written as JSON is JSON"),
            asked_at_ms: row.get(5)?,
            expires_at_ms: row.get(6)?,
            answer: StoredAnswer::from_row(row, 7)?,
        })
    }
}

/// The most questions in a caller's list. Of more, those that expire last are listed: expired ones hide none.
const MOST: usize = 500;

const COLUMNS: &str = "p.permission_id, p.request_id, p.device_id, p.title, p.options, p.asked_at_ms, \
                       p.expires_at_ms, p.option_id, p.answered_by, p.answered_at_ms, p.answer_text, p.host";

impl ListPending {
    fn pending_wait_ms(&self) -> FunctionResult<f64> {
        self.wait_ms.map_or(Ok(0.0), WireNumber::wait_ms_value)
    }
}

impl QueryFunction for ListPending {
    const PATH: &'static str = "permissions:pending";
    /// Sorted from oldest to newest.
    type Reply = Vec<PendingQuestion>;

    fn run_on_snapshot(&self, view: &SnapshotView<'_>) -> FunctionResult<Self::Reply> {
        let device = self.device_id.as_deref();
        let token = self.token.as_deref();
        let party =
            ApprovalParty::authenticate(view.db, self.caller_token.as_deref(), device, token)?;
        self.pending_wait_ms()?;
        let only = device.map(DeviceId::parse).transpose()?;
        let which = match party {
            // Starts from the open requests, which are few, while the questions of all time may be many.
            ApprovalParty::Device(_) => {
                "requests r JOIN permissions p ON p.request_id = r.request_id \
                 WHERE r.state = 'open' AND r.device_id = ?1"
                    .to_owned()
            }
            ApprovalParty::Caller => {
                view.caller_reads.record(only.as_ref());
                format!(
                    "permissions p JOIN requests r ON r.request_id = p.request_id \
                     WHERE p.answered_by IS NULL AND r.state = 'open' AND (?1 IS NULL OR p.device_id = ?1) \
                     ORDER BY p.expires_at_ms DESC LIMIT {MOST}"
                )
            }
        };
        let mut statement = view.db.prepare_cached(&format!(
            "SELECT * FROM (SELECT {COLUMNS}, p.number FROM {which}) ORDER BY number"
        ))?;
        let rows = statement.query_map(
            [only.as_ref().map(DeviceId::as_str)],
            PendingQuestion::from_row,
        )?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    fn requested_hold(&self) -> Option<PollHold> {
        let (device, _) = (self.device_id.as_deref()?, self.token.as_deref()?);
        PollHold::from_wait(DeviceId::parse(device).ok()?, self.pending_wait_ms().ok()?)
    }

    /// A device waits for answers, not for its own questions.
    fn is_reply_empty(reply: &Self::Reply) -> bool {
        reply.iter().all(|question| question.answer.is_none())
    }
}
