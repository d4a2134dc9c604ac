//! The shutdown: no new work at once, then a grace period for running calls, then their end. At last the outbox is
//! flushed and the backend notified; everything else is in the journal.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::housekeeping::crash_loop;
use super::main_loop::MainLoop;
use super::shutdown_signal::ShutdownSignal;
use super::wake_event::WakeEvent;

/// The time that the runner's own tasks have to end. One that carries out the owner's order to stop a call takes three
/// seconds at most, and the command that waits for it would otherwise say that nothing was stopped.
const TASK_END_TIMEOUT: Duration = Duration::from_secs(4);

/// The time beside the grace for calls that a stop may take: to end calls, deliver results and close the journal.
pub const STOP_RESERVE: Duration = Duration::from_secs(30);

/// The interval of looks whether the backend is away.
const AWAY_CHECK_INTERVAL: Duration = Duration::from_millis(250);

/// The grace of a stop that waits for running calls. Their own deadlines are shorter.
const UNLIMITED_DRAIN: Duration = Duration::from_hours(24 * 365);

impl MainLoop {
    pub(super) async fn shut_down(&mut self, stop: &ShutdownSignal) {
        let handles = Arc::clone(&self.handles);
        let phases = &handles.phases;
        let drain = if stop.waits_for_calls() {
            UNLIMITED_DRAIN
        } else {
            handles.settings.calls.current().drain
        };
        phases.stopping.cancel();
        if let Some(watchdog) = &self.housekeeping.watchdog {
            // The manager's own limit is that of the installation, and the grace may have changed since. It hears this
            // before anything is written: on an overloaded machine a write may take longer than its limit.
            let limit = (drain + STOP_RESERVE).as_micros();
            watchdog.notify_manager(&format!("STOPPING=1\nEXTEND_TIMEOUT_USEC={limit}"));
        }
        crash_loop::record_stop_begun(&handles.journal).await;
        let hurried = stop.hurry_token();
        if !self
            .wait_for_running_calls(hurried.cancelled(), drain)
            .await
        {
            tracing::info!(
                calls = self.executor.call_count(),
                "calls that still run are told to end"
            );
            phases.ending.cancel();
            self.wait_for_running_calls(
                stop.wait_for_hurry_end(),
                handles.settings.shutdown.stop_grace,
            )
            .await;
        }
        phases.calls_over.cancel();
        stop.mark_calls_over();
        punie_core::failpoint::reach("drain.flush");
        let flushed = CancellationToken::new();
        let flush = async {
            self.delivery.drain_outbox(&flushed).await;
            // The goodbye is optional: without it the backend notices the missing heartbeats.
            let _ = self.presence.send_one_heartbeat(false).await;
        };
        tokio::select! {
            () = flush => {}
            () = self.wait_for_flush_end() => {}
            () = stop.wait_for_hurry_end() => {}
        }
        crash_loop::record_stop_end(&handles.audit).await;
        phases.over.cancel();
        let tasks = handles.background.tracker();
        tasks.close();
        // Tasks that are left after that hold nothing that the journal does not have.
        let _ = tokio::time::timeout(TASK_END_TIMEOUT, tasks.wait()).await;
    }

    /// Waits as long as a stop delivers results: less if the backend is away.
    async fn wait_for_flush_end(&self) {
        let [if_away, longest] = self.handles.settings.shutdown.flush_grace;
        let begun = Instant::now();
        tokio::time::sleep(if_away).await;
        while begun.elapsed() < longest && !self.delivery.is_backend_away() {
            tokio::time::sleep(AWAY_CHECK_INTERVAL).await;
        }
    }

    /// Waits until no call runs; false if the time is up or a second stop request came.
    async fn wait_for_running_calls(
        &mut self,
        hurry: impl Future<Output = ()>,
        grace: Duration,
    ) -> bool {
        let deadline = Instant::now() + grace;
        tokio::pin!(hurry);
        loop {
            // Calls that only wait in their lanes stay in the journal for the next process.
            if !self.executor.has_running() {
                return true;
            }
            tokio::select! {
                Some(wake) = self.wakes.0.recv() => {
                    match wake {
                        WakeEvent::CallFinished(ended) => self.executor.remove_ended(&ended.id),
                        WakeEvent::CancelSeen(id) => self.executor.cancel_call(&id),
                        WakeEvent::StopOrdered(order) => self.executor.stop_by_order(order),
                        _ => {}
                    }
                }
                () = tokio::time::sleep_until(deadline) => return false,
                () = &mut hurry => return false,
            }
        }
    }
}
