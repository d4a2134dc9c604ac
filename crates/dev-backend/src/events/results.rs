//! `events:appendResult` and `events:getResult`: the results of requests. The first stored result wins.

use serde::{Deserialize, Serialize};

use super::request::RequestStatus;
use crate::args::{self, PAYLOAD_LIMIT, optional};
use crate::auth;
use crate::commit_transaction::CommitTransaction;
use crate::commits::{CommitTopic, TopicSet};
use crate::credentials::{Sha256Hash, hash_fields};
use crate::failure::{FailureCode, FunctionFailure, FunctionResult};
use crate::function_traits::{MutationFunction, QueryFunction, SnapshotView};
use crate::sql_calls::SqlCalls as _;
use punie_core::ids::{LeaseId, RequestId};

/// The arguments of `appendResult`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct AppendResult {
    device_id: String,
    token: String,
    request_id: String,
    lease_id: String,
    outcome: ResultOutcome,
    payload: String,
    #[serde(default, deserialize_with = "optional")]
    truncated: Option<bool>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum ResultOutcome {
    Ok,
    Error,
    Cancelled,
}

impl ResultOutcome {
    fn text(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
        }
    }
}

/// The value of `appendResult`; exactly one field is true.
#[derive(Serialize)]
pub(crate) struct AppendedResult {
    stored: bool,
    duplicate: bool,
}

impl AppendResult {
    fn content_hash(&self) -> Sha256Hash {
        let truncated = self.truncated.map(|yes| if yes { "true" } else { "false" });
        hash_fields(&[Some(self.outcome.text()), Some(&self.payload), truncated])
    }

    fn store(
        &self,
        db: &mut CommitTransaction<'_>,
        request: &RequestId,
        hash: Sha256Hash,
    ) -> rusqlite::Result<()> {
        db.limit_topics([CommitTopic::for_result(request.as_str())]);
        db.execute_cached(
            "INSERT INTO results (request_id, body_hash, outcome, truncated, stored_at_ms, payload) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            (
                request.as_str(),
                hash,
                self.outcome.text(),
                self.truncated,
                db.now_ms,
                &self.payload,
            ),
        )?;
        db.execute_cached(
            "UPDATE requests SET state = 'finished' WHERE request_id = ?1",
            [request.as_str()],
        )?;
        Ok(())
    }
}

impl MutationFunction for AppendResult {
    const PATH: &'static str = "events:appendResult";
    type Reply = AppendedResult;

    fn run_mutation(self, db: &mut CommitTransaction<'_>) -> FunctionResult<AppendedResult> {
        let device = auth::authenticate_device(db, &self.device_id, &self.token)?;
        let request = RequestId::parse(&self.request_id)?;
        LeaseId::parse(&self.lease_id)?;
        args::check_payload_size("payload", &self.payload, PAYLOAD_LIMIT)?;
        let standing = RequestStatus::load_device_status(db, &request, &device)?;
        let hash = self.content_hash();
        let stored: Option<Sha256Hash> = db.find_row(
            "SELECT body_hash FROM results WHERE request_id = ?1",
            [request.as_str()],
            |row| row.get(0),
        )?;
        match stored {
            // Checked before the lease: a repeat after a lost reply is a repeat under any lease.
            Some(stored) if stored == hash => Ok(AppendedResult {
                stored: false,
                duplicate: true,
            }),
            Some(_) => Err(FunctionFailure::with_code(
                FailureCode::ResultExists,
                "another result of this request is stored already",
            )),
            None if standing.finished => Err(FunctionFailure::with_code(
                FailureCode::ResultExists,
                "the request had its result, which was deleted with age",
            )),
            None => {
                standing.check_lease(&self.lease_id)?;
                self.store(db, &request, hash)?;
                Ok(AppendedResult {
                    stored: true,
                    duplicate: false,
                })
            }
        }
    }
}

/// The arguments of `getResult`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct GetResult {
    #[serde(default)]
    caller_token: String,
    request_id: String,
}

/// The value of `getResult`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StoredResult {
    request_id: String,
    outcome: String,
    payload: String,
    stored_at_ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    truncated: Option<bool>,
}

impl QueryFunction for GetResult {
    const PATH: &'static str = "events:getResult";
    /// Null while there is no result, and for an unknown request.
    type Reply = Option<StoredResult>;

    fn topics_read(&self) -> TopicSet {
        TopicSet::Only(vec![CommitTopic::for_result(&self.request_id)])
    }

    fn run_on_snapshot(&self, view: &SnapshotView<'_>) -> FunctionResult<Self::Reply> {
        auth::authorize_caller(view.db, &self.caller_token, auth::CallerAction::Ask)?;
        let request = RequestId::parse(&self.request_id)?;
        let stored = view.db.find_row(
            "SELECT request_id, outcome, payload, stored_at_ms, truncated FROM results WHERE request_id = ?1",
            [request.as_str()],
            |row| {
                Ok(StoredResult {
                    request_id: row.get(0)?,
                    outcome: row.get(1)?,
                    payload: row.get(2)?,
                    stored_at_ms: row.get(3)?,
                    truncated: row.get(4)?,
                })
            },
        )?;
        Ok(stored)
    }
}
