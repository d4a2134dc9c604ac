//! Waiting for a state of the real world: looked at again and again, never slept for.

use std::time::Duration;

/// More than anything takes on a slow machine under load.
pub const PATIENCE: Duration = Duration::from_secs(90);
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// Looks until there is something to see. Patience is of the real clock, also where the runtime's is paused.
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
        assert!(begun.elapsed() < PATIENCE, "in vain was waited for: {what}");
    }
}

/// Looks until it is so.
pub async fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    wait_for_some(what, async || is_so().then_some(())).await;
}

/// Tries with more and more time: for what is cut off by a time limit, and must have come so far before.
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
            "{limit_ms} ms were not enough"
        );
        limit_ms *= 3;
    }
}
