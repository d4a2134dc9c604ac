//! The rules for posting recorded replies. None is posted while the backend is away or asked for a pause. A refused
//! reply waits separately, and none is posted twice at the same time. This file only decides; delivery does the
//! posting.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::backend::RetryDelay;
use crate::runner::backoff::{RetryBudget, RetryIntervals};
use punie_core::ids::RequestId;

/// The most replies that are posted at once.
const MAX_POSTS_AT_ONCE: usize = 16;

/// The number of bytes being sent from which `status` shows them.
const MIN_REPORTED_BYTES: u64 = 64 << 10;

/// The effect of a failed post on the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::runner) enum PostFailure {
    /// No reply can be delivered now.
    Backend(RetryDelay),
    /// The backend answered neither this nor any other call meanwhile.
    Unreachable,
    /// This device is refused; polling finds out when that changes.
    Refused,
    /// Only this reply is refused, for no reason that can be acted on.
    Reply,
}

/// The replies that may be posted now.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::runner) enum DueReplies {
    /// These replies, oldest first.
    Now(Vec<RequestId>),
    /// Nothing before this moment, unless something changes.
    At(Instant),
    /// Nothing until something changes: all of them are being posted.
    InProgress,
}

/// The waits between posts.
#[derive(Debug, Clone, Copy)]
pub(in crate::runner) struct OutboxWaits {
    /// The first and the longest wait while the backend is away.
    pub backend: (Duration, Duration),
    /// The first and the longest wait of one refused reply.
    pub reply: (Duration, Duration),
    /// The wait while this device is refused.
    pub refused: Duration,
}

pub(in crate::runner) struct Outbox {
    waits: OutboxWaits,
    budget: Arc<RetryBudget>,
    state: Mutex<OutboxState>,
    /// Signalled when there is something to post.
    work_signal: Notify,
    /// Signalled when a post ended or the backend is back.
    changed: Notify,
    /// The number of bytes being posted, if they are many.
    sending: watch::Sender<u64>,
}

struct OutboxState {
    retry: RetryIntervals,
    pause: Option<PostingPause>,
    stuck: HashMap<RequestId, RetriedReply>,
    /// The replies that are being posted, and their sizes.
    in_progress: HashMap<RequestId, u64>,
    /// The number of replies that may be posted at once: fewer after each failed delivery, more after each success.
    at_once: usize,
}

#[derive(Debug, Clone, Copy)]
struct PostingPause {
    until: Instant,
    cause: PauseCause,
}

/// The reason why nothing is posted for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PauseCause {
    /// The backend named the time itself: nothing else ends the wait.
    Asked,
    /// The backend does not accept replies but may answer other calls: the end of the outage ends the wait.
    Failing,
    /// The backend does not answer: any answer ends the wait.
    Unreachable,
    /// The backend refuses this device: an answer to any call of an open session ends the wait.
    Refused,
}

struct RetriedReply {
    retry: RetryIntervals,
    until: Instant,
}

/// The permission to post one reply; dropping it ends the post.
pub(in crate::runner) struct PostSlot<'a> {
    outbox: &'a Outbox,
    id: RequestId,
}

impl Drop for PostSlot<'_> {
    fn drop(&mut self) {
        let mut state = self.outbox.state.lock();
        state.in_progress.remove(&self.id);
        self.outbox.publish_sending(&state);
        drop(state);
        self.outbox.changed.notify_waiters();
    }
}

impl PostSlot<'_> {
    /// Sets the number of bytes that are being posted.
    pub fn set_size(&self, bytes: usize) {
        let mut state = self.outbox.state.lock();
        state.in_progress.insert(self.id.clone(), bytes as u64);
        self.outbox.publish_sending(&state);
    }
}

impl Outbox {
    pub fn new(waits: OutboxWaits, budget: Arc<RetryBudget>) -> Self {
        let state = OutboxState {
            retry: RetryIntervals::new(waits.backend).with_budget(&budget),
            pause: None,
            stuck: HashMap::new(),
            in_progress: HashMap::new(),
            at_once: MAX_POSTS_AT_ONCE,
        };
        Self {
            waits,
            budget,
            state: Mutex::new(state),
            work_signal: Notify::new(),
            changed: Notify::new(),
            sending: watch::Sender::new(0),
        }
    }

