//! What is looked at now and then however quiet it is: whether the machine slept, whether a switch was moved, whether
//! safe mode may end, whether all tasks still move. Seldom, so that an idle runner lets the processor sleep. Not here:
//! what a wake-up means for the loop (waking), and what is forgotten when (periodic).

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;

use super::alarm::Alarm;
use super::engine::Engine;
use super::moves::Mover;
use super::wake::Wake;

/// How long the journal may take before the vigil goes on without it.
const JOURNAL: Duration = Duration::from_secs(10);
/// The most that one piece of the vigil's own work takes: two waits for the journal, and what is seen of files.
const WORK_MS: i64 = 25_000;

/// How far the clock that counts sleep must be ahead of the one that does not: less is no sleep worth a word.
const NAP_MS: i64 = 2_000;
/// A busy machine rings late, too; but not by so much, and not by half a period.
const LATE_MS: i64 = 10_000;
/// How far the time of day must be ahead of both: by minutes, as after a pause of a virtual machine, for which neither
/// goes on. Somebody who sets it has connections made anew, which harms nothing.
const JUMP_MS: i64 = 60_000;

/// What the clocks show, in milliseconds.
#[derive(Debug, Clone, Copy)]
struct Moment {
    /// The time of day.
    day: i64,
    /// The time since the machine was started, sleep included.
    boot: i64,
    /// The same, sleep excluded.
    awake: i64,
}

/// The time from one look to the next.
#[derive(Debug)]
struct Round {
    begun: Moment,
    /// How much of it the looks' own work took: the alarm was not set meanwhile, or could not be heard.
    worked_ms: i64,
}

impl Round {
    fn new(begun: Moment) -> Self {
        Self { begun, worked_ms: 0 }
    }

    /// Work was done from `from` on. Longer than the journal is waited for, it was no work that took the time.
    fn worked(&mut self, from: Moment, until: Moment) {
        self.worked_ms += (until.boot - from.boot).clamp(0, WORK_MS);
    }

    /// What was missed until now, if anything: by the machine's sleep, or because this process was stopped. The next
    /// round begins.
    fn end(&mut self, now: Moment, period_ms: i64) -> Option<Duration> {
        let Self { begun, worked_ms } = std::mem::replace(self, Self::new(now));
        let since = now.boot - begun.boot;
        let slept = since - (now.awake - begun.awake);
        let jumped = now.day - begun.day - since;
        let late = since - period_ms - worked_ms;
        let missed =
            [(slept, slept > NAP_MS), (late, late > LATE_MS.min(period_ms / 2)), (jumped, jumped > JUMP_MS)];
        let missed = missed.into_iter().filter_map(|(ms, is_so)| is_so.then_some(ms)).max()?;
        Some(Duration::from_millis(missed.unsigned_abs()))
    }
}

/// Keeps watch until the runner is over.
pub(super) async fn keep(engine: Arc<Engine>) {
    let told_every = engine.watchdog.as_ref().and_then(super::Watchdog::every);
    let period = told_every.map_or(engine.settings.vigil, |every| every.min(engine.settings.vigil));
    let period_ms = i64::try_from(period.as_millis()).unwrap_or(i64::MAX);
    let began = std::time::Instant::now();
    let now = || Moment {
        day: engine.clock.now_ms(),
        boot: engine.clock.since_boot_ms(),
        awake: i64::try_from(began.elapsed().as_millis()).unwrap_or(i64::MAX),
    };
    let mut alarm = Alarm::every(period, engine.clock.clone());
    // What an earlier life said of itself is over.
    engine.condition.touch();
    let mut round = Round::new(now());
    if let Some(watchdog) = &engine.watchdog {
        watchdog.tell("READY=1");
    }
    loop {
        let rang = tokio::select! {
            () = alarm.ring() => true,
            () = engine.condition.changed() => false,
            () = engine.over.cancelled() => return,
        };
        let work_began = now();
        if rang {
            if let Some(missed) = round.end(work_began, period_ms) {
                engine.waker.wake(Wake::Woke(missed));
            }
            engine.looks.tell();
            engine.heed_switches();
            engine.end_safe_mode_when_quiet();
            engine.pet().await;
        }
        // A disk that hangs must not hold up the rest.
        let _ = timeout(JOURNAL, engine.note_condition()).await;
        round.worked(work_began, now());
    }
}

