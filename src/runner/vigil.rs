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

/// Keeps watch until the runner is over.
pub(super) async fn keep(engine: Arc<Engine>) {
    let told_every = engine.watchdog.as_ref().and_then(super::Watchdog::every);
    let period = told_every.map_or(engine.settings.vigil, |every| every.min(engine.settings.vigil));
    let period_ms = i64::try_from(period.as_millis()).unwrap_or(i64::MAX);
    let mut alarm = Alarm::every(period);
    let mut last = engine.clock.since_boot_ms();
    if let Some(watchdog) = &engine.watchdog {
        watchdog.tell("READY=1");
    }
    loop {
        tokio::select! {
            () = alarm.ring() => {
                let now = engine.clock.since_boot_ms();
                let missed = now - std::mem::replace(&mut last, now) - period_ms;
                // A busy machine rings late, too; but not by half a period.
                if missed > period_ms / 2 {
                    engine.waker.wake(Wake::Woke(Duration::from_millis(missed.unsigned_abs())));
                }
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
