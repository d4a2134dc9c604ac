//! Intervals between attempts. Only this file uses the `backoff` crate, as an interval generator: the crate is
//! unmaintained, and replacing it changes nothing else.

use std::sync::Arc;
use std::time::Duration;

use backoff::ExponentialBackoff;
use backoff::backoff::Backoff;
use parking_lot::Mutex;

use crate::backend::RetryDelay;

/// The longest wait of a call for which no backend answered. A result is on its way within five seconds after the
/// backend is back.
const RECONNECT_INTERVAL: Duration = Duration::from_secs(4);

/// The number of calls that may be repeated soon: a fifth of the calls that succeed, and a few before the first
/// success. Further ones wait as after a long outage, so that retries never dominate the load on a struggling
/// backend.
#[derive(Debug)]
pub(super) struct RetryBudget(Mutex<f64>);

impl RetryBudget {
    /// The amount that a success adds.
    const SHARE: f64 = 0.2;
    /// The initial amount.
    const RESERVE: f64 = 10.0;
    /// The most that is saved up.
    const MOST: f64 = 50.0;

    pub(super) fn new() -> Self {
        Self(Mutex::new(Self::RESERVE))
    }

    /// Adds a success.
    pub(super) fn record_success(&self) {
        let mut left = self.0.lock();
        *left = (*left + Self::SHARE).min(Self::MOST);
    }

    /// Spends one retry; returns whether the budget allows it.
    fn try_spend(&self) -> bool {
        let mut left = self.0.lock();
        let may = *left >= 1.0;
        if may {
            *left -= 1.0;
        }
        may
    }
}

/// Full jitter over doubling intervals: each wait is drawn uniformly from zero to twice the current interval. The
/// interval doubles from the first to the cap.
pub(super) struct RetryIntervals {
    intervals: ExponentialBackoff,
    first: Duration,
    cap: Duration,
    budget: Option<Arc<RetryBudget>>,
}

impl RetryIntervals {
    pub(super) fn new((first, cap): (Duration, Duration)) -> Self {
        let intervals = ExponentialBackoff {
            current_interval: first / 2,
            initial_interval: first / 2,
            // The interval plus or minus itself: from zero to twice as much.
            randomization_factor: 1.0,
            multiplier: 2.0,
            max_interval: cap / 2,
            // The crate's default gives up after 15 minutes; the runner never gives up.
            max_elapsed_time: None,
            ..ExponentialBackoff::default()
        };
        Self {
            intervals,
            first,
            cap,
            budget: None,
        }
    }

    /// Shares a budget with other calls.
    pub(super) fn with_budget(self, budget: &Arc<RetryBudget>) -> Self {
        Self {
            budget: Some(Arc::clone(budget)),
            ..self
        }
    }

    /// Returns the wait before the next attempt that the last failure asks for.
    pub(super) fn delay_after(&mut self, pause: RetryDelay) -> Duration {
        if pause != RetryDelay::Reconnect
            && self
                .budget
                .as_ref()
                .is_some_and(|budget| !budget.try_spend())
        {
            self.intervals.current_interval = self.intervals.max_interval;
        }
        match pause {
            RetryDelay::BackOff => self.next(None),
            RetryDelay::Reconnect => self.next(None).min(RECONNECT_INTERVAL),
            // The whole range is shifted, so that the waits of many runners stay apart.
            RetryDelay::Intervals(least) => self.first * least + self.next(None),
            RetryDelay::Requested(time) => self.next(Some(time)),
        }
    }

    /// Returns the wait before the next attempt, at least `floor` if the backend named one.
    pub(super) fn next(&mut self, floor: Option<Duration>) -> Duration {
        let drawn = self
            .intervals
            .next_backoff()
            .unwrap_or(self.cap)
            .min(self.cap);
        floor.map_or(drawn, |floor| floor + drawn.min(floor / 10))
    }

    /// Restarts the intervals after a success.
    pub(super) fn reset(&mut self) {
        self.intervals.reset();
    }
}

