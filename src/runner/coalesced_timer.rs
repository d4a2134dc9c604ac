//! Waits that end together: repeated work goes with the regular look of housekeeping, so that the processor is woken once
//! for all of it. Not here: when that look is (housekeeping).

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// How long before its time a wait may end: more would be felt in what a metered backend costs.
const LAST: Duration = Duration::from_secs(30);

/// Says when the vigil looks.
#[derive(Debug, Default)]
pub(super) struct CoalescedTimer(watch::Sender<()>);

impl CoalescedTimer {
    /// The vigil looks now.
    pub(super) fn fire(&self) {
        self.0.send_replace(());
    }

    /// Waits for about so long: until a look that comes in the last quarter of it, or in its last half minute where that
    /// is less, and where none does, a little longer.
    pub(super) async fn wait_about(&self, wait: Duration) {
        let (begun, mut looks) = (Instant::now(), self.0.subscribe());
        let look = async {
            // The sender lives as long as this.
            while looks.changed().await.is_ok() && begun.elapsed() < wait.saturating_sub((wait / 4).min(LAST))
            {
            }
        };
        tokio::select! {
            () = look => {}
            // After any look that may still come: the runtime's timers wake it some seconds before they are due, too.
            () = sleep_until(begun + wait + wait / 8) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How long a rest of so many minutes takes while the vigil looks at these seconds after its beginning.
    async fn rest_among(minutes: u64, seconds: &[u64]) -> u64 {
        let (looks, begun) = (CoalescedTimer::default(), Instant::now());
        let looking = async {
            for second in seconds {
                sleep_until(begun + Duration::from_secs(*second)).await;
                looks.fire();
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = looks.wait_about(Duration::from_mins(minutes)) => begun.elapsed().as_secs(),
            () = looking => unreachable!("it waits for ever"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_rest_ends_with_the_look_that_is_about_due_and_without_one_by_itself() {
        assert_eq!(rest_among(1, &[10, 30, 50, 55]).await, 50);
        assert_eq!(rest_among(1, &[2, 62]).await, 62);
        assert_eq!(rest_among(1, &[20, 80]).await, 67);
        assert_eq!(rest_among(1, &[]).await, 67);
        assert_eq!(rest_among(5, &[60, 120, 180, 240, 300]).await, 300);
        assert_eq!(rest_among(5, &[90, 150, 210, 270]).await, 270);
    }
}
