//! Claims: they are obtained before an effect and renewed while a call runs. The renewal is a separate task, which a
//! tool's code can delay only for a moment.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::backend::{Backend as _, BackendError, ClaimReply, RecoveryAction, RetryDelay};
use crate::journal::{AcceptedRequest, RequestOrigin};
use crate::runner::handles::Handles;
use crate::runner::wake_event::WakeEvent;
use punie_core::ids::{LeaseId, RequestId};

/// The current claims, each with its lost state.
#[derive(Debug, Default)]
pub(in crate::runner) struct HeldClaims {
    held: Mutex<HashMap<RequestId, HeldClaim>>,
    /// Signalled when a claim is added.
    taken: Notify,
}

#[derive(Debug)]
struct HeldClaim {
    lease: LeaseId,
    lost: bool,
    /// The backend last said that a caller listens for progress.
    watched: watch::Sender<bool>,
    /// A renewal is under way.
    renewing: bool,
}

/// The result of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::runner) enum ClaimOutcome {
    /// The request is claimed by this process.
    Granted,
    /// The claim was not granted, for this reason; the backend would accept no reply from here.
    NotGranted(String),
    /// The request is claimed, but the backend granted another lease before, to a process that this journal does not
    /// know. The effect may have begun.
    InDoubt,
    /// The request already has a result.
    Answered,
    /// The backend could not be asked.
    Unknown,
    /// The caller cancelled the request, or the runner stops, before the claim.
    Abandoned,
}

impl HeldClaims {
    fn add(&self, id: &RequestId, lease: &LeaseId, watched: bool) {
        let watched = watch::Sender::new(watched);
        let held = HeldClaim {
            lease: lease.clone(),
            lost: false,
            watched,
            renewing: false,
        };
        self.held.lock().insert(id.clone(), held);
        self.taken.notify_one();
    }

    /// Waits until at least one claim is held.
    async fn wait_for_any(&self) {
        while self.held.lock().is_empty() {
            self.taken.notified().await;
        }
    }

    /// Removes the claim of a call that ended; returns whether its lease was lost meanwhile.
    pub fn release(&self, id: &RequestId) -> bool {
        self.held.lock().remove(id).is_some_and(|held| held.lost)
    }

    /// Returns the claims to renew now, and marks them as being renewed.
    fn begin_renewals(&self) -> Vec<(RequestId, LeaseId)> {
        let mut held = self.held.lock();
        let due = held
            .iter_mut()
            .filter(|(_, held)| !held.lost && !held.renewing);
        due.map(|(id, held)| {
            held.renewing = true;
            (id.clone(), held.lease.clone())
        })
        .collect()
    }

    fn end_renewal(&self, id: &RequestId) {
        if let Some(held) = self.held.lock().get_mut(id) {
            held.renewing = false;
        }
    }

    /// Returns a receiver of whether a caller listens for a call's progress; `None` for a call that is not claimed.
    pub fn subscribe_watched(&self, id: &RequestId) -> Option<watch::Receiver<bool>> {
        Some(self.held.lock().get(id)?.watched.subscribe())
    }

    /// Records the backend's report whether a caller listens.
    pub fn set_watched(&self, id: &RequestId, watched: bool) {
        if let Some(held) = self.held.lock().get(id) {
            held.watched
                .send_if_modified(|now| std::mem::replace(now, watched) != watched);
        }
    }

    fn mark_lost(&self, id: &RequestId) {
        if let Some(held) = self.held.lock().get_mut(id) {
            held.lost = true;
        }
    }
}

/// Claims requests at the backend and renews the claims.
pub(in crate::runner) struct ClaimService {
    pub handles: Arc<Handles>,
    pub held: HeldClaims,
}

impl ClaimService {
    /// Claims a request, once.
    pub async fn claim_once(
        &self,
        call: &AcceptedRequest,
        cancel: &CancellationToken,
    ) -> ClaimOutcome {
        self.try_claim(call, cancel)
            .await
            .unwrap_or(ClaimOutcome::Unknown)
    }

