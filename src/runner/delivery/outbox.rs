//! The rules for posting recorded replies. None is posted while the backend is away or asked for a pause. A refused
//! reply waits separately, and none is posted twice at the same time. This file only decides; delivery does the
//! posting.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::backend::Pause;
use crate::ids::RequestId;
use crate::runner::backoff::{Budget, Retry};

/// The most replies that are posted at once.
const MOST_AT_ONCE: usize = 16;

/// The number of bytes being sent from which `status` shows them.
const LARGE: u64 = 64 << 10;

/// The effect of a failed post on the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::runner) enum Trouble {
    /// No reply can be delivered now.
    Backend(Pause),
    /// The backend answered neither this nor any other call meanwhile.
    Unreachable,
    /// This device is refused; polling finds out when that changes.
    Refused,
    /// Only this reply is refused, for no reason that can be acted on.
    Reply,
}

/// The replies that may be posted now.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::runner) enum Due {
    /// These replies, oldest first.
    Now(Vec<RequestId>),
    /// Nothing before this moment, unless something changes.
    At(Instant),
    /// Nothing until something changes: all of them are being posted.
    UnderWay,
}

/// The waits between posts.
#[derive(Debug, Clone, Copy)]
pub(in crate::runner) struct Waits {
    /// The first and the longest wait while the backend is away.
    pub backend: (Duration, Duration),
    /// The first and the longest wait of one refused reply.
    pub reply: (Duration, Duration),
    /// The wait while this device is refused.
    pub refused: Duration,
}

pub(in crate::runner) struct Outbox {
    waits: Waits,
    budget: Arc<Budget>,
    state: Mutex<State>,
    /// Signalled when there is something to post.
    bell: Notify,
    /// Signalled when a post ended or the backend is back.
    changed: Notify,
    /// The number of bytes being posted, if they are many.
    sending: watch::Sender<u64>,
}

struct State {
    retry: Retry,
    pause: Option<Silence>,
    stuck: HashMap<RequestId, Stuck>,
    /// The replies that are being posted, and their sizes.
    under_way: HashMap<RequestId, u64>,
    /// The number of replies that may be posted at once: fewer after each failed delivery, more after each success.
    at_once: usize,
}

#[derive(Debug, Clone, Copy)]
struct Silence {
    until: Instant,
    cause: Cause,
}

/// The reason why nothing is posted for a while.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// The backend named the time itself: nothing else ends the wait.
    Asked,
    /// The backend does not accept replies but may answer other calls: the end of the outage ends the wait.
    Failing,
    /// The backend does not answer: any answer ends the wait.
    Unreachable,
    /// The backend refuses this device: an answer to any call of an open session ends the wait.
    Refused,
}

struct Stuck {
    retry: Retry,
    until: Instant,
}

/// The permission to post one reply; dropping it ends the post.
pub(in crate::runner) struct Slot<'a> {
    outbox: &'a Outbox,
    id: RequestId,
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        let mut state = self.outbox.state();
        state.under_way.remove(&self.id);
        self.outbox.tell_sending(&state);
        drop(state);
        self.outbox.changed.notify_waiters();
    }
}

impl Slot<'_> {
    /// Sets the number of bytes that are being posted.
    pub(in crate::runner) fn sends(&self, bytes: usize) {
        let mut state = self.outbox.state();
        state.under_way.insert(self.id.clone(), bytes as u64);
        self.outbox.tell_sending(&state);
    }
}

impl Outbox {
    pub(in crate::runner) fn new(waits: Waits, budget: Arc<Budget>) -> Self {
        let state = State {
            retry: Retry::new(waits.backend).within(&budget),
            pause: None,
            stuck: HashMap::new(),
            under_way: HashMap::new(),
            at_once: MOST_AT_ONCE,
        };
        Self {
            waits,
            budget,
            state: Mutex::new(state),
            bell: Notify::new(),
            changed: Notify::new(),
            sending: watch::Sender::new(0),
        }
    }

