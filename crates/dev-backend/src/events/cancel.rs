//! `events:cancel`: a caller no longer wants a request's result.

use serde::{Deserialize, Serialize};

use super::request::RequestStatus;
use crate::auth;
use crate::commit_transaction::CommitTransaction;
use crate::commits::CommitTopic;
use crate::failure::FunctionResult;
use crate::function_traits::MutationFunction;
use crate::sql_calls::SqlCalls as _;
use punie_core::ids::{DeviceId, RequestId};

/// The arguments of `cancel`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct CancelRequest {
    #[serde(default)]
    caller_token: String,
    request_id: String,
}

/// The value of `cancel`.
#[derive(Serialize)]
pub(crate) struct CancelledRequest {
    state: CancelState,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum CancelState {
    /// The device was notified, by this call or an earlier one; its result is still to come.
    Cancelling,
    /// There is a result, so there is nothing to cancel.
    Finished,
    /// There is no such request.
    Unknown,
}

impl MutationFunction for CancelRequest {
    const PATH: &'static str = "events:cancel";
    type Reply = CancelledRequest;

    fn run_mutation(self, db: &mut CommitTransaction<'_>) -> FunctionResult<CancelledRequest> {
        auth::authorize_caller(db, &self.caller_token, auth::CallerAction::Ask)?;
        let request = RequestId::parse(&self.request_id)?;
        let Some(standing) = RequestStatus::load(db, &request)? else {
            return Ok(CancelledRequest {
                state: CancelState::Unknown,
            });
        };
        if standing.finished {
            return Ok(CancelledRequest {
                state: CancelState::Finished,
            });
        }
        if !standing.cancelled {
            db.execute_cached(
                "UPDATE requests SET cancelled = 1 WHERE request_id = ?1",
                [request.as_str()],
            )?;
            db.limit_topics([CommitTopic::for_inbox(&standing.device)]);
            db.append_inbox_row(&DeviceId::parse(standing.device)?, "tool_cancel", &request)?;
        }
        Ok(CancelledRequest {
            state: CancelState::Cancelling,
        })
    }
}
