//! Intervals between attempts, and nothing else: the only file that knows the `backoff` crate. It is unmaintained
//! and serves as an interval generator only; replacing it is a matter of this file.

use std::time::Duration;

use backoff::ExponentialBackoff;
use backoff::backoff::Backoff;

/// Full jitter over doubling intervals: each wait is drawn uniformly from zero to twice the current interval,
/// which doubles from the first to the cap.
pub(super) struct Retry {
    intervals: ExponentialBackoff,
    cap: Duration,
}

impl Retry {
    pub(super) fn new((first, cap): (Duration, Duration)) -> Self {
        let intervals = ExponentialBackoff {
            current_interval: first / 2,
            initial_interval: first / 2,
            // The interval plus or minus itself: from zero to twice as much.
            randomization_factor: 1.0,
            multiplier: 2.0,
            max_interval: cap / 2,
            // The crate's default gives up after 15 minutes; nothing here ever gives up.
            max_elapsed_time: None,
            ..ExponentialBackoff::default()
        };
        Self { intervals, cap }
    }

    /// The wait before the next attempt, at least `floor` where the backend named one.
    pub(super) fn next(&mut self, floor: Option<Duration>) -> Duration {
        let drawn = self.intervals.next_backoff().unwrap_or(self.cap).min(self.cap);
        floor.map_or(drawn, |floor| floor + drawn.min(floor / 10))
    }

    /// An attempt succeeded.
    pub(super) fn reset(&mut self) {
        self.intervals.reset();
    }
}

/// An interval moved by up to this share of itself either way.
pub(super) fn jittered(interval: Duration, share: f64) -> Duration {
    let mut bytes = [0_u8; 4];
    // Without randomness the interval is merely not moved.
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
        let mut retry = Retry::new((Duration::from_secs(1), Duration::from_mins(1)));
        let waits: Vec<_> = (0..200).map(|_| retry.next(None)).collect();
        assert!(waits.iter().all(|wait| *wait <= Duration::from_mins(1)), "{waits:?}");
        assert!(waits[0] <= Duration::from_secs(1));
        assert!(waits[20..].iter().any(|wait| *wait > Duration::from_secs(5)), "it never grew: {waits:?}");
        retry.reset();
        assert!(retry.next(None) <= Duration::from_secs(1));
    }

    #[test]
    fn the_backend_s_own_wish_is_a_floor() {
        let mut retry = Retry::new((Duration::from_secs(1), Duration::from_mins(1)));
        for _ in 0..50 {
            let wait = retry.next(Some(Duration::from_secs(7)));
            assert!(wait >= Duration::from_secs(7) && wait <= Duration::from_millis(7_700), "{wait:?}");
        }
    }

    #[test]
    fn jitter_moves_by_its_share_at_most() {
        for _ in 0..200 {
            let moved = jittered(Duration::from_secs(10), 0.2);
            assert!(moved >= Duration::from_secs(8) && moved <= Duration::from_secs(12), "{moved:?}");
        }
    }
}
