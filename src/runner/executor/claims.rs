//! Claims: they are obtained before an effect and renewed while a call runs. The renewal is a separate task, which a
//! tool's code can delay only for a moment.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::backend::{Backend as _, Disposition, Pause};
use crate::ids::{LeaseId, RequestId};
use crate::journal::{Accepted, Origin};
use crate::runner::backend_client::BackendClient;
use crate::runner::background::ShutdownPhases;
use crate::runner::backoff::{Budget, Retry};
use crate::runner::pause::CallPause;
use crate::runner::session::SessionKeeper;
use crate::runner::settings::Settings;
use crate::runner::wake::{Wake, Waker};

/// The current claims, each with its lost state.
#[derive(Debug, Default)]
pub(in crate::runner) struct HeldClaims {
    held: Mutex<HashMap<RequestId, Held>>,
    /// Signalled when a claim is added.
    taken: Notify,
}

#[derive(Debug)]
struct Held {
    lease: LeaseId,
    lost: bool,
    /// The backend last said that a caller listens for progress.
    watched: watch::Sender<bool>,
    /// A renewal is under way.
    renewing: bool,
}

/// The result of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::runner) enum Claimed {
    /// The request is claimed by this process.
    Ours,
    /// The claim was not granted, for this reason; the backend would accept no reply from here.
    NotOurs(String),
    /// The request is claimed, but the backend granted another lease before, to a process that this journal does not
    /// know. The effect may have begun.
    InDoubt,
    /// The request already has a result.
    Answered,
    /// The backend could not be asked.
    Unknown,
    /// The caller cancelled the request, or the runner stops, before the claim.
    GivenUp,
}

impl HeldClaims {
    fn hold(&self, id: &RequestId, lease: &LeaseId, watched: bool) {
        let watched = watch::Sender::new(watched);
        let held = Held { lease: lease.clone(), lost: false, watched, renewing: false };
        self.lock().insert(id.clone(), held);
        self.taken.notify_one();
    }

    /// Waits until at least one claim is held.
    async fn any(&self) {
        while self.lock().is_empty() {
            self.taken.notified().await;
        }
    }

    /// Removes the claim of a call that ended; returns whether its lease was lost meanwhile.
    pub(in crate::runner) fn release(&self, id: &RequestId) -> bool {
        self.lock().remove(id).is_some_and(|held| held.lost)
    }

    /// Returns the claims to renew now, and marks them as being renewed.
    fn to_renew(&self) -> Vec<(RequestId, LeaseId)> {
        let mut held = self.lock();
        let due = held.iter_mut().filter(|(_, held)| !held.lost && !held.renewing);
        due.map(|(id, held)| {
            held.renewing = true;
            (id.clone(), held.lease.clone())
        })
        .collect()
    }

    fn renewed(&self, id: &RequestId) {
        if let Some(held) = self.lock().get_mut(id) {
            held.renewing = false;
        }
    }

    /// Returns a receiver of whether a caller listens for a call's progress; `None` for a call that is not claimed.
    pub(in crate::runner) fn watched(&self, id: &RequestId) -> Option<watch::Receiver<bool>> {
        Some(self.lock().get(id)?.watched.subscribe())
    }

    /// Records the backend's report whether a caller listens.
    pub(in crate::runner) fn set_watched(&self, id: &RequestId, watched: bool) {
        if let Some(held) = self.lock().get(id) {
            held.watched.send_if_modified(|now| std::mem::replace(now, watched) != watched);
        }
    }