    /// Returns a receiver of the number of bytes being posted, if they are many.
    pub fn subscribe_sending(&self) -> watch::Receiver<u64> {
        self.sending.subscribe()
    }

    fn publish_sending(&self, state: &OutboxState) {
        let bytes = Some(state.in_progress.values().sum())
            .filter(|bytes| *bytes >= MIN_REPORTED_BYTES)
            .unwrap_or(0);
        self.sending
            .send_if_modified(|now| std::mem::replace(now, bytes) != bytes);
    }

    /// Returns how many replies may be posted at once.
    pub fn post_limit(&self) -> usize {
        self.state.lock().at_once
    }

    /// Returns whether nothing is posted because the backend cannot be reached.
    pub fn is_backend_away(&self) -> bool {
        let pause = self.state.lock().pause;
        pause.is_some_and(|pause| pause.cause == PauseCause::Unreachable)
    }

    /// Signals that there is something to post.
    pub fn signal_work(&self) {
        self.work_signal.notify_one();
    }

    /// Waits until there is something to post.
    pub async fn wait_for_work(&self) {
        self.work_signal.notified().await;
    }

    /// Waits until a post ends or the backend is back. Armed when this is called, not when it is awaited.
    pub fn wait_for_change(&self) -> impl Future<Output = ()> + '_ {
        let mut change = Box::pin(self.changed.notified());
        change.as_mut().enable();
        change
    }

    /// Begins a post of this reply; `None` while it has to wait, is being posted, or too many others are.
    pub fn begin_post(&self, id: &RequestId) -> Option<PostSlot<'_>> {
        let mut state = self.state.lock();
        let now = Instant::now();
        let waits = state.pause.is_some_and(|pause| pause.until > now)
            || state.stuck.get(id).is_some_and(|stuck| stuck.until > now);
        if waits || state.in_progress.contains_key(id) || state.in_progress.len() >= state.at_once {
            return None;
        }
        state.in_progress.insert(id.clone(), 0);
        Some(PostSlot {
            outbox: self,
            id: id.clone(),
        })
    }

    /// Waits until this reply is not being posted.
    pub async fn wait_until_idle(&self, id: &RequestId) {
        loop {
            let change = self.wait_for_change();
            if !self.state.lock().in_progress.contains_key(id) {
                return;
            }
            change.await;
        }
    }

    /// Returns which of these undelivered replies may be posted now.
    pub fn find_due(&self, undelivered: &[RequestId]) -> DueReplies {
        let state = self.state.lock();
        let now = Instant::now();
        if let Some(pause) = state.pause.filter(|pause| pause.until > now) {
            return DueReplies::At(pause.until);
        }
        if state.in_progress.len() >= state.at_once {
            return DueReplies::InProgress;
        }
        let idle = || {
            undelivered
                .iter()
                .filter(|id| !state.in_progress.contains_key(*id))
        };
        let until = |id: &RequestId| {
            state
                .stuck
                .get(id)
                .map(|stuck| stuck.until)
                .filter(|until| *until > now)
        };
        let ready: Vec<RequestId> = idle().filter(|id| until(id).is_none()).cloned().collect();
        if !ready.is_empty() {
            return DueReplies::Now(ready);
        }
        idle()
            .filter_map(until)
            .min()
            .map_or(DueReplies::InProgress, DueReplies::At)
    }

    /// Records that the backend has this reply.
    pub fn record_delivered(&self, id: &RequestId) {
        let mut state = self.state.lock();
        state.stuck.remove(id);
        state.retry.reset();
        state.at_once = (state.at_once + 1).min(MAX_POSTS_AT_ONCE);
        state.pause = state.pause.filter(|pause| pause.cause == PauseCause::Asked);
    }

    /// Records that a post failed.
    pub fn record_post_failure(&self, id: &RequestId, trouble: PostFailure) {
        let mut state = self.state.lock();
        let now = Instant::now();
        match trouble {
            PostFailure::Backend(wish) => {
                let is_asked = matches!(wish, RetryDelay::Requested(_));
                state.begin_pause(
                    wish,
                    if is_asked {
                        PauseCause::Asked
                    } else {
                        PauseCause::Failing
                    },
                    now,
                );
            }
            PostFailure::Unreachable => {
                state.begin_pause(RetryDelay::Reconnect, PauseCause::Unreachable, now);
            }
            PostFailure::Refused => {
                let until = now + self.waits.refused;
                let until = state.pause.map_or(until, |pause| pause.until.max(until));
                state.pause = Some(PostingPause {
                    until,
                    cause: PauseCause::Refused,
                });
            }
            PostFailure::Reply => {
                let mut stuck = state.stuck.remove(id).unwrap_or_else(|| RetriedReply {
                    retry: RetryIntervals::new(self.waits.reply).with_budget(&self.budget),
                    until: now,
                });
                stuck.until = now + stuck.retry.delay_after(RetryDelay::BackOff);
                state.stuck.insert(id.clone(), stuck);
            }
        }
    }

    /// Records that the backend answered a call; `has_session` if the call needs an open session.
    pub fn record_backend_answer(&self, has_session: bool) {
        let mut state = self.state.lock();
        let ends = state.pause.is_some_and(|pause| match pause.cause {
            PauseCause::Unreachable => true,
            PauseCause::Refused => has_session,
            PauseCause::Asked | PauseCause::Failing => false,
        });
        if !ends {
            return;
        }
        state.pause = None;
        drop(state);
        self.changed.notify_waiters();
        self.signal_work();
    }

    /// Ends the waits that the backend did not ask for, because it answers again.
    pub fn end_failure_waits(&self) {
        let mut state = self.state.lock();
        state.retry.reset();
        state.pause = state.pause.filter(|pause| pause.cause == PauseCause::Asked);
        drop(state);
        self.changed.notify_waiters();
        self.signal_work();
    }
}

