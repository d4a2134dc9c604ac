//! What is due now and then: a look at everything open, and forgetting what is long closed.

use std::sync::Arc;

use super::engine::Engine;
use super::wake::Wake;

/// Ticks until the runner is over.
pub(super) async fn tick(engine: Arc<Engine>) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(engine.settings.list_open) => engine.waker.wake(Wake::ListOpenDue),
            () = engine.over.cancelled() => return,
        }
        engine.forget().await;
    }
}

impl Engine {
    /// By the backend's clock: a clock of ours that jumps ahead must not make us forget what ran.
    async fn forget(&self) {
        if !self.server_clock.is_read() {
            return;
        }
        #[expect(clippy::cast_possible_truncation, reason = "milliseconds since 1970")]
        let now_ms = self.server_clock.now_ms() as i64;
        let age = i64::try_from(self.settings.remember.as_millis()).unwrap_or(i64::MAX);
        match self.journal.forget_closed(now_ms.saturating_sub(age)).await {
            Ok(0) => {}
            Ok(forgotten) => tracing::info!(forgotten, "requests closed long ago were forgotten"),
            Err(error) => tracing::warn!(%error, "old requests could not be forgotten"),
        }
    }
}
