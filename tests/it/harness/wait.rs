//! Waits for a condition by polling it, so that no test sleeps for a fixed time.

use std::time::Duration;

/// The longest wait: no condition takes longer on a slow machine under load.
pub const PATIENCE: Duration = Duration::from_secs(90);
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// Polls until there is a value. The time limit is on the real clock, even if the runtime's clock is paused.
pub async fn wait_for_some<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let begun = std::time::Instant::now();
    let looking = async {
        loop {
            if let Some(seen) = look().await {
                return seen;
            }
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
    };
    let mut looking = std::pin::pin!(looking);
    loop {
        if let Ok(seen) = tokio::time::timeout(PATIENCE, &mut looking).await {
            return seen;
        }
        assert!(
            begun.elapsed() < PATIENCE,
            "timed out while waiting for {what}"
        );
    }
}

/// Polls until the condition holds.
pub async fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    wait_for_some(what, async || is_so().then_some(())).await;
}

/// Retries with longer and longer limits: for an operation that must get far enough before its time limit ends it.
pub async fn with_enough_time<T>(
    first_ms: u64,
    mut attempt: impl AsyncFnMut(u64) -> Option<T>,
) -> T {
    let mut limit_ms = first_ms;
    loop {
        if let Some(done) = attempt(limit_ms).await {
            return done;
        }
        assert!(
            Duration::from_millis(limit_ms) < PATIENCE,
            "{limit_ms} ms were not enough for the operation"
        );
        limit_ms *= 3;
    }
}
