//! The delivery of recorded replies: each is posted at once, and again until the backend has it. The outbox decides
//! when a reply may be posted.

pub(super) mod outbox;

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::backend_client::BackendClient;
use super::background::Background;
use super::call_audit::CallAudit;
use super::clock::ServerClock;
use super::session::SessionKeeper;
use crate::backend::{Backend as _, BackendError, Disposition, Pause, Posted, ResultPost};
use crate::failpoint::reach_of;
use crate::ids::RequestId;
use crate::journal::{Close, Journal, JournalError, RecordedReply};
use outbox::{Due, Outbox, Trouble};

/// The most replies that are read and posted at the same time when the outbox is drained.
const SIDE_BY_SIDE: usize = 8;

/// The journal key of the number of bytes being sent, for `status`.
const SENDING: &str = "sending_bytes";
/// Posts that end within this time are not reported.
const TELL_AFTER: Duration = Duration::from_secs(2);

/// A reply of fewer bytes is not shrunk: it holds little but the metadata.
const SMALLEST: usize = 1_000;

/// Posts recorded replies.
pub(super) struct Delivery {
    pub journal: Journal,
    pub backend: Arc<BackendClient>,
    pub sessions: Arc<SessionKeeper>,
    pub outbox: Arc<Outbox>,
    pub audit: CallAudit,
    pub server_clock: ServerClock,
    /// The first and the longest wait before a failed step is retried.
    pub retry: (Duration, Duration),
    pub background: Background,
}

impl Delivery {
    /// Posts a reply now if that is allowed; if it does not succeed, the outbox continues with it.
    pub(super) async fn deliver(self: &Arc<Self>, reply: RecordedReply) {
        let id = reply.id().clone();
        let delivered = match self.outbox.take(&id) {
            Some(slot) => {
                slot.sends(reply.payload().len());
                self.settle_post(reply).await
            }
            None => false,
        };
        if !delivered {
            self.outbox.ring();
        }
    }

    /// Posts a reply that was requested again. A backend with a link confirms only a reply's arrival. There, a post
    /// in progress was sent before the request, so the reply is posted once more after it. Without a link, the outbox
    /// has the reply while it is undelivered: the requesting page may have been listed before the backend had it.
    pub(super) fn deliver_again(self: &Arc<Self>, id: RequestId) {
        if self.backend.link().is_none() {
            return self.outbox.ring();
        }
        let delivery = Arc::clone(self);
        self.background.spawn(async move {
            delivery.outbox.is_idle(&id).await;
            let (journal, wanted) = (delivery.journal.clone(), id.clone());
            match blocking(move || journal.reader()?.kept_reply(&wanted)).await {
                Ok(Some(reply)) => delivery.deliver(reply).await,
                Ok(None) => {}
                Err(error) => {
                    tracing::error!(request.id = %id, %error, "a reply cannot be read from the journal");
                    delivery.outbox.ring();
                }
            }
        });
    }

    /// Posts a reply and tells the outbox the result.
    async fn settle_post(&self, reply: RecordedReply) -> bool {
        let id = reply.id().clone();
        match self.post(reply).await {
            Ok(()) => self.outbox.succeeded(&id),
            Err(trouble) => {
                self.outbox.failed(&id, trouble);
                return false;
            }
        }
        true
    }

