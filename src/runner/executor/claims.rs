//! Claims: obtaining them before an effect, renewing them while a call runs. Renewal is a task of its own, which no
//! tool's code can starve of more than a moment.

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

/// The claims held now, each with whether it was lost meanwhile.
#[derive(Debug, Default)]
pub(in crate::runner) struct HeldClaims {
    held: Mutex<HashMap<RequestId, Held>>,
    /// Rings when one is taken.
    taken: Notify,
}

#[derive(Debug)]
struct Held {
    lease: LeaseId,
    lost: bool,
    /// Whether a caller listens for progress, as the backend last said.
    watched: watch::Sender<bool>,
    /// A renewal is under way.
    renewing: bool,
}

/// What became of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::runner) enum Claimed {
    /// The request is ours.
    Ours,
    /// It is not, for this reason; nothing of ours will be taken for it.
    NotOurs(String),
    /// It is ours, but another lease was granted before, by a life of which our journal knows nothing: the effect may
    /// have begun.
    InDoubt,
    /// There is a result already.
    Answered,
    /// The backend could not be asked.
    Unknown,
    /// The caller took it back, or we stop, before it was ours.
    GivenUp,
}

impl HeldClaims {
    fn hold(&self, id: &RequestId, lease: &LeaseId, watched: bool) {
        let watched = watch::Sender::new(watched);
        let held = Held { lease: lease.clone(), lost: false, watched, renewing: false };
        self.lock().insert(id.clone(), held);
        self.taken.notify_one();
    }

    /// Waits until at least one is held.
    async fn any(&self) {
        while self.lock().is_empty() {
            self.taken.notified().await;
        }
    }

    /// The call ended; says whether its lease was lost meanwhile.
    pub(in crate::runner) fn release(&self, id: &RequestId) -> bool {
        self.lock().remove(id).is_some_and(|held| held.lost)
    }

    /// Those to renew now, which are being renewed from here on.
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

    /// Whether a caller listens for a call's progress, as it changes; none for a call that is not claimed.
    pub(in crate::runner) fn watched(&self, id: &RequestId) -> Option<watch::Receiver<bool>> {
        Some(self.lock().get(id)?.watched.subscribe())
    }

    /// The backend has said whether a caller listens.
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

    /// Claims a request before its effect: asks until there is an answer, the caller takes it back, or we stop.
    pub(in crate::runner) async fn claim(&self, call: &Accepted, cancel: &CancellationToken) -> Claimed {
        let mut retry = Retry::new(self.settings.waits.retry).within(&self.budget);
        loop {
            // What has not begun waits while nothing may begin.
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

    /// An answer, or how long to wait before asking again. Cancels the call where the answer says that the
    /// caller took it back.
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
                // It may be the lease of a life of ours of which a power cut left nothing. Whoever holds it, either
                // it runs out or there will be a result.
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
                // Refused: the line lets nothing out for a while, so that asking again costs nobody anything.
                Disposition::Reopen
                | Disposition::CorrectClock(_)
                | Disposition::SignAgain
                | Disposition::Shrink(_) => Err(Pause::BackOff),
            },
        }
    }
}

/// Renews every claim that is held, until the runner is over. While none is, nothing wakes up here.
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
        // Side by side, and none waited for: one that hangs must not cost the others their lease.
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
