//! The stop of a search when its time is up or its call is cancelled.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use punie_tool::{ToolContext, ToolError};

/// The signal that the walking threads check between files.
#[derive(Debug, Clone)]
pub(super) struct SearchStop {
    cancelled: Arc<AtomicBool>,
    late: Arc<AtomicBool>,
    deadline: Instant,
}

impl SearchStop {
    fn with_timeout(limit: Duration) -> Self {
        Self {
            cancelled: Arc::default(),
            late: Arc::default(),
            deadline: Instant::now() + limit,
        }
    }

    /// Returns a signal for the same call with a shorter time limit, for a second search that only adds a hint.
    pub(super) fn shortened_to(&self, limit: Duration) -> Self {
        Self {
            cancelled: Arc::clone(&self.cancelled),
            late: Arc::default(),
            deadline: self.deadline.min(Instant::now() + limit),
        }
    }

    /// Returns whether to stop now.
    pub(super) fn should_stop(&self) -> bool {
        if self.cancelled.load(Ordering::Relaxed) || self.late.load(Ordering::Relaxed) {
            return true;
        }
        if Instant::now() >= self.deadline {
            self.late.store(true, Ordering::Relaxed);
            return true;
        }
        false
    }

    /// Returns whether the time was up before the search ended.
    pub(super) fn has_timed_out(&self) -> bool {
        self.late.load(Ordering::Relaxed)
    }
}

/// Runs a search on its own thread, within `timeout_ms` and the call's deadline.
pub(super) async fn run_search<T: Send + 'static>(
    cx: &ToolContext,
    timeout_ms: u64,
    work: impl FnOnce(&SearchStop) -> Result<T, ToolError> + Send + 'static,
) -> Result<T, ToolError> {
    // Reserves some time for the answer, in case the call's own deadline is closer.
    let limit = cx.time_until_deadline(Duration::from_millis(timeout_ms.clamp(1, 600_000)));
    let halt = SearchStop::with_timeout(limit.saturating_sub(limit / 50));
    let theirs = halt.clone();
    let mut running = tokio::task::spawn_blocking(move || work(&theirs));
    let finished = tokio::select! {
        biased;
        () = cx.wait_for_cancel() => {
            halt.cancelled.store(true, Ordering::Relaxed);
            // The threads check the flag between files, so this wait is short and no thread keeps running.
            if let Err(broken) = running.await && broken.is_panic() {
                return Err(ToolError::internal("The search failed. This is a fault of the tool."));
            }
            return Err(ToolError::call_cancelled("The search was cancelled; it changes nothing."));
        }
        finished = &mut running => finished,
    };
    finished.unwrap_or_else(|_| {
        Err(ToolError::internal(
            "The search failed. This is a fault of the tool.",
        ))
    })
}
