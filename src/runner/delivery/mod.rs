//! The delivery of recorded replies: each is posted at once, and again until the backend has it. The outbox decides
//! when a reply may be posted.

pub(super) mod outbox;

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::backend_client::BackendClient;
use super::background::BackgroundTasks;
use super::call_audit::CallAudit;
use super::clock::ServerClock;
use super::session_keeper::SessionKeeper;
use crate::backend::{
    Backend as _, BackendError, PostOutcome, RecoveryAction, ResultPost, RetryDelay,
};
use crate::failpoint::reach_of;
use crate::ids::RequestId;
use crate::journal::{CloseReason, Journal, JournalError, RecordedReply};
use outbox::{DueReplies, Outbox, PostFailure};

/// The most replies that are read and posted at the same time when the outbox is drained.
const MAX_CONCURRENT_POSTS: usize = 8;

/// The journal key of the number of bytes being sent, for `status`.
const SENDING_KEY: &str = "sending_bytes";
/// Posts that end within this time are not reported.
const REPORT_DELAY: Duration = Duration::from_secs(2);

/// A reply of fewer bytes is not shrunk: it holds little but the metadata.
const MIN_SHRINKABLE_BYTES: usize = 1_000;

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
    pub background: BackgroundTasks,
}

impl Delivery {
    /// Posts a reply now if that is allowed; if it does not succeed, the outbox continues with it.
    pub(super) async fn deliver_reply(self: &Arc<Self>, reply: RecordedReply) {
        let id = reply.request_id().clone();
        let delivered = match self.outbox.begin_post(&id) {
            Some(slot) => {
                slot.set_size(reply.payload_text().len());
                self.post_and_report(reply).await
            }
            None => false,
        };
        if !delivered {
            self.outbox.signal_work();
        }
    }

    /// Posts a reply that was requested again. A backend with a link confirms only a reply's arrival. There, a post
    /// in progress was sent before the request, so the reply is posted once more after it. Without a link, the outbox
    /// has the reply while it is undelivered: the requesting page may have been listed before the backend had it.
    pub(super) fn redeliver_reply(self: &Arc<Self>, id: RequestId) {
        if self.backend.connection_status().is_none() {
            return self.outbox.signal_work();
        }
        let delivery = Arc::clone(self);
        self.background.spawn_task(async move {
            delivery.outbox.wait_until_idle(&id).await;
            let (journal, wanted) = (delivery.journal.clone(), id.clone());
            match read_blocking(move || journal.open_reader()?.retained_reply(&wanted)).await {
                Ok(Some(reply)) => delivery.deliver_reply(reply).await,
                Ok(None) => {}
                Err(error) => {
                    tracing::error!(request.id = %id, %error, "a reply cannot be read from the journal");
                    delivery.outbox.signal_work();
                }
            }
        });
    }

    /// Posts a reply and tells the outbox the result.
    async fn post_and_report(&self, reply: RecordedReply) -> bool {
        let id = reply.request_id().clone();
        match self.post_until_final(reply).await {
            Ok(()) => self.outbox.record_delivered(&id),
            Err(trouble) => {
                self.outbox.record_post_failure(&id, trouble);
                return false;
            }
        }
        true
    }