    /// Posts a reply until the backend has it, rejects it for good, or must be retried later.
    async fn post(&self, mut reply: RecordedReply) -> Result<(), Trouble> {
        // Three corrections suffice for every refusal that can be corrected.
        for _ in 0..3 {
            let (generation, began) = (self.sessions.generation(), Instant::now());
            let post = ResultPost {
                id: reply.id(),
                lease: reply.lease(),
                kind: reply.kind(),
                payload: reply.payload(),
                truncated: reply.truncated(),
            };
            let error = match self.backend.post(post).await {
                Ok(posted) => {
                    reach_of("post.after", reply.id().as_str());
                    let close = if posted == Posted::Sent { Close::Sent } else { Close::Delivered };
                    return self.settle(&reply, close).await;
                }
                Err(error) => error,
            };
            match error.disposition() {
                Disposition::Never => {
                    if !self.mend(&reply, &error).await? {
                        let reason = error.to_string();
                        self.audit.record_undeliverable(reply.id(), error.code(), &reason);
                        return self.settle(&reply, Close::Undeliverable(reason)).await;
                    }
                }
                Disposition::Shrink(limit) => {
                    self.note(&reply, &error).await;
                    reply = self.shrink(&reply, limit).await?;
                }
                Disposition::Reopen => {
                    if let Err(cause) = self.sessions.reopen(generation).await {
                        self.note(&reply, &cause).await;
                        return Err(match cause.disposition() {
                            Disposition::Retry(pause) => self.trouble_of(&cause, pause, began),
                            _ => Trouble::Refused,
                        });
                    }
                }
                Disposition::Retry(pause) => {
                    let trouble = self.trouble_of(&error, pause, began);
                    self.note(&reply, &error).await;
                    return Err(trouble);
                }
                Disposition::RetrySlowly | Disposition::CorrectClock(_) | Disposition::SignAgain => {
                    self.note(&reply, &error).await;
                    return Err(Trouble::Reply);
                }
            }
        }
        Err(Trouble::Reply)
    }

    /// Returns how a failed post affects the others. A failure while other calls are answered says nothing about the
    /// whole backend: perhaps a proxy rejects large calls.
    fn trouble_of(&self, error: &BackendError, pause: Pause, began: Instant) -> Trouble {
        let no_answer = matches!(
            error,
            BackendError::Unreachable { .. }
                | BackendError::Intercepted { .. }
                | BackendError::NoBackend { .. }
        );
        if no_answer && !self.backend.has_answered_since(began) {
            Trouble::Unreachable
        } else {
            Trouble::Backend(pause)
        }
    }

    /// Returns whether posting again can succeed. A reply whose request may never have been claimed is claimed now. A
    /// tool with effects never ran unclaimed, so its lost lease is final.
    async fn mend(&self, reply: &RecordedReply, error: &BackendError) -> Result<bool, Trouble> {
        if error.code() != Some("LEASE_LOST") || reply.claimed() {
            return Ok(false);
        }
        match self.backend.claim(reply.id(), reply.lease()).await {
            Ok(claim) if claim.leased_for.is_some() => Err(Trouble::Reply),
            Ok(claim) => Ok(claim.granted),
            Err(error) => match error.disposition() {
                Disposition::Never => Ok(false),
                Disposition::Retry(pause) => Err(Trouble::Backend(pause)),
                _ => Err(Trouble::Reply),
            },
        }
    }

    /// Shrinks the reply. If the backend names a limit that the reply already meets, it counts differently; then half
    /// the size is used.
    async fn shrink(&self, reply: &RecordedReply, limit: Option<u64>) -> Result<RecordedReply, Trouble> {
        let now = reply.payload().len();
        let named = limit.and_then(|limit| usize::try_from(limit).ok()).filter(|limit| *limit < now);
        let target = named.unwrap_or(now / 2);
        if now <= SMALLEST {
            return Err(Trouble::Reply);
        }
        let smaller = crate::request::shrink_payload(reply.payload(), target).ok_or(Trouble::Reply)?;
        match self.journal.replace(reply, smaller).await {
            Ok(smaller) => Ok(smaller),
            Err(error) => {
                tracing::error!(request.id = %reply.id(), %error, "a smaller reply could not be recorded");
                Err(Trouble::Reply)
            }
        }
    }

    async fn settle(&self, reply: &RecordedReply, close: Close) -> Result<(), Trouble> {
        if let Close::Undeliverable(reason) = &close {
            tracing::warn!(request.id = %reply.id(), reason, "the backend does not take this reply");
        }
        // A reply that stays open is posted again later, which does no harm.
        self.journal.close(reply.id(), close, self.server_clock.closing_ms()).await.map_err(|error| {
            tracing::error!(request.id = %reply.id(), %error, "a delivered reply could not be closed");
            Trouble::Reply
        })
    }

    async fn note(&self, reply: &RecordedReply, error: &BackendError) {
        tracing::info!(request.id = %reply.id(), %error, "a reply could not be posted now; it is kept");
        if let Err(error) = self
            .journal
            .note_failed_post(reply.id(), error.to_string(), self.server_clock.local().now_ms())
            .await
        {
            tracing::warn!(request.id = %reply.id(), %error, "the failed post could not be noted");
        }
    }