/// Returns the interval, changed by at most this share of itself in either direction.
pub(super) fn add_jitter(interval: Duration, share: f64) -> Duration {
    let mut bytes = [0_u8; 4];
    // Without randomness the interval is not changed.
    if getrandom::fill(&mut bytes).is_err() {
        return interval;
    }
    let drawn = f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX);
    interval.mul_f64((1.0 + share * (2.0 * drawn - 1.0)).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_stay_between_zero_and_the_cap() {
        let mut retry = RetryIntervals::new((Duration::from_secs(1), Duration::from_mins(1)));
        let waits: Vec<_> = (0..200).map(|_| retry.next(None)).collect();
        assert!(
            waits.iter().all(|wait| *wait <= Duration::from_mins(1)),
            "{waits:?}"
        );
        assert!(waits[0] <= Duration::from_secs(1));
        assert!(
            waits[20..]
                .iter()
                .any(|wait| *wait > Duration::from_secs(5)),
            "it never grew: {waits:?}"
        );
        retry.reset();
        assert!(retry.next(None) <= Duration::from_secs(1));
    }

    #[test]
    fn the_backend_s_own_wish_is_a_floor() {
        let mut retry = RetryIntervals::new((Duration::from_secs(1), Duration::from_mins(1)));
        for _ in 0..50 {
            let wait = retry.next(Some(Duration::from_secs(7)));
            assert!(
                wait >= Duration::from_secs(7) && wait <= Duration::from_millis(7_700),
                "{wait:?}"
            );
        }
    }

    #[test]
    fn jitter_moves_by_its_share_at_most() {
        for _ in 0..200 {
            let moved = add_jitter(Duration::from_secs(10), 0.2);
            assert!(
                moved >= Duration::from_secs(8) && moved <= Duration::from_secs(12),
                "{moved:?}"
            );
        }
    }

    /// The moments at which this many runners retry until `end`, if all lose the backend at the same moment.
    fn storm(runners: usize, end: Duration) -> Vec<Duration> {
        let mut moments = Vec::new();
        for _ in 0..runners {
            let mut retry = RetryIntervals::new((Duration::from_secs(1), Duration::from_mins(1)));
            let mut now = Duration::ZERO;
            loop {
                now += retry.delay_after(RetryDelay::BackOff);
                if now >= end {
                    break;
                }
                moments.push(now);
            }
        }
        moments
    }

    /// The fullest of equal parts of a period, relative to the average part.
    fn peak_to_mean(moments: &[Duration], from: Duration, until: Duration, parts: usize) -> f64 {
        let width = until.saturating_sub(from) / u32::try_from(parts).expect("few");
        let mut counts = vec![0_u32; parts];
        for moment in moments
            .iter()
            .filter(|moment| (from..until).contains(*moment))
        {
            let part = usize::try_from(moment.saturating_sub(from).as_nanos() / width.as_nanos())
                .expect("small");
            counts[part.min(parts - 1)] += 1;
        }
        let mean =
            f64::from(counts.iter().sum::<u32>()) / f64::from(u32::try_from(parts).expect("few"));
        f64::from(counts.into_iter().max().unwrap_or(0)) / mean
    }

    #[test]
    fn f31_a_thousand_runners_come_back_spread_over_time() {
        let second = Duration::from_secs(1);
        let moments = storm(1_000, second * 600);
        // The first attempts, all of one second, are spread over it; and so is every second of a long outage.
        let first: Vec<Duration> = storm(1_000, second);
        assert!(first.len() >= 1_000, "each tries within its first interval");
        let start = peak_to_mean(&first, Duration::ZERO, second, 10);
        assert!(start <= 2.0, "{start} at the start");
        let later = peak_to_mean(&moments, second * 180, second * 600, 420);
        assert!(later <= 2.0, "{later} later on");
    }

    #[test]
    fn repeats_beyond_the_budget_wait_as_after_a_long_outage() {
        let first = Duration::from_millis(1);
        let cap = Duration::from_secs(100);
        let budget = Arc::new(RetryBudget::new());
        // A thousand calls, every second of which fails once: a fifth of the successes may be repeated soon.
        let soon = (0..1_000).filter(|_| {
            budget.record_success();
            RetryIntervals::new((first, cap))
                .with_budget(&budget)
                .delay_after(RetryDelay::BackOff)
                <= first
        });
        let soon = soon.count();
        assert!(
            (200..=200 + 10 + 5).contains(&soon),
            "{soon} were repeated soon"
        );
    }

    #[test]
    fn a_backend_that_is_not_reached_is_tried_every_few_seconds_without_the_budget() {
        let budget = Arc::new(RetryBudget::new());
        let mut retry = RetryIntervals::new((Duration::from_secs(1), Duration::from_mins(1)))
            .with_budget(&budget);
        let waits: Vec<_> = (0..1_000)
            .map(|_| retry.delay_after(RetryDelay::Reconnect))
            .collect();
        assert!(waits.iter().all(|wait| *wait <= RECONNECT_INTERVAL));
        let total: Duration = waits.iter().sum();
        assert!(total >= Duration::from_secs(3_500), "{total:?}");
        assert!(budget.try_spend());
    }

    #[test]
    fn an_overloaded_backend_gets_its_least_pause_and_the_growth_of_any_other() {
        let mut retry = RetryIntervals::new((Duration::from_secs(1), Duration::from_mins(1)));
        let waits: Vec<_> = (0..40)
            .map(|_| retry.delay_after(RetryDelay::Intervals(3)))
            .collect();
        assert!(
            waits.iter().all(|wait| *wait >= Duration::from_secs(3)),
            "{waits:?}"
        );
        assert!(
            waits[10..]
                .iter()
                .any(|wait| *wait > Duration::from_secs(10)),
            "it never grew: {waits:?}"
        );
    }
}