    /// Posts a reply until the backend has it, rejects it for good, or must be retried later.
    async fn post_until_final(&self, mut reply: RecordedReply) -> Result<(), PostFailure> {
        // Three corrections suffice for every refusal that can be corrected.
        for _ in 0..3 {
            let (generation, began) = (self.sessions.current_generation(), Instant::now());
            let post = ResultPost {
                id: reply.request_id(),
                lease: reply.lease_id(),
                kind: reply.outcome_kind(),
                payload: reply.payload_text(),
                truncated: reply.is_truncated(),
            };
            let error = match self.backend.post_result(post).await {
                Ok(posted) => {
                    reach_of("post.after", reply.request_id().as_str());
                    let close = if posted == PostOutcome::Sent {
                        CloseReason::Sent
                    } else {
                        CloseReason::Delivered
                    };
                    return self.close_reply(&reply, close).await;
                }
                Err(error) => error,
            };
            match error.recovery_action() {
                RecoveryAction::GiveUp => {
                    if !self.try_late_claim(&reply, &error).await? {
                        let reason = error.to_string();
                        self.audit.record_undeliverable(
                            reply.request_id(),
                            error.refusal_code(),
                            &reason,
                        );
                        return self
                            .close_reply(&reply, CloseReason::Undeliverable(reason))
                            .await;
                    }
                }
                RecoveryAction::Shrink(limit) => {
                    self.record_failed_post(&reply, &error).await;
                    reply = self.shrink_reply(&reply, limit).await?;
                }
                RecoveryAction::ReopenSession => {
                    if let Err(cause) = self.sessions.reopen_session(generation).await {
                        self.record_failed_post(&reply, &cause).await;
                        return Err(match cause.recovery_action() {
                            RecoveryAction::Retry(pause) => {
                                self.classify_failure(&cause, pause, began)
                            }
                            _ => PostFailure::Refused,
                        });
                    }
                }
                RecoveryAction::Retry(pause) => {
                    let trouble = self.classify_failure(&error, pause, began);
                    self.record_failed_post(&reply, &error).await;
                    return Err(trouble);
                }
                RecoveryAction::RetrySlowly
                | RecoveryAction::CorrectClock(_)
                | RecoveryAction::SignAgain => {
                    self.record_failed_post(&reply, &error).await;
                    return Err(PostFailure::Reply);
                }
            }
        }
        Err(PostFailure::Reply)
    }

    /// Returns how a failed post affects the others. A failure while other calls are answered says nothing about the
    /// whole backend: perhaps a proxy rejects large calls.
    fn classify_failure(
        &self,
        error: &BackendError,
        pause: RetryDelay,
        began: Instant,
    ) -> PostFailure {
        let no_answer = matches!(
            error,
            BackendError::Unreachable { .. }
                | BackendError::Intercepted { .. }
                | BackendError::NoBackend { .. }
        );
        if no_answer && !self.backend.has_answered_since(began) {
            PostFailure::Unreachable
        } else {
            PostFailure::Backend(pause)
        }
    }

    /// Returns whether posting again can succeed. A reply whose request may never have been claimed is claimed now. A
    /// tool with effects never ran unclaimed, so its lost lease is final.
    async fn try_late_claim(
        &self,
        reply: &RecordedReply,
        error: &BackendError,
    ) -> Result<bool, PostFailure> {
        if error.refusal_code() != Some("LEASE_LOST") || reply.is_claimed() {
            return Ok(false);
        }
        match self
            .backend
            .claim_request(reply.request_id(), reply.lease_id())
            .await
        {
            Ok(claim) if claim.leased_for.is_some() => Err(PostFailure::Reply),
            Ok(claim) => Ok(claim.granted),
            Err(error) => match error.recovery_action() {
                RecoveryAction::GiveUp => Ok(false),
                RecoveryAction::Retry(pause) => Err(PostFailure::Backend(pause)),
                _ => Err(PostFailure::Reply),
            },
        }
    }

    /// Shrinks the reply. If the backend names a limit that the reply already meets, it counts differently; then half
    /// the size is used.
    async fn shrink_reply(
        &self,
        reply: &RecordedReply,
        limit: Option<u64>,
    ) -> Result<RecordedReply, PostFailure> {
        let now = reply.payload_text().len();
        let named = limit
            .and_then(|limit| usize::try_from(limit).ok())
            .filter(|limit| *limit < now);
        let target = named.unwrap_or(now / 2);
        if now <= MIN_SHRINKABLE_BYTES {
            return Err(PostFailure::Reply);
        }
        let smaller = crate::request::shrink_payload(reply.payload_text(), target)
            .ok_or(PostFailure::Reply)?;
        match self.journal.replace_reply(reply, smaller).await {
            Ok(smaller) => Ok(smaller),
            Err(error) => {
                tracing::error!(request.id = %reply.request_id(), %error, "a smaller reply could not be recorded");
                Err(PostFailure::Reply)
            }
        }
    }

    async fn close_reply(
        &self,
        reply: &RecordedReply,
        close: CloseReason,
    ) -> Result<(), PostFailure> {
        if let CloseReason::Undeliverable(reason) = &close {
            tracing::warn!(request.id = %reply.request_id(), reason, "the backend does not take this reply");
        }
        // A reply that stays open is posted again later, which does no harm.
        self.journal.close_request(reply.request_id(), close, self.server_clock.closing_ms()).await.map_err(|error| {
            tracing::error!(request.id = %reply.request_id(), %error, "a delivered reply could not be closed");
            PostFailure::Reply
        })
    }