    /// Posts everything undelivered, oldest first, until it is all delivered (true) or `until` fires.
    pub(super) async fn drain_outbox(self: &Arc<Self>, until: &CancellationToken) -> bool {
        loop {
            let change = self.outbox.change();
            let undelivered = self.undelivered().await;
            let due = match &undelivered {
                Ok(ids) if ids.is_empty() => return true,
                Ok(ids) => self.outbox.due(ids),
                Err(error) => {
                    tracing::error!(%error, "the outbox cannot be read");
                    Due::At(tokio::time::Instant::now() + self.retry.1)
                }
            };
            let wait = match due {
                Due::Now(ids) => {
                    tokio::select! {
                        () = self.post_all(&ids) => {}
                        () = until.cancelled() => return false,
                    }
                    continue;
                }
                Due::At(at) => at,
                Due::UnderWay => tokio::time::Instant::now() + self.retry.1,
            };
            tokio::select! {
                () = tokio::time::sleep_until(wait) => {}
                () = change => {}
                () = self.outbox.rung() => {}
                () = until.cancelled() => return false,
            }
        }
    }

    /// Posts these replies, a few at a time; starts no more posts once one shows that the backend is away.
    async fn post_all(self: &Arc<Self>, ids: &[RequestId]) {
        let mut posts = JoinSet::new();
        for id in ids {
            let most = SIDE_BY_SIDE.min(self.outbox.at_once());
            if posts.len() >= most && matches!(posts.join_next().await, Some(Ok(false) | Err(_))) {
                break;
            }
            let (delivery, id) = (Arc::clone(self), id.clone());
            posts.spawn(async move { delivery.post_recorded(&id).await });
        }
        while posts.join_next().await.is_some() {}
    }

    /// Posts one reply of the journal, unless it is being posted or is delivered by now.
    async fn post_recorded(self: Arc<Self>, id: &RequestId) -> bool {
        let Some(slot) = self.outbox.take(id) else { return true };
        let (journal, wanted) = (self.journal.clone(), id.clone());
        match blocking(move || journal.reader()?.undelivered_reply(&wanted)).await {
            Ok(Some(reply)) => {
                slot.sends(reply.payload().len());
                self.settle_post(reply).await
            }
            Ok(None) => true,
            Err(error) => {
                tracing::error!(request.id = %id, %error, "a reply cannot be read from the journal");
                self.outbox.failed(id, Trouble::Reply);
                false
            }
        }
    }

    async fn undelivered(&self) -> Result<Vec<RequestId>, JournalError> {
        let journal = self.journal.clone();
        blocking(move || journal.reader()?.undelivered()).await
    }
}

async fn blocking<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, JournalError> + Send + 'static,
) -> Result<T, JournalError> {
    tokio::task::spawn_blocking(read).await.unwrap_or(Err(JournalError::NotCommitted))
}

/// Drains the outbox whenever it is signalled, until the runner is over.
pub(super) async fn work_outbox(delivery: Arc<Delivery>) {
    loop {
        tokio::select! {
            () = delivery.background.phases.over.cancelled() => return,
            () = delivery.outbox.rung() => {}
        }
        let until = delivery.background.phases.over.clone();
        delivery.drain_outbox(&until).await;
    }
}

/// Stores the number of bytes being sent, for `status`, which runs in another process. Short sends are not recorded.
pub(super) async fn record_sending(delivery: Arc<Delivery>) {
    let mut sending = delivery.outbox.sending();
    // An earlier process may have left a number.
    let mut told = None;
    loop {
        let now = *sending.borrow_and_update();
        if told != Some(now) {
            match delivery.journal.remember(SENDING, now.to_string()).await {
                Ok(()) => told = Some(now),
                Err(error) => tracing::warn!(%error, "how much is being sent could not be noted"),
            }
        }
        let later = async {
            // The sender exists as long as the runner's components.
            let _ = sending.changed().await;
            tokio::time::sleep(TELL_AFTER).await;
        };
        tokio::select! {
            () = later => {}
            () = delivery.background.phases.over.cancelled() => return,
        }
    }
}
