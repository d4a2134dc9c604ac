//! `events:appendRequest`: a caller sends a device one tool call.

use rusqlite::OptionalExtension as _;
use serde::{Deserialize, Serialize};

use super::request::WATCH_MS;
use crate::dev_backend::args::{self, Number, PAYLOAD_LIMIT, optional};
use crate::dev_backend::auth;
use crate::dev_backend::clock::last_ms;
use crate::dev_backend::commits::Topic;
use crate::dev_backend::failure::{Code, Failure};
use crate::dev_backend::functions::Mutation;
use crate::dev_backend::housekeeping::is_past_retention;
use crate::dev_backend::secrets::{Hash, hash_fields};
use crate::dev_backend::store::Commit;
use crate::ids::{ConversationId, DeviceId, RequestId, ToolName};

/// The arguments of `appendRequest`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::dev_backend) struct AppendRequest {
    #[serde(default)]
    caller_token: String,
    request_id: String,
    device_id: String,
    tool_name: String,
    args: String,
    #[serde(default, deserialize_with = "optional")]
    conversation_id: Option<String>,
    #[serde(default, deserialize_with = "optional")]
    agent_type: Option<String>,
    #[serde(default, deserialize_with = "optional")]
    deadline_ms: Option<Number>,
    #[serde(default, deserialize_with = "optional")]
    issued_at_ms: Option<Number>,
    #[serde(default, deserialize_with = "optional")]
    signature: Option<String>,
    /// True if the caller listens for progress, as if it called `watchProgress` at once. Not part of the request's
    /// hash.
    #[serde(default, deserialize_with = "optional")]
    progress: Option<bool>,
}

/// The value of `appendRequest`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::dev_backend) struct Appended {
    request_id: RequestId,
    created: bool,
}

impl AppendRequest {
    /// Refuses a malformed request, with a code that the caller can act on.
    fn check(&self) -> Result<(), Failure> {
        args::payload("args", &self.args, PAYLOAD_LIMIT)?;
        ToolName::parse(&self.tool_name)?;
        if let Some(conversation) = &self.conversation_id {
            ConversationId::parse(conversation)?;
        }
        args::bounded_if_any("agentType", self.agent_type.as_deref(), 128)?;
        args::bounded_if_any("signature", self.signature.as_deref(), 1024)?;
        self.deadline_ms.map_or(Ok(0.0), |at| at.finite("deadlineMs"))?;
        self.issued_at_ms.map_or(Ok(0.0), |at| at.finite("issuedAtMs"))?;
        Ok(())
    }

    /// Returns the hash of the whole request: the same id with another hash is another request.
    fn body_hash(&self) -> Result<Hash, Failure> {
        let number = |field, n: Option<Number>| {
            n.map(|n| n.finite(field)).transpose().map(|n| n.map(|n| n.to_string()))
        };
        let deadline = number("deadlineMs", self.deadline_ms)?;
        let issued = number("issuedAtMs", self.issued_at_ms)?;
        Ok(hash_fields(&[
            Some(&self.device_id),
            Some(&self.tool_name),
            Some(&self.args),
            self.conversation_id.as_deref(),
            self.agent_type.as_deref(),
            deadline.as_deref(),
            issued.as_deref(),
            self.signature.as_deref(),
        ]))
    }

    fn insert(
        &self,
        db: &mut Commit<'_>,
        id: &RequestId,
        device: &DeviceId,
        hash: Hash,
    ) -> Result<(), Failure> {
        let deadline = self.deadline_ms.map(|at| at.finite("deadlineMs")).transpose()?;
        let issued = self.issued_at_ms.map(|at| at.finite("issuedAtMs")).transpose()?;
        let seq = db.seq()?;
        db.prepare_cached(
            "INSERT INTO requests (request_id, device_id, seq, state, body_hash, tool_name, conversation_id, \
             agent_type, created_at_ms, deadline_ms, issued_at_ms, signature, watched_until_ms) \
             VALUES (?1, ?2, ?3, 'open', ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        )?
        .execute(rusqlite::params![
            id.as_str(),
            device.as_str(),
            seq,
            hash,
            self.tool_name,
            self.conversation_id,
            self.agent_type,
            db.now_ms,
            deadline,
            issued,
            self.signature,
            (self.progress == Some(true)).then_some(db.now_ms + WATCH_MS),
        ])?;
        db.prepare_cached("INSERT INTO request_args (number, args) VALUES (?1, ?2)")?
            .execute((db.last_insert_rowid(), &self.args))?;
        db.changes_only([Topic::inbox(device.as_str())]);
        db.notify(device, "tool_request", id)?;
        Ok(())
    }
}

impl Mutation for AppendRequest {
    const PATH: &'static str = "events:appendRequest";
    type Reply = Appended;

    fn run(self, db: &mut Commit<'_>) -> Result<Appended, Failure> {
        auth::caller(db, &self.caller_token, auth::CallerAction::Ask)?;
        let request_id = RequestId::parse(&self.request_id)?;
        self.check()?;
        let hash = self.body_hash()?;
        let stored: Option<Hash> = db
            .prepare_cached("SELECT body_hash FROM requests WHERE request_id = ?1")?
            .query_row([request_id.as_str()], |row| row.get(0))
            .optional()?;
        match stored {
            Some(stored) if stored == hash => Ok(Appended { request_id, created: false }),
            Some(_) => Err(Failure::thrown(
                Code::RequestIdReused,
                "a request of this id with another body is stored already; make a new id",
            )),
            // Uses the commit clock, which never goes back: a deleted id stays refused.
            None if is_past_retention(&request_id, db.now_ms.max(last_ms(db)?)) => Err(Failure::invalid(
                "the time in this request id lies before all that is kept here; make a new id, and look at your clock",
            )),
            None => {
                let device = auth::addressee(db, &self.device_id)?;
                self.insert(db, &request_id, &device, hash)?;
                Ok(Appended { request_id, created: true })
            }
        }
    }
}
