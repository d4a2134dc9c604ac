//! Work that is due from time to time: listing everything open, giving up unwanted replies, and deleting requests
//! closed long ago. Replies are given up by the backend's clock; rows are deleted by the expiry clock.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::Housekeeping;
use crate::journal::{BATCH, CloseReason, JournalError, SignatureExpiry};
use crate::runner::tool_threads::run_on_blocking_thread;
use crate::runner::wake_event::WakeEvent;
use punie_tool::request::RequestAuth;

/// The pause between two batches of deletions.
const BATCH_PAUSE: Duration = Duration::from_millis(20);
/// The most batches of one kind in a row; the next run continues.
const MAX_BATCHES: usize = 200;

/// Runs the retention work until the runner is over.
pub async fn run_retention(housekeeping: Arc<Housekeeping>) {
    let (keeper, handles) = (&housekeeping, &housekeeping.handles);
    let poll = &handles.settings.poll;
    let period = poll.list_open;
    // A list was requested at the start.
    let mut listed = Instant::now();
    loop {
        tokio::select! {
            () = handles.timer.wait_for_check(period) => {}
            () = handles.phases.over.cancelled() => return,
        }
        let due = if handles.socket.is_connected() {
            poll.listening_list_open
        } else {
            period
        };
        // A tick takes about one period.
        if listed.elapsed() + period / 2 >= due {
            listed = Instant::now();
            handles.waker.wake(WakeEvent::ListOpenDue);
        }
        if handles.server_clock.is_read() {
            keeper.give_up_replies().await;
        }
        let now = handles.server_clock.expiry().now_ms();
        if let Some(now) = now {
            keeper.delete_old_rows(now).await;
        }
        keeper.delete_old_records(now).await;
    }
}

fn to_millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}

impl Housekeeping {
    /// Gives up the replies whose request expired long ago. It waits for a while after the backend came back from an
    /// outage, so that the backend is asked once more.
    async fn give_up_replies(&self) {
        let (handles, settings) = (&self.handles, &self.handles.settings);
        if !handles.health.is_contact_stable(settings.poll.list_open) {
            return;
        }
        let given_up = match self.find_unwanted_replies().await {
            Ok(ids) => ids,
            Err(error) => return tracing::warn!(%error, "old replies could not be looked for"),
        };
        for id in given_up {
            let days = settings.retention.keep_posting.as_secs() / 86_400;
            let reason = format!(
                "not taken by the backend within {days} days after the request had expired"
            );
            tracing::warn!(request.id = %id, reason, "a reply is given up");
            handles.audit.record_undeliverable(&id, None, &reason);
            let close = CloseReason::Undeliverable(reason);
            let closing_ms = handles.server_clock.closing_ms();
            let closed = handles.journal.close_request(&id, close, closing_ms);
            if let Err(error) = closed.await {
                return tracing::warn!(%error, "a reply could not be given up");
            }
        }
    }

    async fn find_unwanted_replies(&self) -> Result<Vec<punie_core::ids::RequestId>, JournalError> {
        let (handles, settings) = (&self.handles, &self.handles.settings);
        if handles.counts.count_open().await?.counts.outbox == 0 {
            return Ok(Vec::new());
        }
        #[expect(clippy::cast_precision_loss, reason = "milliseconds far below 2^53")]
        let (before, ttl) = (
            (handles.server_clock.whole_now_ms() - to_millis(settings.retention.keep_posting))
                as f64,
            to_millis(settings.calls.current().ttl) as f64,
        );
        let journal = &handles.journal;
        let read = journal.read_blocking(move |reader| reader.expired_replies(before, ttl));
        read.await
    }

    async fn delete_old_rows(&self, now: i64) {
        let (journal, settings) = (&self.handles.journal, &self.handles.settings);
        let before = now.saturating_sub(to_millis(settings.retention.remember));
        let sent = now.saturating_sub(to_millis(settings.retention.keep_sent));
        let signed = SignatureExpiry {
            // The backend could set its clock ahead, and a mistake could set the local one ahead.
            now_ms: now - RequestAuth::SKEW_MS_WHOLE,
            ttl_ms: to_millis(settings.calls.current().ttl),
        };
        match self
            .delete_in_batches(|| journal.delete_closed_requests(before, signed))
            .await
        {
            Ok(0) => {}
            Ok(forgotten) => tracing::info!(forgotten, "requests closed long ago were forgotten"),
            Err(error) => tracing::warn!(%error, "old requests could not be forgotten"),
        }
        if let Err(error) = self
            .delete_in_batches(|| journal.delete_sent_replies(sent))
            .await
        {
            tracing::warn!(%error, "replies that were sent long ago could not be dropped");
        }
        if let Err(error) = self
            .delete_in_batches(|| journal.delete_incidents(before))
            .await
        {
            tracing::warn!(%error, "old incidents could not be forgotten");
        }
    }

    async fn delete_old_records(&self, now: Option<i64>) {
        if let Some(records) = self.handles.sealer.records.clone() {
            let removed = run_on_blocking_thread(move || records.remove_expired(now)).await;
            if let Err(error) = removed {
                tracing::warn!(%error, "old arguments and outputs could not be removed");
            }
        }
    }

    /// Deletes batch after batch until nothing is left or the limit is reached; returns the number of deleted rows.
    /// Calls can write between batches.
    async fn delete_in_batches<F>(&self, delete: impl Fn() -> F) -> Result<usize, JournalError>
    where
        F: Future<Output = Result<usize, JournalError>>,
    {
        let mut deleted = 0;
        for _ in 0..MAX_BATCHES {
            let batch = delete().await?;
            deleted += batch;
            if batch < BATCH {
                break;
            }
            tokio::select! {
                () = tokio::time::sleep(BATCH_PAUSE) => {}
                () = self.handles.phases.stopping.cancelled() => break,
            }
        }
        Ok(deleted)
    }
}
