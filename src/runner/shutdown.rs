//! The shutdown: no new work at once, then a grace period for running calls, then their end. At last the outbox is
//! flushed and the backend notified; everything else is in the journal. Not here: the request to stop (the shutdown signal).

use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::housekeeping::crash_loop;
use super::main_loop::MainLoop;
use super::stop::Stop;
use super::wake::Wake;

/// The time that the runner's own tasks have to end.
const OVER: Duration = Duration::from_secs(1);

impl MainLoop {
    pub(super) async fn drain(&mut self, stop: &Stop) {
        let phases = self.background.phases.clone();
        phases.stopping.cancel();
        if let Some(watchdog) = &self.housekeeping.watchdog {
            watchdog.tell("STOPPING=1");
        }
        let hurried = stop.hurried();
        if !self.wait_for_calls(hurried.cancelled(), self.settings.shutdown.drain).await {
            tracing::info!(calls = self.executor.call_count(), "calls that still run are told to end");
            phases.ending.cancel();
            self.wait_for_calls(stop.hurry_is_over(), self.settings.shutdown.last_words).await;
        }
        phases.calls_over.cancel();
        stop.calls_are_over();
        crate::failpoint::reach("drain.flush");
        let flushed = CancellationToken::new();
        let flush = async {
            self.delivery.drain_outbox(&flushed).await;
            // The goodbye is optional: without it the backend notices the missing heartbeats.
            let _ = self.presence.beat_once(false).await;
        };
        tokio::select! {
            () = flush => {}
            () = tokio::time::sleep(self.settings.shutdown.wind_up) => {}
            () = stop.hurry_is_over() => {}
        }
        crash_loop::record_stop(&self.housekeeping).await;
        phases.over.cancel();
        self.background.tracker().close();
        // The tasks that are left hold nothing that the journal does not have.
        let _ = tokio::time::timeout(OVER, self.background.tracker().wait()).await;
    }

    /// Waits until no call runs; false if the time is up or a second stop request came.
    async fn wait_for_calls(&mut self, hurry: impl Future<Output = ()>, grace: Duration) -> bool {
        let deadline = Instant::now() + grace;
        tokio::pin!(hurry);
        loop {
            // Calls that only wait in their lanes stay in the journal for the next process.
            if !self.executor.has_running() {
                return true;
            }
            tokio::select! {
                Some(wake) = self.wakes.0.recv() => {
                    if let Wake::CallFinished(ended) = wake {
                        self.executor.remove_ended(&ended.id);
                    } else if let Wake::CancelSeen(id) = wake {
                        self.executor.cancel(&id);
                    }
                }
                () = tokio::time::sleep_until(deadline) => return false,
                () = &mut hurry => return false,
            }
        }
    }
}
