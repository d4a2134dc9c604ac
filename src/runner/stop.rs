//! The request to stop the runner: once gracefully, a second time in a hurry. Not here: the stop itself (shutdown).

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long anything may still take after a second request to stop.
const HURRY: Duration = Duration::from_secs(2);

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

    /// Returns the token that a second request cancels.
    pub(super) fn hurried(&self) -> CancellationToken {
        self.hurried.clone()
    }

    /// Completes when the time that a second request leaves is up.
    pub(super) async fn hurry_is_over(&self) {
        self.hurried.cancelled().await;
        let since = self.hurried_at.get().copied().unwrap_or_else(Instant::now);
        tokio::time::sleep_until(since + HURRY).await;
    }
}
