//! `events:appendRequest`: a caller sends a device one tool call.

use serde::{Deserialize, Serialize};

use super::request::WATCH_MS;
use crate::args::{self, PAYLOAD_LIMIT, WireNumber, optional};
use crate::auth;
use crate::commit_transaction::CommitTransaction;
use crate::commits::CommitTopic;
use crate::credentials::{Sha256Hash, hash_fields};
use crate::failure::{FailureCode, FunctionFailure, FunctionResult};
use crate::function_traits::MutationFunction;
use crate::housekeeping::is_refused;
use crate::sql_calls::SqlCalls as _;
use punie_core::ids::{ConversationId, DeviceId, RequestId, ToolName};
use punie_core::request_session::RequestSession;

/// The arguments of `appendRequest`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct AppendRequest {
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
    deadline_ms: Option<WireNumber>,
    #[serde(default, deserialize_with = "optional")]
    issued_at_ms: Option<WireNumber>,
    #[serde(default, deserialize_with = "optional")]
    signature: Option<String>,
    /// The session that the request belongs to; it narrows the request to the session's folders.
    #[serde(default, deserialize_with = "optional")]
    session: Option<RequestSession>,
    /// True if the caller listens for progress, as if it called `watchProgress` at once. Not part of the request's
    /// hash.
    #[serde(default, deserialize_with = "optional")]
    progress: Option<bool>,
}

/// The value of `appendRequest`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AppendedRequest {
    request_id: RequestId,
    created: bool,
}

impl AppendRequest {
    /// Refuses a malformed request, with a code that the caller can act on.
    fn check(&self) -> FunctionResult<()> {
        args::check_payload_size("args", &self.args, PAYLOAD_LIMIT)?;
        ToolName::parse(&self.tool_name)?;
        if let Some(conversation) = &self.conversation_id {
            ConversationId::parse(conversation)?;
        }
        args::check_optional_length("agentType", self.agent_type.as_deref(), 128)?;
        args::check_optional_length("signature", self.signature.as_deref(), 1024)?;
        if let Some(session) = &self.session {
            session
                .check_limits()
                .map_err(|bad| FunctionFailure::invalid_argument(bad.to_string()))?;
        }
        self.deadline_ms
            .map_or(Ok(0.0), |at| at.finite_value("deadlineMs"))?;
        self.issued_at_ms
            .map_or(Ok(0.0), |at| at.finite_value("issuedAtMs"))?;
        Ok(())
    }

    /// Returns the hash of the whole request: the same id with another hash is another request.
    fn content_hash(&self) -> FunctionResult<Sha256Hash> {
        let number = |field, n: Option<WireNumber>| {
            n.map(|n| n.finite_value(field))
                .transpose()
                .map(|n| n.map(|n| n.to_string()))
        };
        let deadline = number("deadlineMs", self.deadline_ms)?;
        let issued = number("issuedAtMs", self.issued_at_ms)?;
        let session = self.session.as_ref().map(RequestSession::to_json);
        let mut fields: Vec<Option<&str>> = vec![
            Some(&self.device_id),
            Some(&self.tool_name),
            Some(&self.args),
            self.conversation_id.as_deref(),
            self.agent_type.as_deref(),
            deadline.as_deref(),
            issued.as_deref(),
            self.signature.as_deref(),
        ];
        // Appended only where it is given: a request that was stored before this field keeps its hash.
        fields.extend(session.as_deref().map(Some));
        Ok(hash_fields(&fields))
    }

    fn insert_request(
        &self,
        db: &mut CommitTransaction<'_>,
        id: &RequestId,
        (device, caller): (&DeviceId, &str),
        hash: Sha256Hash,
    ) -> FunctionResult<()> {
        let deadline = self
            .deadline_ms
            .map(|at| at.finite_value("deadlineMs"))
            .transpose()?;
        let issued = self
            .issued_at_ms
            .map(|at| at.finite_value("issuedAtMs"))
            .transpose()?;
        let seq = db.seq()?;
        db.execute_cached(
            "INSERT INTO requests (request_id, device_id, seq, state, body_hash, tool_name, conversation_id, \
             agent_type, created_at_ms, deadline_ms, issued_at_ms, signature, watched_until_ms, caller_name, session) \
             VALUES (?1, ?2, ?3, 'open', ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
            rusqlite::params![
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
                caller,
                self.session.as_ref().map(RequestSession::to_json),
            ],
        )?;
        db.execute_cached(
            "INSERT INTO request_args (number, args) VALUES (?1, ?2)",
            (db.last_insert_rowid(), &self.args),
        )?;
        db.limit_topics([CommitTopic::for_inbox(device.as_str())]);
        db.append_inbox_row(device, "tool_request", id)?;
        Ok(())
    }
}

impl MutationFunction for AppendRequest {
    const PATH: &'static str = "events:appendRequest";
    type Reply = AppendedRequest;

    fn run_mutation(self, db: &mut CommitTransaction<'_>) -> FunctionResult<AppendedRequest> {
        let caller = auth::authorize_caller(db, &self.caller_token, auth::CallerAction::Ask)?;
        let request_id = RequestId::parse(&self.request_id)?;
        self.check()?;
        let hash = self.content_hash()?;
        let stored: Option<Sha256Hash> = db.find_row(
            "SELECT body_hash FROM requests WHERE request_id = ?1",
            [request_id.as_str()],
            |row| row.get(0),
        )?;
        match stored {
            Some(stored) if stored == hash => Ok(AppendedRequest {
                request_id,
                created: false,
            }),
            Some(_) => Err(FunctionFailure::with_code(
                FailureCode::RequestIdReused,
                "a request of this id with another body is stored already; make a new id",
            )),
            None if is_refused(db, &request_id, db.now_ms)? => {
                Err(FunctionFailure::invalid_argument(
                    "the time in this request id lies before all that is kept here; make a new id, and look at your clock",
                ))
            }
            None => {
                let device = auth::find_active_device(db, &self.device_id)?;
                self.insert_request(db, &request_id, (&device, &caller), hash)?;
                Ok(AppendedRequest {
                    request_id,
                    created: true,
                })
            }
        }
    }
}