impl Engine {
    /// Tells the service manager that all is well, if it is.
    async fn pet(&self) {
        let Some((watchdog, every)) = self.watchdog.as_ref().and_then(|dog| Some((dog, dog.every()?))) else {
            return;
        };
        match self.moves.stuck() {
            None => watchdog.tell("WATCHDOG=1"),
            Some(who) => tracing::error!(
                ?who,
                "a task of the runner hangs; the service manager is not told that all is well"
            ),
        }
        // An error is an answer: a full disk is not mended by a restart.
        if timeout(JOURNAL, self.journal.remember("moved_ms", self.clock.now_ms().to_string())).await.is_ok()
        {
            self.moves.again_within(Mover::Journal, every);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: i64 = 60_000;
    const START: Moment = Moment { day: 1_800_000_000_000, boot: 7_000, awake: 0 };

    /// So much later, by each of the clocks.
    fn after(begun: Moment, day_ms: i64, boot_ms: i64, awake_ms: i64) -> Moment {
        Moment { day: begun.day + day_ms, boot: begun.boot + boot_ms, awake: begun.awake + awake_ms }
    }

    /// So much later, the machine being awake.
    fn later(begun: Moment, ms: i64) -> Moment {
        after(begun, ms, ms, ms)
    }

    fn missed(boot_ms: i64, awake_ms: i64, period_ms: i64) -> Option<Duration> {
        Round::new(START).end(after(START, boot_ms, boot_ms, awake_ms), period_ms)
    }

    #[test]
    fn a_sleep_is_noticed_however_early_it_rings_and_a_stop_by_its_late_ring() {
        let seconds = Duration::from_secs;
        assert_eq!(missed(60_003, 60_003, MINUTE), None, "a minute like any other");
        assert_eq!(missed(25_000, 5_000, MINUTE), Some(seconds(20)), "a short sleep, told of at its end");
        assert_eq!(missed(605_000, 5_000, MINUTE), Some(seconds(600)), "a long one");
        assert_eq!(missed(67_000, 67_000, MINUTE), None, "a busy machine");
        assert_eq!(
            missed(660_000, 660_000, MINUTE),
            Some(seconds(600)),
            "stopped, while the machine went on"
        );
        assert_eq!(missed(460, 460, 300), Some(Duration::from_millis(160)), "half of a short period");
    }

    #[test]
    fn a_time_of_day_that_is_minutes_ahead_is_a_pause_of_the_machine_and_one_set_a_little_or_back_is_none() {
        let by = |day_ms| Round::new(START).end(after(START, day_ms, 5_000, 5_000), MINUTE);
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
        let mut round = Round::new(START);
        for n in 0..5 {
            // The journal is waited for twice, and the alarm set after that.
            let begun = later(START, n * (MINUTE + 20_000));
            round.worked(begun, later(begun, 20_000));
            assert_eq!(round.end(later(begun, MINUTE + 20_000), MINUTE), None, "round {n}");
        }
        let mut round = Round::new(START);
        let woke = after(START, 600_000, 600_000, 10_000);
        round.worked(START, woke);
        assert_eq!(
            round.end(later(woke, MINUTE), MINUTE),
            Some(Duration::from_secs(590)),
            "slept in its work"
        );
        let mut round = Round::new(START);
        let went_on = later(START, 600_000);
        round.worked(START, went_on);
        let stopped = Duration::from_millis(600_000 - WORK_MS.unsigned_abs());
        assert_eq!(round.end(later(went_on, MINUTE), MINUTE), Some(stopped), "stopped in its work");
    }
}