    async fn record_failed_post(&self, reply: &RecordedReply, error: &BackendError) {
        tracing::info!(request.id = %reply.request_id(), %error, "a reply could not be posted now; it is kept");
        if let Err(error) = self
            .journal
            .record_failed_post(
                reply.request_id(),
                error.to_string(),
                self.server_clock.local_clock().now_ms(),
            )
            .await
        {
            tracing::warn!(request.id = %reply.request_id(), %error, "the failed post could not be noted");
        }
    }

    /// Posts everything undelivered, oldest first, until it is all delivered (true) or `until` fires.
    pub(super) async fn drain_outbox(self: &Arc<Self>, until: &CancellationToken) -> bool {
        loop {
            let change = self.outbox.wait_for_outbox_change();
            let undelivered = self.list_undelivered().await;
            let due = match &undelivered {
                Ok(ids) if ids.is_empty() => return true,
                Ok(ids) => self.outbox.find_due(ids),
                Err(error) => {
                    tracing::error!(%error, "the outbox cannot be read");
                    DueReplies::At(tokio::time::Instant::now() + self.retry.1)
                }
            };
            let wait = match due {
                DueReplies::Now(ids) => {
                    tokio::select! {
                        () = self.post_replies(&ids) => {}
                        () = until.cancelled() => return false,
                    }
                    continue;
                }
                DueReplies::At(at) => at,
                DueReplies::InProgress => tokio::time::Instant::now() + self.retry.1,
            };
            tokio::select! {
                () = tokio::time::sleep_until(wait) => {}
                () = change => {}
                () = self.outbox.wait_for_work() => {}
                () = until.cancelled() => return false,
            }
        }
    }

    /// Posts these replies, a few at a time; starts no more posts once one shows that the backend is away.
    async fn post_replies(self: &Arc<Self>, ids: &[RequestId]) {
        let mut posts = JoinSet::new();
        for id in ids {
            let most = MAX_CONCURRENT_POSTS.min(self.outbox.post_limit());
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
        let Some(slot) = self.outbox.begin_post(id) else {
            return true;
        };
        let (journal, wanted) = (self.journal.clone(), id.clone());
        match read_blocking(move || journal.open_reader()?.undelivered_reply(&wanted)).await {
            Ok(Some(reply)) => {
                slot.set_size(reply.payload_text().len());
                self.post_and_report(reply).await
            }
            Ok(None) => true,
            Err(error) => {
                tracing::error!(request.id = %id, %error, "a reply cannot be read from the journal");
                self.outbox.record_post_failure(id, PostFailure::Reply);
                false
            }
        }
    }

    async fn list_undelivered(&self) -> Result<Vec<RequestId>, JournalError> {
        let journal = self.journal.clone();
        read_blocking(move || journal.open_reader()?.undelivered_requests()).await
    }
}

async fn read_blocking<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, JournalError> + Send + 'static,
) -> Result<T, JournalError> {
    tokio::task::spawn_blocking(read)
        .await
        .unwrap_or(Err(JournalError::NotCommitted))
}

/// Drains the outbox whenever it is signalled, until the runner is over.
pub(super) async fn run_outbox(delivery: Arc<Delivery>) {
    loop {
        tokio::select! {
            () = delivery.background.phases.over.cancelled() => return,
            () = delivery.outbox.wait_for_work() => {}
        }
        let until = delivery.background.phases.over.clone();
        delivery.drain_outbox(&until).await;
    }
}

/// Stores the number of bytes being sent, for `status`, which runs in another process. Short sends are not recorded.
pub(super) async fn record_sending(delivery: Arc<Delivery>) {
    let mut sending = delivery.outbox.subscribe_sending();
    // An earlier process may have left a number.
    let mut told = None;
    loop {
        let now = *sending.borrow_and_update();
        if told != Some(now) {
            match delivery
                .journal
                .store_fact(SENDING_KEY, now.to_string())
                .await
            {
                Ok(()) => told = Some(now),
                Err(error) => tracing::warn!(%error, "how much is being sent could not be noted"),
            }
        }
        let later = async {
            // The sender exists as long as the runner's components.
            let _ = sending.changed().await;
            tokio::time::sleep(REPORT_DELAY).await;
        };
        tokio::select! {
            () = later => {}
            () = delivery.background.phases.over.cancelled() => return,
        }
    }
}