    fn lose(&self, id: &RequestId) {
        if let Some(held) = self.lock().get_mut(id) {
            held.lost = true;
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<RequestId, Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Claims requests at the backend and renews the claims.
pub(in crate::runner) struct Claims {
    pub held: HeldClaims,
    pub backend: Arc<BackendClient>,
    pub sessions: Arc<SessionKeeper>,
    pub settings: Settings,
    pub budget: Arc<Budget>,
    pub pause: Arc<CallPause>,
    pub waker: Waker,
    pub phases: ShutdownPhases,
}

impl Claims {
    /// Claims a request, once.
    pub(in crate::runner) async fn claim_once(&self, call: &Accepted, cancel: &CancellationToken) -> Claimed {
        self.try_claim(call, cancel).await.unwrap_or(Claimed::Unknown)
    }

    /// Claims a request before its effect: retries until there is an answer, the caller cancels it, or the runner
    /// stops.
    pub(in crate::runner) async fn claim(&self, call: &Accepted, cancel: &CancellationToken) -> Claimed {
        let mut retry = Retry::new(self.settings.waits.retry).within(&self.budget);
        loop {
            // While calls are paused, a call that has not begun waits.
            tokio::select! {
                () = self.pause.released() => {}
                () = cancel.cancelled() => return Claimed::GivenUp,
                () = self.phases.stopping.cancelled() => return Claimed::GivenUp,
            }
            let wait = match self.try_claim(call, cancel).await {
                Ok(claimed) => return claimed,
                Err(pause) => retry.after(pause),
            };
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = cancel.cancelled() => return Claimed::GivenUp,
                () = self.phases.stopping.cancelled() => return Claimed::GivenUp,
            }
        }
    }

    /// Claims once; the error is the wait before the next attempt. Cancels the call if the answer says that the
    /// caller cancelled it.
    async fn try_claim(&self, call: &Accepted, cancel: &CancellationToken) -> Result<Claimed, Pause> {
        if call.origin() == Origin::Task {
            return Ok(Claimed::Ours);
        }
        let id = &call.request().id;
        match self.sessions.with_session(|| self.backend.claim(id, call.lease())).await {
            Ok(claim) => {
                if claim.cancelled {
                    cancel.cancel();
                }
                // The lease may be that of an earlier process of which a power cut left no record. In any case it
                // either expires or there will be a result.
                if let Some(wait) = claim.leased_for {
                    return Err(Pause::Asked(wait));
                }
                if !claim.granted {
                    return Ok(if claim.answered {
                        Claimed::Answered
                    } else {
                        Claimed::NotOurs(claim.reason)
                    });
                }
                self.held.hold(id, call.lease(), claim.watched);
                let in_doubt = claim.attempt > 1 && call.effect().at_most_once();
                Ok(if in_doubt { Claimed::InDoubt } else { Claimed::Ours })
            }
            Err(error) => match error.disposition() {
                Disposition::Never => Ok(Claimed::NotOurs(error.to_string())),
                Disposition::Retry(pause) => Err(pause),
                Disposition::RetrySlowly => Err(Pause::Asked(self.settings.waits.slow_retry.0)),
                // Refused: the backend client makes no calls for a while, so retrying costs nothing.
                Disposition::Reopen
                | Disposition::CorrectClock(_)
                | Disposition::SignAgain
                | Disposition::Shrink(_) => Err(Pause::BackOff),
            },
        }
    }
}

/// Renews all held claims until the runner is over. Without a claim this task does not wake up.
pub(in crate::runner) async fn keep_renewing(claims: Arc<Claims>) {
    let mut renewing = JoinSet::new();
    loop {
        let due = async {
            claims.held.any().await;
            tokio::time::sleep(claims.settings.calls.lease_renew).await;
        };
        tokio::select! {
            () = claims.phases.over.cancelled() => return,
            () = due => {}
        }
        // All at once, and none is waited for: one that hangs must not cost the others their lease.
        while renewing.try_join_next().is_some() {}
        for (id, lease) in claims.held.to_renew() {
            let claims = Arc::clone(&claims);
            renewing.spawn(async move {
                claims.renew_one(id.clone(), &lease).await;
                claims.held.renewed(&id);
            });
        }
    }
}

impl Claims {
    async fn renew_one(&self, id: RequestId, lease: &LeaseId) {
        match self.sessions.with_session(|| self.backend.claim(&id, lease)).await {
            Ok(claim) if claim.cancelled => self.waker.wake(Wake::CancelSeen(id)),
            Ok(claim) if !claim.granted => {
                tracing::warn!(request.id = %id, reason = claim.reason, "the lease of a running call was lost");
                self.held.lose(&id);
            }
            Ok(claim) => self.held.set_watched(&id, claim.watched),
            Err(error) => tracing::debug!(request.id = %id, %error, "a lease could not be renewed now"),
        }
    }
}
