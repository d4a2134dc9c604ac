//! `events:claim`: a process claims the right to run a request. A refusal is a value with a reason, because it is an
//! ordinary outcome and no error.

use serde::{Deserialize, Serialize};

use super::request::RequestStatus;
use crate::args::{WireNumber, optional};
use crate::auth;
use crate::commit_transaction::CommitTransaction;
use crate::failure::{FunctionFailure, FunctionResult};
use crate::function_traits::MutationFunction;
use crate::sql_calls::SqlCalls as _;
use punie_core::ids::{LeaseId, RequestId};

/// The default lifetime of a lease.
const LEASE_MS: f64 = 60_000.0;
/// The longest lifetime of a lease.
const LONGEST_LEASE_MS: f64 = 600_000.0;

/// The arguments of `claim`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ClaimRequest {
    device_id: String,
    token: String,
    request_id: String,
    lease_id: String,
    #[serde(default, deserialize_with = "optional")]
    lease_ms: Option<WireNumber>,
}

/// The value of `claim`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClaimDecision {
    granted: bool,
    reason: ClaimReason,
    /// The number of leases granted so far; renewals do not count.
    attempt: f64,
    cancelled: bool,
    /// The rest of the current lease, the device's own or another one; 0 if there is none.
    expires_in_ms: f64,
    /// True if a caller listens for progress; otherwise the device sends none.
    watched: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum ClaimReason {
    /// This lease is new, or replaces an expired one; `attempt` was incremented.
    Granted,
    /// This lease was the last one granted, expired or not; it is extended.
    Renewed,
    /// Refused: another lease is current. Ask again after its end.
    Leased,
    /// Refused: there is a result.
    Finished,
    /// Refused: this device has no request with this id.
    Unknown,
}

impl ClaimRequest {
    fn requested_lease_ms(&self) -> FunctionResult<f64> {
        let asked = self
            .lease_ms
            .map_or(Ok(LEASE_MS), |ms| ms.finite_value("leaseMs"))?;
        if asked < 1.0 {
            Err(FunctionFailure::invalid_argument(
                "leaseMs must be at least 1",
            ))
        } else {
            Ok(asked.min(LONGEST_LEASE_MS))
        }
    }

    fn decide(&self, standing: &RequestStatus, now_ms: f64) -> ClaimReason {
        if standing.finished {
            return ClaimReason::Finished;
        }
        match &standing.lease {
            Some(last) if *last == self.lease_id => ClaimReason::Renewed,
            Some(_) if now_ms < standing.lease_expires_at_ms => ClaimReason::Leased,
            _ => ClaimReason::Granted,
        }
    }
}

impl MutationFunction for ClaimRequest {
    const PATH: &'static str = "events:claim";
    type Reply = ClaimDecision;

    fn run_mutation(self, db: &mut CommitTransaction<'_>) -> FunctionResult<ClaimDecision> {
        let device = auth::authenticate_device(db, &self.device_id, &self.token)?;
        let request = RequestId::parse(&self.request_id)?;
        let lease = LeaseId::parse(&self.lease_id)?;
        let lease_ms = self.requested_lease_ms()?;
        db.limit_topics([]);
        let standing = RequestStatus::load(db, &request)?
            .filter(|standing| standing.device == device.as_str());
        let Some(standing) = standing else {
            let reason = ClaimReason::Unknown;
            return Ok(ClaimDecision {
                granted: false,
                reason,
                attempt: 0.0,
                cancelled: false,
                expires_in_ms: 0.0,
                watched: false,
            });
        };
        let reason = self.decide(&standing, db.now_ms);
        let attempt = standing.attempt + i32::from(reason == ClaimReason::Granted);
        let granted = matches!(reason, ClaimReason::Granted | ClaimReason::Renewed);
        if granted {
            db.execute_cached(
                "UPDATE requests SET lease_id = ?2, lease_expires_at_ms = ?3, attempt = ?4 WHERE request_id = ?1",
                (request.as_str(), lease.as_str(), db.now_ms + lease_ms, attempt),
            )?;
        }
        let expires_in_ms = match reason {
            ClaimReason::Granted | ClaimReason::Renewed => lease_ms,
            ClaimReason::Leased => standing.lease_expires_at_ms - db.now_ms,
            ClaimReason::Finished | ClaimReason::Unknown => 0.0,
        };
        Ok(ClaimDecision {
            granted,
            reason,
            attempt: attempt.into(),
            cancelled: standing.cancelled,
            expires_in_ms,
            watched: standing.is_watched_at(db.now_ms),
        })
    }
}
