//! The one-shot pass: all current requests are accepted, answered and delivered, and then the process ends. Not here:
//! the loop, which is the same.

use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::error::RunnerError;
use super::main_loop::{MainLoop, OnePassSummary};
use super::stop::Stop;

/// The longest time for delivering replies in one pass.
const PATIENCE: Duration = Duration::from_mins(1);

impl MainLoop {
    /// Accepts everything that is offered now, answers and delivers it.
    pub(super) async fn pass_once(
        mut self,
        stop: &Stop,
        begun: Instant,
    ) -> Result<OnePassSummary, RunnerError> {
        self.start_ready().await;
        self.intake.list_open();
        self.intake.poll();
        let ended = self.work(stop).await;
        if ended.is_ok() {
            let no_cut = CancellationToken::new();
            tokio::select! {
                _ = self.delivery.drain_outbox(&no_cut) => {}
                () = tokio::time::sleep(PATIENCE) => {}
                () = stop.requested() => {}
            }
        }
        self.drain(stop).await;
        ended?;
        let counts = self.journal.reader()?.counts()?;
        let mut summary = self.summary;
        summary.executed = self.executor.finished;
        (summary.delivered, summary.failed) = self.journal.closed();
        summary.pending = u64::from(counts.outbox + counts.accepted + counts.started);
        summary.elapsed_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        Ok(summary)
    }
}
