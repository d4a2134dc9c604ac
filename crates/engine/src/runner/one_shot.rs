//! The one-shot pass: all current requests are accepted, answered and delivered, and then the process ends.

use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::error::RunnerError;
use super::main_loop::{MainLoop, OnePassSummary};
use super::shutdown_signal::ShutdownSignal;

/// The longest time for delivering replies in one pass.
const DELIVERY_TIMEOUT: Duration = Duration::from_mins(1);

impl MainLoop {
    /// Accepts everything that is offered now, answers and delivers it.
    pub(super) async fn run_one_pass(
        mut self,
        stop: &ShutdownSignal,
        begun: Instant,
    ) -> Result<OnePassSummary, RunnerError> {
        self.start_ready_calls().await;
        self.intake.request_open_list();
        self.intake.poll();
        let ended = self.run(stop).await;
        if ended.is_ok() {
            let no_cut = CancellationToken::new();
            tokio::select! {
                _ = self.delivery.drain_outbox(&no_cut) => {}
                () = tokio::time::sleep(DELIVERY_TIMEOUT) => {}
                () = stop.wait_for_stop_request() => {}
            }
        }
        self.shut_down(stop).await;
        ended?;
        let counts = self.handles.journal.open_reader()?.count_open_requests()?;
        let mut summary = self.summary;
        summary.executed = self.executor.finished;
        (summary.delivered, summary.failed) = self.handles.journal.closed_counts();
        summary.pending = u64::from(counts.outbox + counts.accepted + counts.started);
        summary.elapsed_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        Ok(summary)
    }
}
