//! One pass of the runner: what is there now is taken, answered and delivered, and then it ends. Not here: the loop,
//! which is the same one.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use tokio_util::sync::CancellationToken;

use super::{Mode, Runner, RunnerError, Stop};

/// How long one pass tries to deliver what it has.
const PATIENCE: Duration = Duration::from_mins(1);

/// What one pass did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pass {
    /// Requests that the backend offered.
    pub polled: u64,
    /// Calls that ended.
    pub executed: u64,
    /// Replies that the backend has now.
    pub delivered: u64,
    /// Replies that it does not have yet.
    pub pending: u64,
    /// Requests that will never be delivered.
    pub failed: u64,
    /// How long the pass took, in milliseconds.
    pub elapsed_ms: u64,
}

impl Runner {
    /// One pass: recovers, takes everything that is offered now, answers and delivers it.
    ///
    /// # Errors
    /// As [`Runner::run`], and [`RunnerError::Backend`] where the backend does not answer.
    pub async fn once(mut self, stop: &Stop) -> Result<Pass, RunnerError> {
        let begun = Instant::now();
        self.mode = Mode::OnePass;
        self.begin().await?;
        self.start_ready().await;
        self.list_open();
        self.poll();
        let ended = self.work(stop).await;
        if ended.is_ok() {
            let (engine, no_cut) = (Arc::clone(&self.engine), CancellationToken::new());
            tokio::select! {
                _ = engine.drain_outbox(&no_cut) => {}
                () = tokio::time::sleep(PATIENCE) => {}
                () = stop.requested() => {}
            }
        }
        self.drain(stop).await;
        ended?;
        let counts = self.engine.journal.reader()?.counts()?;
        (self.pass.delivered, self.pass.failed) = self.engine.journal.closed();
        self.pass.pending = u64::from(counts.outbox + counts.accepted + counts.started);
        self.pass.elapsed_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        Ok(self.pass)
    }
}
