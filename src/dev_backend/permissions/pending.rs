//! `permissions:pending`: the open questions. A caller sees unanswered ones. The device sees answered ones too, until
//! the request has its result. The reader judges if a question has expired.

use rusqlite::Row;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Answer, Party};
use crate::dev_backend::args::{Number, optional};
use crate::dev_backend::failure::Failure;
use crate::dev_backend::functions::{Hold, Query, View};
use crate::ids::DeviceId;

/// The arguments of `permissions:pending`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::dev_backend) struct Pending {
    #[serde(default, deserialize_with = "optional")]
    caller_token: Option<String>,
    #[serde(default, deserialize_with = "optional")]
    device_id: Option<String>,
    #[serde(default, deserialize_with = "optional")]
    token: Option<String>,
    #[serde(default, deserialize_with = "optional")]
    wait_ms: Option<Number>,
}

/// A listed question.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::dev_backend) struct Question {
    permission_id: String,
    request_id: String,
    device_id: String,
    title: String,
    options: Box<RawValue>,
    asked_at_ms: f64,
    expires_at_ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<Answer>,
}

impl Question {
    fn from_row(row: &Row<'_>) -> rusqlite::Result<Self> {
        let options: String = row.get(4)?;
        Ok(Self {
            permission_id: row.get(0)?,
            request_id: row.get(1)?,
            device_id: row.get(2)?,
            title: row.get(3)?,
            options: RawValue::from_string(options).expect("what was written as JSON is JSON"),
            asked_at_ms: row.get(5)?,
            expires_at_ms: row.get(6)?,
            answer: Answer::from_row(row, 7)?,
        })
    }
}

const COLUMNS: &str = "p.permission_id, p.request_id, p.device_id, p.title, p.options, p.asked_at_ms, \
                       p.expires_at_ms, p.option_id, p.answered_by, p.answered_at_ms";

impl Pending {
    fn wait(&self) -> Result<f64, Failure> {
        let wait = self.wait_ms.map_or(Ok(0.0), |wait| wait.finite("waitMs"))?;
        if wait < 0.0 { Err(Failure::invalid("waitMs must not be negative")) } else { Ok(wait) }
    }
}

impl Query for Pending {
    const PATH: &'static str = "permissions:pending";
    /// Sorted from oldest to newest.
    type Reply = Vec<Question>;

    fn run(&self, view: &View<'_>) -> Result<Self::Reply, Failure> {
        let (device, token) = (self.device_id.as_deref(), self.token.as_deref());
        let party = Party::of(view.db, self.caller_token.as_deref(), device, token)?;
        self.wait()?;
        let only = device.map(DeviceId::parse).transpose()?;
        let which = match party {
            // Starts from the open requests, which are few, while the questions of all time may be many.
            Party::Device(_) => {
                "requests r JOIN permissions p ON p.request_id = r.request_id \
                 WHERE r.state = 'open' AND r.device_id = ?1"
            }
            Party::Caller => {
                "permissions p JOIN requests r ON r.request_id = p.request_id \
                 WHERE p.answered_by IS NULL AND r.state = 'open' AND (?1 IS NULL OR p.device_id = ?1)"
            }
        };
        let mut statement =
            view.db.prepare_cached(&format!("SELECT {COLUMNS} FROM {which} ORDER BY p.number"))?;
        let rows = statement.query_map([only.as_ref().map(DeviceId::as_str)], Question::from_row)?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    fn hold(&self) -> Option<Hold> {
        let (device, _) = (self.device_id.as_deref()?, self.token.as_deref()?);
        Hold::of(DeviceId::parse(device).ok()?, self.wait().ok()?)
    }

    /// A device waits for answers, not for its own questions.
    fn is_empty(reply: &Self::Reply) -> bool {
        reply.iter().all(|question| question.answer.is_none())
    }
}
