//! Recorded replies on their way to the backend: posted at once, and again until it has them. Nothing here executes.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::backoff::Retry;
use super::engine::Engine;
use crate::backend::{BackendError, Disposition, Posted, ResultPost};
use crate::journal::{Close, RecordedReply};

/// How many replies are fetched and posted side by side when the outbox is drained.
const SIDE_BY_SIDE: u32 = 8;

/// What became of one post.
enum Delivery {
    /// The backend has it, or will never take it: the request is closed.
    Done,
    /// Later, not before this long.
    Later(Option<Duration>),
    /// Later, seldom.
    MuchLater,
}

impl Engine {
    /// Posts a reply now; if that does not succeed, the outbox goes on with it.
    pub(super) async fn deliver(self: &Arc<Self>, reply: RecordedReply) {
        if !matches!(self.post(reply).await, Delivery::Done) {
            self.outbox.notify_one();
        }
    }

    async fn post(&self, mut reply: RecordedReply) -> Delivery {
        // Three corrections suffice for every refusal that a correction can mend.
        for _ in 0..3 {
            let generation = self.sessions.generation();
            let post = ResultPost {
                id: reply.id(),
                lease: reply.lease(),
                kind: reply.kind(),
                payload: reply.payload(),
                truncated: reply.truncated(),
            };
            let error = match self.backend.post(post).await {
                Ok(Posted::Stored | Posted::Duplicate) => return self.closed(&reply, Close::Delivered).await,
                Err(error) => error,
            };
            match error.disposition() {
                Disposition::Never => match self.mend(&reply, &error).await {
                    Mended::Yes => {}
                    Mended::No => return self.closed(&reply, Close::Undeliverable(error.to_string())).await,
                    Mended::Later => return self.failed(&reply, &error, Delivery::Later(None)).await,
                },
                Disposition::Shrink(limit) => match self.shrink(&reply, limit).await {
                    Some(smaller) => reply = smaller,
                    None => return self.closed(&reply, Close::Undeliverable(error.to_string())).await,
                },
                Disposition::Reopen => {
                    if let Err(cause) = self.sessions.reopen(generation).await {
                        return self.failed(&reply, &cause, Delivery::Later(None)).await;
                    }
                }
                Disposition::Retry(floor) => {
                    return self.failed(&reply, &error, Delivery::Later(floor)).await;
                }
                Disposition::RetrySlowly | Disposition::CorrectClock(_) | Disposition::SignAgain => {
                    return self.failed(&reply, &error, Delivery::MuchLater).await;
                }
            }
        }
        Delivery::MuchLater
    }

    /// A reply whose request was perhaps never claimed is claimed now; a tool with effects never ran unclaimed, so
    /// for it a lost lease is final.
    async fn mend(&self, reply: &RecordedReply, error: &BackendError) -> Mended {
        if error.code() != Some("LEASE_LOST") || reply.claimed() {
            return Mended::No;
        }
        match self.backend.claim(reply.id(), reply.lease()).await {
            Ok(claim) if claim.granted => Mended::Yes,
            Ok(claim) if claim.leased_for.is_some() => Mended::Later,
            Ok(_) => Mended::No,
            Err(error) if error.disposition() == Disposition::Never => Mended::No,
            Err(_) => Mended::Later,
        }
    }

    async fn shrink(&self, reply: &RecordedReply, limit: Option<u64>) -> Option<RecordedReply> {
        let limit = limit.and_then(|limit| usize::try_from(limit).ok()).unwrap_or(reply.payload().len() / 2);
        let smaller = crate::request::shrink_payload(reply.payload(), limit)?;
        self.journal.replace(reply, smaller).await.ok()
    }

    async fn closed(&self, reply: &RecordedReply, close: Close) -> Delivery {
        if let Close::Undeliverable(reason) = &close {
            tracing::warn!(request.id = %reply.id(), reason, "the backend does not take this reply");
        }
        if let Err(error) = self.journal.close(reply.id(), close, self.clock.now_ms()).await {
            tracing::error!(request.id = %reply.id(), %error, "a delivered reply could not be closed");
        }
        Delivery::Done
    }

    async fn failed(&self, reply: &RecordedReply, error: &BackendError, delivery: Delivery) -> Delivery {
        tracing::info!(request.id = %reply.id(), %error, "a reply could not be posted now; it is kept");
        if let Err(error) = self.journal.note_failed_post(reply.id(), error.to_string()).await {
            tracing::warn!(request.id = %reply.id(), %error, "the failed post could not be noted");
        }
        delivery
    }

    /// Posts everything undelivered, oldest first, until it is all delivered or `until` fires.
    /// Returns whether nothing is left.
    pub(super) async fn drain_outbox(self: &Arc<Self>, until: &CancellationToken) -> bool {
        let mut retry = Retry::new(self.settings.retry);
        let mut slow = Retry::new(self.settings.slow_retry);
        loop {
            let wait = match self.post_some().await {
                Some(Delivery::Done) => {
                    retry.reset();
                    continue;
                }
                None => return true,
                Some(Delivery::Later(floor)) => retry.next(floor),
                Some(Delivery::MuchLater) => slow.next(None),
            };
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = self.outbox.notified() => {}
                () = until.cancelled() => return false,
            }
        }
    }

    /// Posts the oldest undelivered replies; none are left when it returns nothing. The worst that happened decides.
    async fn post_some(self: &Arc<Self>) -> Option<Delivery> {
        let replies = self.undelivered().await?;
        let mut posts = tokio::task::JoinSet::new();
        for reply in replies {
            let engine = Arc::clone(self);
            posts.spawn(async move { engine.post(reply).await });
        }
        let mut worst = Delivery::Done;
        while let Some(posted) = posts.join_next().await {
            worst = match (worst, posted.unwrap_or(Delivery::MuchLater)) {
                (Delivery::MuchLater, _) | (_, Delivery::MuchLater) => Delivery::MuchLater,
                (Delivery::Later(a), Delivery::Later(b)) => Delivery::Later(a.max(b)),
                (later @ Delivery::Later(_), _) | (_, later @ Delivery::Later(_)) => later,
                (Delivery::Done, Delivery::Done) => Delivery::Done,
            };
        }
        Some(worst)
    }

    async fn undelivered(&self) -> Option<Vec<RecordedReply>> {
        let journal = self.journal.clone();
        let read = tokio::task::spawn_blocking(move || journal.reader()?.undelivered(SIDE_BY_SIDE)).await;
        match read {
            Ok(Ok(replies)) => (!replies.is_empty()).then_some(replies),
            Ok(Err(error)) => {
                tracing::error!(%error, "the outbox cannot be read");
                None
            }
            Err(_) => None,
        }
    }
}

enum Mended {
    Yes,
    No,
    Later,
}

/// Works the outbox whenever it is rung, until the runner is over.
pub(super) async fn work_outbox(engine: Arc<Engine>) {
    loop {
        tokio::select! {
            () = engine.over.cancelled() => return,
            () = engine.outbox.notified() => {}
        }
        let until = engine.over.clone();
        engine.drain_outbox(&until).await;
    }
}
