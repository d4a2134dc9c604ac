//! The request to stop the runner: once gracefully, a second time in a hurry.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// The time that everything has after a second request to stop.
const HURRY_TIMEOUT: Duration = Duration::from_secs(2);

/// Asks the runner to stop: once gracefully, a second time in a hurry.
#[derive(Debug, Clone, Default)]
pub struct ShutdownSignal {
    requested: CancellationToken,
    hurried: CancellationToken,
    hurried_at: Arc<OnceLock<Instant>>,
    calls_over: CancellationToken,
    /// Cancelled if running calls may take as long as they want.
    unlimited: CancellationToken,
}

impl ShutdownSignal {
    /// Creates the signal without a request.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the signal for the next runner of this process: a request to stop one also stops the next.
    #[must_use]
    pub fn for_next_runner(&self) -> Self {
        Self {
            calls_over: CancellationToken::new(),
            ..self.clone()
        }
    }

    /// Returns whether a stop was requested.
    pub fn is_requested(&self) -> bool {
        self.requested.is_cancelled()
    }

    /// Requests a stop; a second request shortens it.
    pub fn request_stop(&self) {
        if self.requested.is_cancelled() {
            // Only the first repeated request counts.
            let _ = self.hurried_at.set(Instant::now());
            self.hurried.cancel();
        }
        self.requested.cancel();
    }

    /// Requests a stop that waits for running calls, however long they take.
    pub fn request_finish(&self) {
        self.unlimited.cancel();
        self.requested.cancel();
    }

    /// Returns whether running calls may take as long as they want.
    pub(super) fn waits_for_calls(&self) -> bool {
        self.unlimited.is_cancelled()
    }

    /// Completes when a stop is requested.
    pub async fn wait_for_stop_request(&self) {
        self.requested.cancelled().await;
    }

    /// Returns the token that a stop request cancels.
    pub fn stop_token(&self) -> CancellationToken {
        self.requested.clone()
    }

    /// Returns whether a stop was requested twice.
    pub fn is_hurried(&self) -> bool {
        self.hurried.is_cancelled()
    }

    /// Completes when no call is waited for any more. Processes that the calls left running may be ended then, while
    /// the outbox is still being flushed.
    pub async fn wait_for_calls_over(&self) {
        self.calls_over.cancelled().await;
    }

    /// Records that no call is waited for any more: called by the shutdown, or by a caller that knows that there was
    /// none.
    pub fn mark_calls_over(&self) {
        self.calls_over.cancel();
    }

    /// Returns the token that a second request cancels.
    pub(super) fn hurry_token(&self) -> CancellationToken {
        self.hurried.clone()
    }

    /// Completes when the time after a second request is up.
    pub(super) async fn wait_for_hurry_end(&self) {
        self.hurried.cancelled().await;
        let since = self.hurried_at.get().copied().unwrap_or_else(Instant::now);
        tokio::time::sleep_until(since + HURRY_TIMEOUT).await;
    }
}