    /// Claims a request before its effect: retries until there is an answer, the caller cancels it, or the runner
    /// stops.
    pub async fn claim_with_retry(
        &self,
        call: &AcceptedRequest,
        cancel: &CancellationToken,
    ) -> ClaimOutcome {
        let handles = &self.handles;
        let mut retry = handles.retry_intervals();
        loop {
            // While calls are paused, a call that has not begun waits.
            tokio::select! {
                () = handles.pause.wait_until_released() => {}
                () = cancel.cancelled() => return ClaimOutcome::Abandoned,
                () = handles.phases.stopping.cancelled() => return ClaimOutcome::Abandoned,
            }
            // A backend that does not answer must not hold up a cancel.
            let claimed = tokio::select! {
                biased;
                claimed = self.try_claim(call, cancel) => claimed,
                () = cancel.cancelled() => return ClaimOutcome::Abandoned,
            };
            let wait = match claimed {
                Ok(claimed) => return claimed,
                Err(pause) => retry.delay_after(pause),
            };
            tokio::select! {
                () = handles.backend.wait_to_retry(wait) => {}
                () = cancel.cancelled() => return ClaimOutcome::Abandoned,
                () = handles.phases.stopping.cancelled() => return ClaimOutcome::Abandoned,
            }
        }
    }

    async fn send_claim(
        &self,
        id: &RequestId,
        lease: &LeaseId,
    ) -> Result<ClaimReply, BackendError> {
        let backend = &self.handles.backend;
        let claim = || backend.claim_request(id, lease);
        self.handles.sessions.with_session(claim).await
    }

    /// Claims once; the error is the wait before the next attempt. Cancels the call if the answer says that the
    /// caller cancelled it.
    async fn try_claim(
        &self,
        call: &AcceptedRequest,
        cancel: &CancellationToken,
    ) -> Result<ClaimOutcome, RetryDelay> {
        if call.origin() == RequestOrigin::Task {
            return Ok(ClaimOutcome::Granted);
        }
        let id = &call.tool_request().id;
        match self.send_claim(id, call.lease_id()).await {
            Ok(claim) => {
                if claim.cancelled {
                    cancel.cancel();
                }
                // The lease may be that of an earlier process of which a power cut left no record. In any case it
                // either expires or there will be a result.
                if let Some(wait) = claim.leased_for {
                    return Err(RetryDelay::Requested(wait));
                }
                if !claim.granted {
                    return Ok(if claim.answered {
                        ClaimOutcome::Answered
                    } else {
                        ClaimOutcome::NotGranted(claim.reason)
                    });
                }
                self.held.add(id, call.lease_id(), claim.watched);
                let in_doubt = claim.attempt > 1 && call.tool_effect().runs_at_most_once();
                Ok(if in_doubt {
                    ClaimOutcome::InDoubt
                } else {
                    ClaimOutcome::Granted
                })
            }
            Err(error) => match error.recovery_action() {
                RecoveryAction::GiveUp => Ok(ClaimOutcome::NotGranted(error.to_string())),
                RecoveryAction::Retry(pause) => Err(pause),
                RecoveryAction::RetrySlowly => {
                    let slowly = self.handles.settings.waits.slow_retry.0;
                    Err(RetryDelay::Requested(slowly))
                }
                // Refused: the backend client makes no calls for a while, so retrying costs nothing.
                RecoveryAction::ReopenSession
                | RecoveryAction::CorrectClock(_)
                | RecoveryAction::SignAgain
                | RecoveryAction::Shrink(_) => Err(RetryDelay::BackOff),
            },
        }
    }
}

/// Renews all held claims until the runner is over. Without a claim this task does not wake up.
pub async fn run_claim_renewal(claims: Arc<ClaimService>) {
    let handles = &claims.handles;
    let mut renewing = JoinSet::new();
    loop {
        let due = async {
            claims.held.wait_for_any().await;
            tokio::time::sleep(handles.settings.calls.current().lease_renew).await;
        };
        tokio::select! {
            () = handles.phases.over.cancelled() => return,
            () = due => {}
        }
        // All at once, and none is waited for: one that hangs must not cost the others their lease.
        while renewing.try_join_next().is_some() {}
        for (id, lease) in claims.held.begin_renewals() {
            let claims = Arc::clone(&claims);
            renewing.spawn(async move {
                claims.renew(id.clone(), &lease).await;
                claims.held.end_renewal(&id);
            });
        }
    }
}

impl ClaimService {
    async fn renew(&self, id: RequestId, lease: &LeaseId) {
        match self.send_claim(&id, lease).await {
            Ok(claim) if claim.cancelled => self.handles.waker.wake(WakeEvent::CancelSeen(id)),
            Ok(claim) if !claim.granted => {
                tracing::warn!(request.id = %id, reason = claim.reason, "the lease of a running call was lost");
                self.held.mark_lost(&id);
            }
            Ok(claim) => self.held.set_watched(&id, claim.watched),
            Err(error) => {
                tracing::debug!(request.id = %id, %error, "a lease could not be renewed now");
            }
        }
    }
}
