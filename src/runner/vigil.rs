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

/// How far the clock that counts sleep must be ahead of the one that does not: less is no sleep worth a word.
const NAP_MS: i64 = 2_000;
/// A busy machine rings late, too; but not by so much, and not by half a period.
const LATE_MS: i64 = 10_000;

/// What was missed between two looks, if anything: by the machine's sleep, or because this process was stopped.
fn missed(since_ms: i64, awake_ms: i64, period_ms: i64) -> Option<Duration> {
    let (slept, late) = (since_ms - awake_ms, since_ms - period_ms);
    let missed = if slept > NAP_MS { slept } else { late };
    (slept > NAP_MS || late > LATE_MS.min(period_ms / 2))
        .then(|| Duration::from_millis(missed.unsigned_abs()))
}

/// Keeps watch until the runner is over.
pub(super) async fn keep(engine: Arc<Engine>) {
    let told_every = engine.watchdog.as_ref().and_then(super::Watchdog::every);
    let period = told_every.map_or(engine.settings.vigil, |every| every.min(engine.settings.vigil));
    let period_ms = i64::try_from(period.as_millis()).unwrap_or(i64::MAX);
    let mut alarm = Alarm::every(period);
    let mut last = (engine.clock.since_boot_ms(), std::time::Instant::now());
    if let Some(watchdog) = &engine.watchdog {
        watchdog.tell("READY=1");
    }
    loop {
        tokio::select! {
            () = alarm.ring() => {
                let now = (engine.clock.since_boot_ms(), std::time::Instant::now());
                let then = std::mem::replace(&mut last, now);
                let awake_ms = i64::try_from((now.1 - then.1).as_millis()).unwrap_or(i64::MAX);
                if let Some(missed) = missed(now.0 - then.0, awake_ms, period_ms) {
                    engine.waker.wake(Wake::Woke(missed));
                }
                engine.looks.tell();
                engine.heed_switches();
                engine.end_safe_mode_when_quiet();
                engine.pet().await;
            }
            () = engine.condition.changed() => {}
            () = engine.over.cancelled() => return,
        }
        // A disk that hangs must not hold up the rest.
        let _ = timeout(JOURNAL, engine.note_condition()).await;
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

    #[test]
    fn a_sleep_is_noticed_however_early_it_rings_and_a_stop_by_its_late_ring() {
        let seconds = Duration::from_secs;
        assert_eq!(missed(60_003, 60_003, 60_000), None, "a minute like any other");
        assert_eq!(missed(5_000, 5_000, 60_000), None, "somebody set the time of day");
        assert_eq!(missed(25_000, 5_000, 60_000), Some(seconds(20)), "a short sleep, told of at its end");
        assert_eq!(missed(605_000, 5_000, 60_000), Some(seconds(600)), "a long one");
        assert_eq!(missed(67_000, 67_000, 60_000), None, "a busy machine");
        assert_eq!(
            missed(660_000, 660_000, 60_000),
            Some(seconds(600)),
            "stopped, while the machine went on"
        );
        assert_eq!(missed(460, 460, 300), Some(Duration::from_millis(160)), "half of a short period");
    }
}