    /// Returns a receiver of the number of bytes being posted, if they are many.
    pub(in crate::runner) fn sending(&self) -> watch::Receiver<u64> {
        self.sending.subscribe()
    }

    fn tell_sending(&self, state: &State) {
        let bytes = Some(state.under_way.values().sum()).filter(|bytes| *bytes >= LARGE).unwrap_or(0);
        self.sending.send_if_modified(|now| std::mem::replace(now, bytes) != bytes);
    }

    /// Returns how many replies may be posted at once.
    pub(in crate::runner) fn at_once(&self) -> usize {
        self.state().at_once
    }

    /// Signals that there is something to post.
    pub(in crate::runner) fn ring(&self) {
        self.bell.notify_one();
    }

    /// Waits until there is something to post.
    pub(in crate::runner) async fn rung(&self) {
        self.bell.notified().await;
    }

    /// Waits until a post ends or the backend is back. Armed when this is called, not when it is awaited.
    pub(in crate::runner) fn change(&self) -> impl Future<Output = ()> + '_ {
        let mut change = Box::pin(self.changed.notified());
        change.as_mut().enable();
        change
    }

    /// Begins a post of this reply; `None` while it has to wait, is being posted, or too many others are.
    pub(in crate::runner) fn take(&self, id: &RequestId) -> Option<Slot<'_>> {
        let (mut state, now) = (self.state(), Instant::now());
        let waits = state.pause.is_some_and(|pause| pause.until > now)
            || state.stuck.get(id).is_some_and(|stuck| stuck.until > now);
        if waits || state.under_way.contains_key(id) || state.under_way.len() >= state.at_once {
            return None;
        }
        state.under_way.insert(id.clone(), 0);
        Some(Slot { outbox: self, id: id.clone() })
    }

    /// Waits until this reply is not being posted.
    pub(in crate::runner) async fn is_idle(&self, id: &RequestId) {
        loop {
            let change = self.change();
            if !self.state().under_way.contains_key(id) {
                return;
            }
            change.await;
        }
    }

    /// Returns which of these undelivered replies may be posted now.
    pub(in crate::runner) fn due(&self, undelivered: &[RequestId]) -> Due {
        let (state, now) = (self.state(), Instant::now());
        if let Some(pause) = state.pause.filter(|pause| pause.until > now) {
            return Due::At(pause.until);
        }
        if state.under_way.len() >= state.at_once {
            return Due::UnderWay;
        }
        let idle = || undelivered.iter().filter(|id| !state.under_way.contains_key(*id));
        let until =
            |id: &RequestId| state.stuck.get(id).map(|stuck| stuck.until).filter(|until| *until > now);
        let ready: Vec<RequestId> = idle().filter(|id| until(id).is_none()).cloned().collect();
        if !ready.is_empty() {
            return Due::Now(ready);
        }
        idle().filter_map(until).min().map_or(Due::UnderWay, Due::At)
    }

    /// Records that the backend has this reply.
    pub(in crate::runner) fn succeeded(&self, id: &RequestId) {
        let mut state = self.state();
        state.stuck.remove(id);
        state.retry.reset();
        state.at_once = (state.at_once + 1).min(MOST_AT_ONCE);
        state.pause = state.pause.filter(|pause| pause.cause == Cause::Asked);
    }

    /// Records that a post failed.
    pub(in crate::runner) fn failed(&self, id: &RequestId, trouble: Trouble) {
        let (mut state, now) = (self.state(), Instant::now());
        match trouble {
            Trouble::Backend(wish) => {
                let is_asked = matches!(wish, Pause::Asked(_));
                state.wait(wish, if is_asked { Cause::Asked } else { Cause::Failing }, now);
            }
            Trouble::Unreachable => state.wait(Pause::BackOff, Cause::Unreachable, now),
            Trouble::Refused => {
                let until = now + self.waits.refused;
                let until = state.pause.map_or(until, |pause| pause.until.max(until));
                state.pause = Some(Silence { until, cause: Cause::Refused });
            }
            Trouble::Reply => {
                let mut stuck = state.stuck.remove(id).unwrap_or_else(|| Stuck {
                    retry: Retry::new(self.waits.reply).within(&self.budget),
                    until: now,
                });
                stuck.until = now + stuck.retry.after(Pause::BackOff);
                state.stuck.insert(id.clone(), stuck);
            }
        }
    }

    /// Records that the backend answered a call; `has_session` if the call needs an open session.
    pub(in crate::runner) fn backend_answered(&self, has_session: bool) {
        let mut state = self.state();
        let ends = state.pause.is_some_and(|pause| match pause.cause {
            Cause::Unreachable => true,
            Cause::Refused => has_session,
            Cause::Asked | Cause::Failing => false,
        });
        if !ends {
            return;
        }
        state.pause = None;
        drop(state);
        self.changed.notify_waiters();
        self.ring();
    }

    /// Ends the waits that the backend did not ask for, because it answers again.
    pub(in crate::runner) fn reconnected(&self) {
        let mut state = self.state();
        state.retry.reset();
        state.pause = state.pause.filter(|pause| pause.cause == Cause::Asked);
        drop(state);
        self.changed.notify_waiters();
        self.ring();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Begins a wait because a reply could not be delivered. Replies that fail at the same time count as one failure;
    /// only a wait that the backend asks for counts each time.
    fn wait(&mut self, wish: Pause, cause: Cause, now: Instant) {
        let until = match (self.pause.filter(|pause| pause.until > now), wish) {
            (Some(pause), Pause::Asked(time)) => pause.until.max(now + time),
            (Some(_), _) => return,
            (None, wish) => {
                self.at_once = (self.at_once.min(self.under_way.len()) / 2).max(1);
                now + self.retry.after(wish)
            }
        };
        self.pause = Some(Silence { until, cause });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_mins(1);

    fn outbox() -> Outbox {
        let second = Duration::from_secs(1);
        let waits =
            Waits { backend: (second, MINUTE), reply: (second * 30, MINUTE * 5), refused: MINUTE * 5 };
        Outbox::new(waits, Arc::new(Budget::new()))
    }

    fn ids<const N: usize>(names: [&str; N]) -> Vec<RequestId> {
        names.map(|name| RequestId::parse(name).expect("an id")).to_vec()
    }

    fn wait(due: &Due) -> Duration {
        match due {
            Due::At(at) => at.duration_since(Instant::now()),
            other => panic!("nothing is due now: {other:?}"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_the_backend_asks_for_is_a_floor_for_every_reply() {
        let (outbox, all) = (outbox(), ids(["a", "b"]));
        outbox.failed(&all[0], Trouble::Backend(Pause::Asked(Duration::from_secs(20))));
        assert!(outbox.take(&all[1]).is_none(), "a fresh reply waits too");
        let first = wait(&outbox.due(&all));
        assert!(first >= Duration::from_secs(20) && first <= Duration::from_secs(22), "{first:?}");
        // Neither a success of a post in progress nor news of the backend shortens it.
        outbox.succeeded(&all[1]);
        outbox.reconnected();
        assert!(outbox.take(&all[1]).is_none());
        tokio::time::advance(Duration::from_secs(19)).await;
        assert!(matches!(outbox.due(&all), Due::At(_)));
        tokio::time::advance(Duration::from_secs(4)).await;
        assert_eq!(outbox.due(&all), Due::Now(all.clone()));
    }

    #[tokio::test(start_paused = true)]
    async fn replies_that_fail_side_by_side_are_one_failure() {
        let (outbox, all) = (outbox(), ids(["a", "b", "c"]));
        for id in all.iter().cycle().take(30) {
            outbox.failed(id, Trouble::Backend(Pause::BackOff));
        }
        assert!(wait(&outbox.due(&all)) <= Duration::from_secs(1), "the wait did not grow thirty times");
    }

    #[tokio::test(start_paused = true)]
    async fn an_outage_ends_with_the_first_sign_of_life() {
        let (outbox, all) = (outbox(), ids(["a"]));
        for _ in 0..20 {
            outbox.failed(&all[0], Trouble::Backend(Pause::BackOff));
            tokio::time::advance(MINUTE).await;
        }
        outbox.failed(&all[0], Trouble::Refused);
        assert!(matches!(outbox.due(&all), Due::At(_)));
        outbox.reconnected();
        assert_eq!(outbox.due(&all), Due::Now(all));
    }

    #[tokio::test(start_paused = true)]
    async fn any_answer_ends_the_wait_for_a_backend_that_did_not_answer_and_no_other_wait() {
        let (outbox, all) = (outbox(), ids(["a"]));
        for (trouble, session, ends) in [
            (Trouble::Unreachable, false, true),
            (Trouble::Refused, false, false),
            (Trouble::Refused, true, true),
            (Trouble::Backend(Pause::BackOff), true, false),
            (Trouble::Backend(Pause::Asked(MINUTE)), true, false),
        ] {
            // Until the wait is certainly long.
            for _ in 0..20 {
                outbox.failed(&all[0], trouble);
                tokio::time::advance(MINUTE * 6).await;
            }
            outbox.failed(&all[0], trouble);
            outbox.backend_answered(session);
            assert_eq!(outbox.due(&all) == Due::Now(all.clone()), ends, "{trouble:?}, session: {session}");
            tokio::time::advance(MINUTE * 6).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn each_failure_halves_how_many_are_posted_at_once_and_each_success_adds_one() {
        let (outbox, all) = (outbox(), ids(["a", "b", "c", "d", "e", "f", "g", "h"]));
        let mut seen = Vec::new();
        for _ in 0..4 {
            let slots: Vec<_> = all.iter().filter_map(|id| outbox.take(id)).collect();
            seen.push(slots.len());
            for slot in &slots {
                outbox.failed(&slot.id, Trouble::Unreachable);
            }
            drop(slots);
            tokio::time::advance(MINUTE * 2).await;
        }
        assert_eq!(seen, [8, 4, 2, 1]);
        let slot = outbox.take(&all[0]).expect("one");
        assert_eq!(outbox.due(&all), Due::UnderWay);
        outbox.succeeded(&all[0]);
        drop(slot);
        let slots: Vec<_> = all.iter().filter_map(|id| outbox.take(id)).collect();
        assert_eq!(slots.len(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_being_sent_is_told_where_it_is_much() {
        let (outbox, all) = (outbox(), ids(["a", "b"]));
        let sending = outbox.sending();
        let (first, second) = (outbox.take(&all[0]).expect("free"), outbox.take(&all[1]).expect("free"));
        first.sends(505_000);
        second.sends(10_000);
        assert_eq!(*sending.borrow(), 515_000);
        drop(first);
        assert_eq!(*sending.borrow(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn one_refused_reply_holds_up_no_other() {
        let (outbox, all) = (outbox(), ids(["a", "b"]));
        outbox.failed(&all[0], Trouble::Reply);
        assert!(outbox.take(&all[0]).is_none());
        assert_eq!(outbox.due(&all), Due::Now(all[1..].to_vec()));
        tokio::time::advance(MINUTE * 11).await;
        assert_eq!(outbox.due(&all), Due::Now(all));
    }

    #[tokio::test(start_paused = true)]
    async fn no_reply_is_posted_twice_at_a_time() {
        let (outbox, all) = (outbox(), ids(["a"]));
        let slot = outbox.take(&all[0]).expect("free");
        assert!(outbox.take(&all[0]).is_none());
        assert_eq!(outbox.due(&all), Due::UnderWay);
        let change = outbox.change();
        drop(slot);
        change.await;
        assert_eq!(outbox.due(&all), Due::Now(all));
    }
}
