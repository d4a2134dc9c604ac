//! `events:cancel`: a caller no longer wants a request's result.

use serde::{Deserialize, Serialize};

use super::request::Standing;
use crate::dev_backend::auth;
use crate::dev_backend::commits::Topic;
use crate::dev_backend::failure::Failure;
use crate::dev_backend::functions::Mutation;
use crate::dev_backend::store::Commit;
use crate::ids::{DeviceId, RequestId};

/// The arguments of `cancel`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::dev_backend) struct Cancel {
    #[serde(default)]
    caller_token: String,
    request_id: String,
}

/// The value of `cancel`.
#[derive(Serialize)]
pub(in crate::dev_backend) struct Cancelled {
    state: State,
}

#[derive(Serialize)]
#[serde(rename_all = "lowercase")]
enum State {
    /// The device was notified, by this call or an earlier one; its result is still to come.
    Cancelling,
    /// There is a result, so there is nothing to cancel.
    Finished,
    /// There is no such request.
    Unknown,
}

impl Mutation for Cancel {
    const PATH: &'static str = "events:cancel";
    type Reply = Cancelled;

    fn run(self, db: &mut Commit<'_>) -> Result<Cancelled, Failure> {
        auth::caller(db, &self.caller_token, auth::CallerAction::Ask)?;
        let request = RequestId::parse(&self.request_id)?;
        let Some(standing) = Standing::of(db, &request)? else {
            return Ok(Cancelled { state: State::Unknown });
        };
        if standing.finished {
            return Ok(Cancelled { state: State::Finished });
        }
        if !standing.cancelled {
            db.prepare_cached("UPDATE requests SET cancelled = 1 WHERE request_id = ?1")?
                .execute([request.as_str()])?;
            db.changes_only([Topic::inbox(&standing.device)]);
            db.notify(&DeviceId::parse(standing.device)?, "tool_cancel", &request)?;
        }
        Ok(Cancelled { state: State::Cancelling })
    }
}
