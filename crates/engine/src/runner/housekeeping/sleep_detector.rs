//! Detects from the clocks that the machine slept or that this process was stopped.

use std::time::Duration;

/// The most time that one check's own work counts: two waits for the journal, and reading files.
const MAX_WORK_MS: i64 = 25_000;

/// The lead of the clock that counts sleep over the other one from which it counts as a sleep.
const MIN_SLEEP_MS: i64 = 2_000;
/// The delay of a tick from which it counts as a stop, at most half a period. A busy machine ticks late too, but by
/// less.
const MAX_LATENESS_MS: i64 = 10_000;
/// The lead of the time of day over both clocks from which it counts as a sleep. A pause of a virtual machine stops
/// both clocks. If a person set the time instead, connections are reopened needlessly, which does no harm.
const MIN_CLOCK_JUMP_MS: i64 = 60_000;

/// A reading of the clocks, in milliseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClockReading {
    /// The time of day.
    pub day: i64,
    /// The time since boot, including sleep.
    pub boot: i64,
    /// The time since boot, excluding sleep.
    pub awake: i64,
}

/// The time from one check to the next.
#[derive(Debug)]
pub(super) struct SleepDetector {
    begun: ClockReading,
    /// The time that the checks' own work took: the timer was not armed meanwhile, or its tick was not received.
    worked_ms: i64,
}

impl SleepDetector {
    pub(super) fn new(begun: ClockReading) -> Self {
        Self {
            begun,
            worked_ms: 0,
        }
    }

    /// Adds a period of work. Time beyond the journal's time limit does not count as work.
    pub(super) fn record_work(&mut self, from: ClockReading, until: ClockReading) {
        self.worked_ms += (until.boot - from.boot).clamp(0, MAX_WORK_MS);
    }

    /// Ends the round and begins the next one. Returns the time missed in it, if any: the machine slept, or this
    /// process was stopped.
    pub(super) fn end_round(&mut self, now: ClockReading, period_ms: i64) -> Option<Duration> {
        let Self { begun, worked_ms } = std::mem::replace(self, Self::new(now));
        let since = now.boot - begun.boot;
        let slept = since - (now.awake - begun.awake);
        let jumped = now.day - begun.day - since;
        let late = since - period_ms - worked_ms;
        let missed = [
            (slept, slept > MIN_SLEEP_MS),
            (late, late > MAX_LATENESS_MS.min(period_ms / 2)),
            (jumped, jumped > MIN_CLOCK_JUMP_MS),
        ];
        let missed = missed
            .into_iter()
            .filter_map(|(ms, is_so)| is_so.then_some(ms))
            .max()?;
        Some(Duration::from_millis(missed.unsigned_abs()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: i64 = 60_000;
    const START: ClockReading = ClockReading {
        day: 1_800_000_000_000,
        boot: 7_000,
        awake: 0,
    };

    /// A reading this much later by all clocks.
    fn after(begun: ClockReading, day_ms: i64, boot_ms: i64, awake_ms: i64) -> ClockReading {
        ClockReading {
            day: begun.day + day_ms,
            boot: begun.boot + boot_ms,
            awake: begun.awake + awake_ms,
        }
    }

    /// A reading this much later, the machine being awake.
    fn later(begun: ClockReading, ms: i64) -> ClockReading {
        after(begun, ms, ms, ms)
    }

    fn missed(boot_ms: i64, awake_ms: i64, period_ms: i64) -> Option<Duration> {
        SleepDetector::new(START).end_round(after(START, boot_ms, boot_ms, awake_ms), period_ms)
    }

    #[test]
    fn a_sleep_is_noticed_however_early_it_rings_and_a_stop_by_its_late_ring() {
        let seconds = Duration::from_secs;
        assert_eq!(
            missed(60_003, 60_003, MINUTE),
            None,
            "a minute like any other"
        );
        assert_eq!(
            missed(25_000, 5_000, MINUTE),
            Some(seconds(20)),
            "a short sleep, told of at its end"
        );
        assert_eq!(
            missed(605_000, 5_000, MINUTE),
            Some(seconds(600)),
            "a long one"
        );
        assert_eq!(missed(67_000, 67_000, MINUTE), None, "a busy machine");
        assert_eq!(
            missed(660_000, 660_000, MINUTE),
            Some(seconds(600)),
            "stopped, while the machine went on"
        );
        assert_eq!(
            missed(460, 460, 300),
            Some(Duration::from_millis(160)),
            "half of a short period"
        );
    }

    #[test]
    fn a_time_of_day_that_is_minutes_ahead_is_a_pause_of_the_machine_and_one_set_a_little_or_back_is_none()
     {
        let by = |day_ms| {
            SleepDetector::new(START).end_round(after(START, day_ms, 5_000, 5_000), MINUTE)
        };
        assert_eq!(
            by(605_000),
            Some(Duration::from_mins(10)),
            "paused, with all clocks that count from the start"
        );
        assert_eq!(by(35_000), None, "set right by half a minute");
        assert_eq!(by(-3_595_000), None, "set back by an hour");
    }

    #[test]
    fn a_disk_that_hangs_is_no_sleep_and_a_sleep_meanwhile_is_one() {
        let mut round = SleepDetector::new(START);
        for n in 0..5 {
            // Two waits for the journal, and then the timer is armed.
            let begun = later(START, n * (MINUTE + 20_000));
            round.record_work(begun, later(begun, 20_000));
            assert_eq!(
                round.end_round(later(begun, MINUTE + 20_000), MINUTE),
                None,
                "round {n}"
            );
        }
        let mut round = SleepDetector::new(START);
        let woke = after(START, 600_000, 600_000, 10_000);
        round.record_work(START, woke);
        assert_eq!(
            round.end_round(later(woke, MINUTE), MINUTE),
            Some(Duration::from_secs(590)),
            "slept in its work"
        );
        let mut round = SleepDetector::new(START);
        let went_on = later(START, 600_000);
        round.record_work(START, went_on);
        let stopped = Duration::from_millis(600_000 - MAX_WORK_MS.unsigned_abs());
        assert_eq!(
            round.end_round(later(went_on, MINUTE), MINUTE),
            Some(stopped),
            "stopped in its work"
        );
    }
}
