//! `events:claim`: a process claims the right to run a request. A refusal is a value with a reason, because it is an
//! ordinary outcome and no error.

use serde::{Deserialize, Serialize};

use super::request::Standing;
use crate::dev_backend::args::{Number, optional};
use crate::dev_backend::auth;
use crate::dev_backend::failure::Failure;
use crate::dev_backend::functions::Mutation;
use crate::dev_backend::store::Commit;
use crate::ids::{LeaseId, RequestId};

/// The default lifetime of a lease.
const LEASE_MS: f64 = 60_000.0;
/// The longest lifetime of a lease.
const LONGEST_LEASE_MS: f64 = 600_000.0;

/// The arguments of `claim`.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(in crate::dev_backend) struct Claim {
    device_id: String,
    token: String,
    request_id: String,
    lease_id: String,
    #[serde(default, deserialize_with = "optional")]
    lease_ms: Option<Number>,
}

/// The value of `claim`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(in crate::dev_backend) struct Claimed {
    granted: bool,
    reason: Reason,
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
enum Reason {
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

impl Claim {
    fn lease_ms(&self) -> Result<f64, Failure> {
        let asked = self.lease_ms.map_or(Ok(LEASE_MS), |ms| ms.finite("leaseMs"))?;
        if asked < 1.0 {
            Err(Failure::invalid("leaseMs must be at least 1"))
        } else {
            Ok(asked.min(LONGEST_LEASE_MS))
        }
    }

    fn judge(&self, standing: &Standing, now_ms: f64) -> Reason {
        if standing.finished {
            return Reason::Finished;
        }
        match &standing.lease {
            Some(last) if *last == self.lease_id => Reason::Renewed,
            Some(_) if now_ms < standing.lease_expires_at_ms => Reason::Leased,
            _ => Reason::Granted,
        }
    }
}

impl Mutation for Claim {
    const PATH: &'static str = "events:claim";
    type Reply = Claimed;

    fn run(self, db: &mut Commit<'_>) -> Result<Claimed, Failure> {
        let device = auth::device(db, &self.device_id, &self.token)?;
        let request = RequestId::parse(&self.request_id)?;
        let lease = LeaseId::parse(&self.lease_id)?;
        let lease_ms = self.lease_ms()?;
        db.changes_only([]);
        let standing = Standing::of(db, &request)?.filter(|standing| standing.device == device.as_str());
        let Some(standing) = standing else {
            let reason = Reason::Unknown;
            return Ok(Claimed {
                granted: false,
                reason,
                attempt: 0.0,
                cancelled: false,
                expires_in_ms: 0.0,
                watched: false,
            });
        };
        let reason = self.judge(&standing, db.now_ms);
        let attempt = standing.attempt + i32::from(reason == Reason::Granted);
        let granted = matches!(reason, Reason::Granted | Reason::Renewed);
        if granted {
            db.prepare_cached(
                "UPDATE requests SET lease_id = ?2, lease_expires_at_ms = ?3, attempt = ?4 WHERE request_id = ?1",
            )?
            .execute((request.as_str(), lease.as_str(), db.now_ms + lease_ms, attempt))?;
        }
        let expires_in_ms = match reason {
            Reason::Granted | Reason::Renewed => lease_ms,
            Reason::Leased => standing.lease_expires_at_ms - db.now_ms,
            Reason::Finished | Reason::Unknown => 0.0,
        };
        Ok(Claimed {
            granted,
            reason,
            attempt: attempt.into(),
            cancelled: standing.cancelled,
            expires_in_ms,
            watched: standing.is_watched(db.now_ms),
        })
    }
}
