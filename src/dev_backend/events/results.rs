//! `events:appendResult` and `events:getResult`: the results of requests. The first stored result wins.

use rusqlite::OptionalExtension as _;
use serde::{Deserialize, Serialize};

use super::request::Standing;
use crate::dev_backend::args::{self, PAYLOAD_LIMIT, optional};
use crate::dev_backend::auth;
use crate::dev_backend::commits::{Topic, Topics};
use crate::dev_backend::failure::{Code, Failure};
use crate::dev_backend::functions::{Mutation, Query, View};
use crate::dev_backend::secrets::{Hash, hash_fields};
use crate::dev_backend::store::Commit;
use crate::ids::{LeaseId, RequestId};

/// The arguments of `appendResult`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::dev_backend) struct AppendResult {
    device_id: String,
    token: String,
    request_id: String,
    lease_id: String,
    outcome: Outcome,
    payload: String,
    #[serde(default, deserialize_with = "optional")]
    truncated: Option<bool>,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Outcome {
    Ok,
    Error,
    Cancelled,
}

impl Outcome {
    fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Error => "error",
            Self::Cancelled => "cancelled",
        }
    }
}

/// The value of `appendResult`; exactly one field is true.
#[derive(Serialize)]
pub(in crate::dev_backend) struct Kept {
    stored: bool,
    duplicate: bool,
}

impl AppendResult {
    fn body_hash(&self) -> Hash {
        let truncated = self.truncated.map(|yes| if yes { "true" } else { "false" });
        hash_fields(&[Some(self.outcome.name()), Some(&self.payload), truncated])
    }

    fn store(&self, db: &mut Commit<'_>, request: &RequestId, hash: Hash) -> rusqlite::Result<()> {
        db.changes_only([Topic::result(request.as_str())]);
        db.prepare_cached(
            "INSERT INTO results (request_id, body_hash, outcome, truncated, stored_at_ms, payload) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute((
            request.as_str(),
            hash,
            self.outcome.name(),
            self.truncated,
            db.now_ms,
            &self.payload,
        ))?;
        db.prepare_cached("UPDATE requests SET state = 'finished' WHERE request_id = ?1")?
            .execute([request.as_str()])?;
        Ok(())
    }
}

impl Mutation for AppendResult {
    const PATH: &'static str = "events:appendResult";
    type Reply = Kept;

    fn run(self, db: &mut Commit<'_>) -> Result<Kept, Failure> {
        let device = auth::device(db, &self.device_id, &self.token)?;
        let request = RequestId::parse(&self.request_id)?;
        LeaseId::parse(&self.lease_id)?;
        args::payload("payload", &self.payload, PAYLOAD_LIMIT)?;
        let standing = Standing::of_device(db, &request, &device)?;
        let hash = self.body_hash();
        let stored: Option<Hash> = db
            .prepare_cached("SELECT body_hash FROM results WHERE request_id = ?1")?
            .query_row([request.as_str()], |row| row.get(0))
            .optional()?;
        match stored {
            // Checked before the lease: a repeat after a lost reply is a repeat under any lease.
            Some(stored) if stored == hash => Ok(Kept { stored: false, duplicate: true }),
            Some(_) => {
                Err(Failure::thrown(Code::ResultExists, "another result of this request is stored already"))
            }
            None if standing.finished => Err(Failure::thrown(
                Code::ResultExists,
                "the request had its result, which was deleted with age",
            )),
            None => {
                standing.holds(&self.lease_id)?;
                self.store(db, &request, hash)?;
                Ok(Kept { stored: true, duplicate: false })
            }
        }
    }
}

/// The arguments of `getResult`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::dev_backend) struct GetResult {
    #[serde(default)]
    caller_token: String,
    request_id: String,
}

/// The value of `getResult`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::dev_backend) struct KeptResult {
    request_id: String,
    outcome: String,
    payload: String,
    stored_at_ms: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    truncated: Option<bool>,
}

impl Query for GetResult {
    const PATH: &'static str = "events:getResult";
    /// Null while there is no result, and for an unknown request.
    type Reply = Option<KeptResult>;

    fn reads(&self) -> Topics {
        Topics::Only(vec![Topic::result(&self.request_id)])
    }

    fn run(&self, view: &View<'_>) -> Result<Self::Reply, Failure> {
        auth::caller(view.db, &self.caller_token, auth::CallerAction::Ask)?;
        let request = RequestId::parse(&self.request_id)?;
        let stored = view
            .db
            .prepare_cached(
                "SELECT request_id, outcome, payload, stored_at_ms, truncated FROM results WHERE request_id = ?1",
            )?
            .query_row([request.as_str()], |row| {
                Ok(KeptResult {
                    request_id: row.get(0)?,
                    outcome: row.get(1)?,
                    payload: row.get(2)?,
                    stored_at_ms: row.get(3)?,
                    truncated: row.get(4)?,
                })
            })
            .optional()?;
        Ok(stored)
    }
}
