//! Which recorded reply may be posted when: none while the backend is away or asks for quiet, a refused one after a
//! wait of its own, and no reply twice at the same time. Pure but for clocks and dice; delivery does the posting.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use super::backoff::{Budget, Retry};
use crate::backend::Pause;
use crate::ids::RequestId;

/// Why a post did not succeed, as far as the next one is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    /// No reply gets through now.
    Backend(Pause),
    /// This device is refused; polling finds out when that changes.
    Refused,
    /// This one reply is refused without a reason to act on.
    Reply,
}

/// What may be posted now.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// These, oldest first.
    Now(Vec<RequestId>),
    /// Nothing before this moment, unless something changes.
    At(Instant),
    /// Nothing until something changes: all of it is being posted.
    UnderWay,
}

/// The waits between posts.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waits {
    /// The first and the longest while the backend is away.
    pub backend: (Duration, Duration),
    /// The first and the longest of one refused reply.
    pub reply: (Duration, Duration),
    /// While this device is refused.
    pub refused: Duration,
}

pub(super) struct Outbox {
    waits: Waits,
    budget: Arc<Budget>,
    state: Mutex<State>,
    /// Rings when there is something to post.
    bell: Notify,
    /// Tells that a post ended, or that the backend is there again.
    changed: Notify,
}

struct State {
    retry: Retry,
    pause: Option<Silence>,
    stuck: HashMap<RequestId, Stuck>,
    under_way: HashSet<RequestId>,
}

#[derive(Debug, Clone, Copy)]
struct Silence {
    until: Instant,
    /// Whether the backend named the time itself. Then an answer to something else does not end it.
    asked: bool,
}

struct Stuck {
    retry: Retry,
    until: Instant,
}

/// One reply being posted; dropping it says that this is over.
pub(super) struct Slot<'a> {
    outbox: &'a Outbox,
    id: RequestId,
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.outbox.state().under_way.remove(&self.id);
        self.outbox.changed.notify_waiters();
    }
}

impl Outbox {
    pub(super) fn new(waits: Waits, budget: Arc<Budget>) -> Self {
        let state = State {
            retry: Retry::new(waits.backend).within(&budget),
            pause: None,
            stuck: HashMap::new(),
            under_way: HashSet::new(),
        };
        Self { waits, budget, state: Mutex::new(state), bell: Notify::new(), changed: Notify::new() }
    }

    /// There is something to post.
    pub(super) fn ring(&self) {
        self.bell.notify_one();
    }

    /// Waits until somebody rings.
    pub(super) async fn rung(&self) {
        self.bell.notified().await;
    }

    /// Waits until a post ends or the backend is there again. Armed when this is called, not when it is awaited.
    pub(super) fn change(&self) -> impl Future<Output = ()> + '_ {
        let mut change = Box::pin(self.changed.notified());
        change.as_mut().enable();
        change
    }

    /// The right to post this reply now; none while it has to wait or is being posted.
    pub(super) fn take(&self, id: &RequestId) -> Option<Slot<'_>> {
        let (mut state, now) = (self.state(), Instant::now());
        let waits = state.pause.is_some_and(|pause| pause.until > now)
            || state.stuck.get(id).is_some_and(|stuck| stuck.until > now);
        if waits || !state.under_way.insert(id.clone()) {
            return None;
        }
        Some(Slot { outbox: self, id: id.clone() })
    }

    /// Waits until this reply is not being posted.
    pub(super) async fn is_idle(&self, id: &RequestId) {
        loop {
            let change = self.change();
            if !self.state().under_way.contains(id) {
                return;
            }
            change.await;
        }
    }

    /// Which of these undelivered replies may be posted now.
    pub(super) fn due(&self, undelivered: &[RequestId]) -> Due {
        let (state, now) = (self.state(), Instant::now());
        if let Some(pause) = state.pause.filter(|pause| pause.until > now) {
            return Due::At(pause.until);
        }
        let idle = || undelivered.iter().filter(|id| !state.under_way.contains(*id));
        let until =
            |id: &RequestId| state.stuck.get(id).map(|stuck| stuck.until).filter(|until| *until > now);
        let ready: Vec<RequestId> = idle().filter(|id| until(id).is_none()).cloned().collect();
        if !ready.is_empty() {
            return Due::Now(ready);
        }
        idle().filter_map(until).min().map_or(Due::UnderWay, Due::At)
    }

    /// The backend has this reply.
    pub(super) fn succeeded(&self, id: &RequestId) {
        let mut state = self.state();
        state.stuck.remove(id);
        state.retry.reset();
        state.pause = state.pause.filter(|pause| pause.asked);
    }

    /// The backend does not have this reply yet.
    pub(super) fn failed(&self, id: &RequestId, trouble: Trouble) {
        let (mut state, now) = (self.state(), Instant::now());
        match trouble {
            Trouble::Backend(wish) => {
                // Replies that fail side by side are one failure; only what the backend asks for counts each time.
                let waiting = state.pause.filter(|pause| pause.until > now);
                let until = match (waiting, wish) {
                    (Some(pause), Pause::Asked(time)) => pause.until.max(now + time),
                    (Some(pause), _) => pause.until,
                    (None, wish) => now + state.retry.after(wish),
                };
                let asked = matches!(wish, Pause::Asked(_)) || waiting.is_some_and(|pause| pause.asked);
                state.pause = Some(Silence { until, asked });
            }
            Trouble::Refused => {
                let until = now + self.waits.refused;
                let until = state.pause.map_or(until, |pause| pause.until.max(until));
                state.pause = Some(Silence { until, asked: false });
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

    /// The backend answers again: what waits for that need not wait longer.
    pub(super) fn reconnected(&self) {
        let mut state = self.state();
        state.retry.reset();
        state.pause = state.pause.filter(|pause| pause.asked);
        drop(state);
        self.changed.notify_waiters();
        self.ring();
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
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
        // Neither success of what was under way nor news of the backend cuts it short.
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
