//! Waiting for a state of the real world: looked at again and again, never slept for.

use std::time::Duration;

/// More than anything takes on a slow machine under load.
pub const PATIENCE: Duration = Duration::from_secs(90);
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);

/// Looks until there is something to see.
pub async fn eventually<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let looking = async {
        loop {
            if let Some(seen) = look().await {
                return seen;
            }
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
    };
    let seen = tokio::time::timeout(PATIENCE, looking).await;
    seen.unwrap_or_else(|_elapsed| panic!("in vain was waited for: {what}"))
}

/// Looks until it is so.
pub async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    eventually(what, async || is_so().then_some(())).await;
}
