//! The waits between the end of a bridge and its next start.

use std::time::Duration;

const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_mins(5);
/// A bridge that ran for so long was healthy: its next end is the first again.
const HEALTHY_TIME: Duration = Duration::from_mins(10);

/// The ends of one bridge in a row.
#[derive(Debug, Default)]
pub(super) struct RestartBackoff {
    ends: u32,
}

impl RestartBackoff {
    /// Records that the bridge ended after it ran for so long. Returns the wait until its next start.
    pub fn record_end(&mut self, ran_for: Duration) -> Duration {
        if ran_for >= HEALTHY_TIME {
            self.ends = 0;
        }
        let wait = FIRST_WAIT.saturating_mul(1 << self.ends.min(16));
        self.ends = self.ends.saturating_add(1);
        wait.min(LONGEST_WAIT)
    }

    /// Returns the ends since it last ran for a healthy time.
    pub fn ends_in_row(&self) -> u32 {
        self.ends
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_waits_double_to_five_minutes_and_a_healthy_time_begins_anew() {
        let mut backoff = RestartBackoff::default();
        let mut waits = |times, ran_for| -> Vec<u64> {
            let ended = (0..times).map(|_| backoff.record_end(ran_for).as_secs());
            ended.collect()
        };
        let quick = Duration::from_secs(599);
        assert_eq!(
            waits(12, quick),
            [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]
        );
        assert_eq!(waits(1, HEALTHY_TIME), [1]);
        assert_eq!(waits(2, quick), [2, 4]);
        assert_eq!(backoff.ends_in_row(), 3);
        for _ in 0..100 {
            assert!(backoff.record_end(Duration::ZERO) <= LONGEST_WAIT);
        }
    }
}
