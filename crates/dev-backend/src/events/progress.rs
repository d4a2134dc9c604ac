//! `events:appendProgress`, `events:watchProgress` and `events:listProgress`: the output of a running request. Pieces
//! may be lost, and none delays the result. A device sends pieces only while a caller listens. The caller says so with
//! repeated calls of `watchProgress`, and the device reads it in the replies to `claim` and `appendProgress`.

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use super::request::{PAGE_BYTES, RequestStatus, WATCH_MS};
use crate::args::{self, WireNumber, optional};
use crate::auth;
use crate::commit_transaction::CommitTransaction;
use crate::commits::{CommitTopic, TopicSet};
use crate::failure::FunctionResult;
use crate::function_traits::{MutationFunction, QueryFunction, SnapshotView};
use crate::sql_calls::SqlCalls as _;
use punie_core::ids::{LeaseId, RequestId};

/// The most bytes of one piece.
const PIECE_LIMIT: usize = 64 * 1024;
/// The most pieces in one reply.
const MOST: usize = 1_000;

/// The arguments of `appendProgress`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct AppendProgress {
    device_id: String,
    token: String,
    request_id: String,
    lease_id: String,
    n: WireNumber,
    data: String,
}

/// The value of `appendProgress`.
#[derive(Serialize)]
pub(crate) struct AppendedProgress {
    /// False if this number was stored before, or the request is finished.
    stored: bool,
    /// True if the caller has cancelled the request.
    cancelled: bool,
    /// True if a caller still listens.
    watched: bool,
}

impl MutationFunction for AppendProgress {
    const PATH: &'static str = "events:appendProgress";
    type Reply = AppendedProgress;

    fn run_mutation(self, db: &mut CommitTransaction<'_>) -> FunctionResult<AppendedProgress> {
        let device = auth::authenticate_device(db, &self.device_id, &self.token)?;
        let request = RequestId::parse(&self.request_id)?;
        LeaseId::parse(&self.lease_id)?;
        let n = self.n.whole_value("n")?;
        args::check_payload_size("data", &self.data, PIECE_LIMIT)?;
        let standing = RequestStatus::load_device_status(db, &request, &device)?;
        standing.check_lease(&self.lease_id)?;
        db.limit_topics([CommitTopic::for_progress(request.as_str())]);
        let stored = !standing.finished
            && db.execute_cached(
                "INSERT OR IGNORE INTO progress (request_id, n, data) VALUES (?1, ?2, ?3)",
                (request.as_str(), n, &self.data),
            )? == 1;
        Ok(AppendedProgress {
            stored,
            cancelled: standing.cancelled,
            watched: standing.is_watched_at(db.now_ms),
        })
    }
}

/// The arguments of `watchProgress`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct WatchProgress {
    #[serde(default)]
    caller_token: String,
    request_id: String,
}

/// The value of `watchProgress`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct WatchReply {
    state: WatchState,
    /// The validity of this call; call again before its end.
    expires_in_ms: f64,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum WatchState {
    /// The device sends progress from its next reply on.
    Watching,
    /// There is a result, and no more progress.
    Finished,
    /// There is no such request.
    Unknown,
}

impl MutationFunction for WatchProgress {
    const PATH: &'static str = "events:watchProgress";
    type Reply = WatchReply;

    fn run_mutation(self, db: &mut CommitTransaction<'_>) -> FunctionResult<WatchReply> {
        auth::authorize_caller(db, &self.caller_token, auth::CallerAction::Ask)?;
        let request = RequestId::parse(&self.request_id)?;
        db.limit_topics([]);
        let state = match RequestStatus::load(db, &request)? {
            None => WatchState::Unknown,
            Some(standing) if standing.finished => WatchState::Finished,
            Some(_) => {
                db.execute_cached(
                    "UPDATE requests SET watched_until_ms = ?2 WHERE request_id = ?1",
                    (request.as_str(), db.now_ms + WATCH_MS),
                )?;
                return Ok(WatchReply {
                    state: WatchState::Watching,
                    expires_in_ms: WATCH_MS,
                });
            }
        };
        Ok(WatchReply {
            state,
            expires_in_ms: 0.0,
        })
    }
}

/// The arguments of `listProgress`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ListProgress {
    #[serde(default)]
    caller_token: String,
    request_id: String,
    #[serde(default, deserialize_with = "optional")]
    after: Option<WireNumber>,
}

#[derive(Serialize)]
struct ProgressPiece {
    n: f64,
    data: String,
}

impl QueryFunction for ListProgress {
    const PATH: &'static str = "events:listProgress";
    /// The pieces after `after`, in order. Ask again after the last one until the reply is empty.
    type Reply = Vec<Box<RawValue>>;

    fn topics_read(&self) -> TopicSet {
        TopicSet::Only(vec![CommitTopic::for_progress(&self.request_id)])
    }

    fn run_on_snapshot(&self, view: &SnapshotView<'_>) -> FunctionResult<Self::Reply> {
        auth::authorize_caller(view.db, &self.caller_token, auth::CallerAction::Ask)?;
        let request = RequestId::parse(&self.request_id)?;
        let after = self
            .after
            .map_or(Ok(-1), |after| after.whole_value("after"))?;
        let mut statement = view.db.prepare_cached(
            "SELECT n, data FROM progress WHERE request_id = ?1 AND n > ?2 ORDER BY n",
        )?;
        let mut rows = statement.query((request.as_str(), after))?;
        let mut pieces = Vec::new();
        let mut bytes = 0;
        while let Some(row) = rows.next()? {
            #[expect(
                clippy::cast_precision_loss,
                reason = "it was a whole float within 2^53"
            )]
            let piece = to_raw_value(&ProgressPiece {
                n: row.get::<_, i64>(0)? as f64,
                data: row.get(1)?,
            })?;
            bytes += piece.get().len();
            if pieces.len() == MOST || (bytes > PAGE_BYTES && !pieces.is_empty()) {
                break;
            }
            pieces.push(piece);
        }
        Ok(pieces)
    }
}
