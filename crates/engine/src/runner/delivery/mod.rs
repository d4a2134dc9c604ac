//! The delivery of recorded replies: each is posted at once, and again until the backend has it. The outbox decides
//! when a reply may be posted.

pub(super) mod outbox;
mod reply_post;
mod sending_record;

use std::sync::Arc;

use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::handles::Handles;
use crate::backend::Backend as _;
use crate::journal::{JournalReader, RecordedReply};
use outbox::{DueReplies, PostFailure};
use punie_core::ids::RequestId;
pub(super) use sending_record::record_sending;

/// The most replies that are read and posted at the same time when the outbox is drained.
const MAX_DRAIN_POSTS: usize = 8;

/// Posts recorded replies.
pub(super) struct Delivery {
    pub handles: Arc<Handles>,
}

impl Delivery {
    /// Posts a reply now if that is allowed; if it does not succeed, the outbox continues with it.
    pub(super) async fn deliver_reply(self: &Arc<Self>, reply: RecordedReply) {
        let id = reply.request_id().clone();
        let delivered = match self.handles.outbox.begin_post(&id) {
            Some(slot) => {
                slot.set_size(reply.payload_text().len());
                self.post_and_report(reply).await
            }
            None => false,
        };
        if !delivered {
            self.handles.outbox.signal_work();
        }
    }

    /// Posts a reply that was requested again. A backend with a link confirms only a reply's arrival. There, a post
    /// in progress was sent before the request, so the reply is posted once more after it. Without a link, the outbox
    /// has the reply while it is undelivered: the requesting page may have been listed before the backend had it.
    pub(super) fn redeliver_reply(self: &Arc<Self>, id: RequestId) {
        if self.handles.backend.connection_status().is_none() {
            return self.handles.outbox.signal_work();
        }
        let delivery = Arc::clone(self);
        self.handles.background.spawn(async move {
            delivery.handles.outbox.wait_until_idle(&id).await;
            let wanted = id.clone();
            let read = delivery
                .handles.journal
                .read_blocking(move |reader| reader.retained_reply(&wanted));
            match read.await {
                Ok(Some(reply)) => delivery.deliver_reply(reply).await,
                Ok(None) => {}
                Err(error) => {
                    tracing::error!(request.id = %id, %error, "a reply cannot be read from the journal");
                    delivery.handles.outbox.signal_work();
                }
            }
        });
    }

    /// Posts a reply and tells the outbox the result.
    async fn post_and_report(&self, reply: RecordedReply) -> bool {
        let id = reply.request_id().clone();
        match self.post_until_final(reply).await {
            Ok(()) => self.handles.outbox.record_delivered(&id),
            Err(trouble) => {
                self.handles.outbox.record_post_failure(&id, trouble);
                return false;
            }
        }
        true
    }

    /// Returns whether nothing is posted because the backend cannot be reached.
    pub(super) fn is_backend_away(&self) -> bool {
        self.handles.outbox.is_backend_away()
    }

    /// Posts everything undelivered, oldest first, until it is all delivered (true) or `until` fires.
    pub(super) async fn drain_outbox(self: &Arc<Self>, until: &CancellationToken) -> bool {
        let outbox = &self.handles.outbox;
        let settings = &self.handles.settings;
        loop {
            let change = outbox.wait_for_change();
            let undelivered = self
                .handles
                .journal
                .read_blocking(JournalReader::undelivered_requests)
                .await;
            let due = match &undelivered {
                Ok(ids) if ids.is_empty() => return true,
                Ok(ids) => outbox.find_due(ids),
                Err(error) => {
                    tracing::error!(%error, "the outbox cannot be read");
                    DueReplies::At(Instant::now() + settings.waits.retry.1)
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
                DueReplies::InProgress => Instant::now() + settings.waits.retry.1,
            };
            tokio::select! {
                () = tokio::time::sleep_until(wait) => {}
                () = change => {}
                () = outbox.wait_for_work() => {}
                () = until.cancelled() => return false,
            }
        }
    }

    /// Posts these replies, a few at a time; starts no more posts once one shows that the backend is away.
    async fn post_replies(self: &Arc<Self>, ids: &[RequestId]) {
        let mut posts = JoinSet::new();
        for id in ids {
            let most = MAX_DRAIN_POSTS.min(self.handles.outbox.post_limit());
            if posts.len() >= most && matches!(posts.join_next().await, Some(Ok(false) | Err(_))) {
                break;
            }
            let delivery = Arc::clone(self);
            let id = id.clone();
            posts.spawn(async move { delivery.post_recorded(&id).await });
        }
        while posts.join_next().await.is_some() {}
    }

    /// Posts one reply of the journal, unless it is being posted or is delivered by now.
    async fn post_recorded(self: Arc<Self>, id: &RequestId) -> bool {
        let outbox = &self.handles.outbox;
        let journal = &self.handles.journal;
        let Some(slot) = outbox.begin_post(id) else {
            return true;
        };
        let wanted = id.clone();
        let read = journal.read_blocking(move |reader| reader.undelivered_reply(&wanted));
        match read.await {
            Ok(Some(reply)) => {
                slot.set_size(reply.payload_text().len());
                self.post_and_report(reply).await
            }
            Ok(None) => true,
            Err(error) => {
                tracing::error!(request.id = %id, %error, "a reply cannot be read from the journal");
                outbox.record_post_failure(id, PostFailure::Reply);
                false
            }
        }
    }
}

/// Drains the outbox whenever it is signalled, until the runner is over.
pub(super) async fn run_outbox(delivery: Arc<Delivery>) {
    let handles = &delivery.handles;
    loop {
        tokio::select! {
            () = handles.phases.over.cancelled() => return,
            () = handles.outbox.wait_for_work() => {}
        }
        delivery.drain_outbox(&handles.phases.over).await;
    }
}