impl OutboxState {
    /// Begins a wait because a reply could not be delivered. Replies that fail at the same time count as one failure;
    /// only a wait that the backend asks for counts each time.
    fn begin_pause(&mut self, wish: RetryDelay, cause: PauseCause, now: Instant) {
        let until = match (self.pause.filter(|pause| pause.until > now), wish) {
            (Some(pause), RetryDelay::Requested(time)) => pause.until.max(now + time),
            (Some(_), _) => return,
            (None, wish) => {
                self.at_once = (self.at_once.min(self.in_progress.len()) / 2).max(1);
                now + self.retry.delay_after(wish)
            }
        };
        self.pause = Some(PostingPause { until, cause });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    fn outbox() -> Outbox {
        let second = Duration::from_secs(1);
        let waits = OutboxWaits {
            backend: (second, MINUTE),
            reply: (second * 30, MINUTE * 5),
            refused: MINUTE * 5,
        };
        Outbox::new(waits, Arc::new(RetryBudget::new()))
    }

    fn ids<const N: usize>(names: [&str; N]) -> Vec<RequestId> {
        names
            .map(|name| RequestId::parse(name).expect("an id"))
            .to_vec()
    }

    fn wait(due: &DueReplies) -> Duration {
        match due {
            DueReplies::At(at) => at.duration_since(Instant::now()),
            other => panic!("nothing is due now: {other:?}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_backend_asks_for_is_a_floor_for_every_reply() {
        let outbox = outbox();
        let all = ids(["a", "b"]);
        outbox.record_post_failure(
            &all[0],
            PostFailure::Backend(RetryDelay::Requested(Duration::from_secs(20))),
        );
        assert!(
            outbox.begin_post(&all[1]).is_none(),
            "a fresh reply waits too"
        );
        let first = wait(&outbox.find_due(&all));
        assert!(
            first >= Duration::from_secs(20) && first <= Duration::from_secs(22),
            "{first:?}"
        );
        // Neither a success of a post in progress nor news of the backend shortens it.
        outbox.record_delivered(&all[1]);
        outbox.end_failure_waits();
        assert!(outbox.begin_post(&all[1]).is_none());
        tokio::time::advance(Duration::from_secs(19)).await;
        assert!(matches!(outbox.find_due(&all), DueReplies::At(_)));
        tokio::time::advance(Duration::from_secs(4)).await;
        assert_eq!(outbox.find_due(&all), DueReplies::Now(all.clone()));
    }

    #[tokio::test(start_paused = true)]
    async fn replies_that_fail_side_by_side_are_one_failure() {
        let outbox = outbox();
        let all = ids(["a", "b", "c"]);
        for id in all.iter().cycle().take(30) {
            outbox.record_post_failure(id, PostFailure::Backend(RetryDelay::BackOff));
        }
        assert!(
            wait(&outbox.find_due(&all)) <= Duration::from_secs(1),
            "the wait did not grow thirty times"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_ends_with_the_first_sign_of_life() {
        let outbox = outbox();
        let all = ids(["a"]);
        for _ in 0..20 {
            outbox.record_post_failure(&all[0], PostFailure::Backend(RetryDelay::BackOff));
            tokio::time::advance(MINUTE).await;
        }
        outbox.record_post_failure(&all[0], PostFailure::Refused);
        assert!(matches!(outbox.find_due(&all), DueReplies::At(_)));
        outbox.end_failure_waits();
        assert_eq!(outbox.find_due(&all), DueReplies::Now(all));
    }

    #[tokio::test(start_paused = true)]
    async fn any_answer_ends_the_wait_for_a_backend_that_did_not_answer_and_no_other_wait() {
        let outbox = outbox();
        let all = ids(["a"]);
        for (trouble, session, ends) in [
            (PostFailure::Unreachable, false, true),
            (PostFailure::Refused, false, false),
            (PostFailure::Refused, true, true),
            (PostFailure::Backend(RetryDelay::BackOff), true, false),
            (
                PostFailure::Backend(RetryDelay::Requested(MINUTE)),
                true,
                false,
            ),
        ] {
            // Until the wait is certainly long.
            for _ in 0..20 {
                outbox.record_post_failure(&all[0], trouble);
                tokio::time::advance(MINUTE * 6).await;
            }
            outbox.record_post_failure(&all[0], trouble);
            outbox.record_backend_answer(session);
            assert_eq!(
                outbox.find_due(&all) == DueReplies::Now(all.clone()),
                ends,
                "{trouble:?}, session: {session}"
            );
            tokio::time::advance(MINUTE * 6).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn each_failure_halves_how_many_are_posted_at_once_and_each_success_adds_one() {
        let outbox = outbox();
        let all = ids(["a", "b", "c", "d", "e", "f", "g", "h"]);
        let mut seen = Vec::new();
        for _ in 0..4 {
            let slots: Vec<_> = all.iter().filter_map(|id| outbox.begin_post(id)).collect();
            seen.push(slots.len());
            for slot in &slots {
                outbox.record_post_failure(&slot.id, PostFailure::Unreachable);
            }
            drop(slots);
            tokio::time::advance(MINUTE * 2).await;
        }
        assert_eq!(seen, [8, 4, 2, 1]);
        let slot = outbox.begin_post(&all[0]).expect("one");
        assert_eq!(outbox.find_due(&all), DueReplies::InProgress);
        outbox.record_delivered(&all[0]);
        drop(slot);
        let slots: Vec<_> = all.iter().filter_map(|id| outbox.begin_post(id)).collect();
        assert_eq!(slots.len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_being_sent_is_told_where_it_is_much() {
        let outbox = outbox();
        let all = ids(["a", "b"]);
        let sending = outbox.subscribe_sending();
        let first = outbox.begin_post(&all[0]).expect("free");
        let second = outbox.begin_post(&all[1]).expect("free");
        first.set_size(505_000);
        second.set_size(10_000);
        assert_eq!(*sending.borrow(), 515_000);
        drop(first);
        assert_eq!(*sending.borrow(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn one_refused_reply_holds_up_no_other() {
        let outbox = outbox();
        let all = ids(["a", "b"]);
        outbox.record_post_failure(&all[0], PostFailure::Reply);
        assert!(outbox.begin_post(&all[0]).is_none());
        assert_eq!(outbox.find_due(&all), DueReplies::Now(all[1..].to_vec()));
        tokio::time::advance(MINUTE * 11).await;
        assert_eq!(outbox.find_due(&all), DueReplies::Now(all));
    }

    #[tokio::test(start_paused = true)]
    async fn no_reply_is_posted_twice_at_a_time() {
        let outbox = outbox();
        let all = ids(["a"]);
        let slot = outbox.begin_post(&all[0]).expect("free");
        assert!(outbox.begin_post(&all[0]).is_none());
        assert_eq!(outbox.find_due(&all), DueReplies::InProgress);
        let change = outbox.wait_for_change();
        drop(slot);
        change.await;
        assert_eq!(outbox.find_due(&all), DueReplies::Now(all));
    }
}
