//! Stopping: no new work at once, a grace for calls that run, then their end; the outbox is flushed, the backend told.
//! What is not done by then is in the journal. A second request to stop shortens all of it.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::Runner;
use super::wake::Wake;

/// Asks the runner to stop: once gracefully, a second time in a hurry.
#[derive(Debug, Clone, Default)]
pub struct Stop {
    requested: CancellationToken,
    hurried: CancellationToken,
    hurried_at: Arc<OnceLock<Instant>>,
    calls_over: CancellationToken,
}

impl Stop {
    /// Nobody has asked yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same for the next runner of this process: who asked one to stop asks the next.
    #[must_use]
    pub fn for_next(&self) -> Self {
        Self { calls_over: CancellationToken::new(), ..self.clone() }
    }

    /// Whether somebody asked.
    pub fn is_requested(&self) -> bool {
        self.requested.is_cancelled()
    }

    /// Asks; asking again hurries.
    pub fn ask(&self) {
        if self.requested.is_cancelled() {
            // Only the first hurry counts.
            let _ = self.hurried_at.set(Instant::now());
            self.hurried.cancel();
        }
        self.requested.cancel();
    }

    /// Completes when somebody asks.
    pub async fn requested(&self) {
        self.requested.cancelled().await;
    }

    /// Cancelled when somebody asks.
    pub fn token(&self) -> CancellationToken {
        self.requested.clone()
    }

    /// Whether somebody asked twice.
    pub fn is_hurried(&self) -> bool {
        self.hurried.is_cancelled()
    }

    /// Completes when no call is waited for any more. What the calls left running may end then, while the outbox is
    /// still being flushed.
    pub async fn calls_over(&self) {
        self.calls_over.cancelled().await;
    }

    /// No call is waited for any more: told by the drain, or by whoever sees that there was none.
    pub fn calls_are_over(&self) {
        self.calls_over.cancel();
    }

    /// Completes when the time that a second request leaves is up.
    async fn hurry_is_over(&self) {
        self.hurried.cancelled().await;
        let since = self.hurried_at.get().copied().unwrap_or_else(Instant::now);
        tokio::time::sleep_until(since + HURRY).await;
    }
}

/// How long anything may still take after a second request to stop.
const HURRY: Duration = Duration::from_secs(2);

/// How long the runner's own tasks may take to see that it is over.
const OVER: Duration = Duration::from_secs(1);

impl Runner {
    pub(super) async fn drain(&mut self, stop: &Stop) {
        let engine = Arc::clone(&self.engine);
        engine.stopping.cancel();
        if let Some(watchdog) = &engine.watchdog {
            watchdog.tell("STOPPING=1");
        }
        let hurried = stop.hurried.clone();
        if !self.wait_for_calls(hurried.cancelled(), engine.settings.drain).await {
            tracing::info!(calls = self.calls.len(), "calls that still run are told to end");
            engine.ending.cancel();
            self.wait_for_calls(stop.hurry_is_over(), engine.settings.last_words).await;
        }
        engine.calls_over.cancel();
        stop.calls_are_over();
        crate::failpoint::reach("drain.flush");
        let flushed = CancellationToken::new();
        let flush = async {
            engine.drain_outbox(&flushed).await;
            // The last word is a courtesy: without it the backend notices by the missing beats.
            let _ = engine.beat_once(false).await;
        };
        tokio::select! {
            () = flush => {}
            () = tokio::time::sleep(engine.settings.wind_up) => {}
            () = stop.hurry_is_over() => {}
        }
        super::lives::end(&engine).await;
        engine.over.cancel();
        engine.tasks.close();
        // Whatever is left holds nothing that the journal does not have.
        let _ = tokio::time::timeout(OVER, engine.tasks.wait()).await;
    }

    /// Waits until no call runs; false when the time is up or somebody hurries.
    async fn wait_for_calls(&mut self, hurry: impl Future<Output = ()>, grace: Duration) -> bool {
        let deadline = Instant::now() + grace;
        tokio::pin!(hurry);
        loop {
            // Calls that only wait in their lanes stay in the journal for the next life.
            if self.calls.len() <= self.lanes.waiting() {
                return true;
            }
            tokio::select! {
                Some(wake) = self.wakes.0.recv() => {
                    if let Wake::CallFinished(ended) = wake {
                        self.calls.remove(&ended.id);
                    } else if let Wake::CancelSeen(id) = wake {
                        self.cancel(&id);
                    }
                }
                () = tokio::time::sleep_until(deadline) => return false,
                () = &mut hurry => return false,
            }
        }
    }
}
