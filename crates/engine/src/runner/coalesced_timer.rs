//! Waits that end together: repeated work runs with the regular housekeeping check, so that the processor wakes once
//! for all of it.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// The most that a wait may be shortened: more would increase the cost of a metered backend.
const MAX_SHORTENING: Duration = Duration::from_secs(30);

/// Announces the housekeeping checks.
#[derive(Debug, Default)]
pub(super) struct CoalescedTimer(watch::Sender<()>);

impl CoalescedTimer {
    /// Announces a housekeeping check.
    pub(super) fn announce_check(&self) {
        self.0.send_replace(());
    }

    /// Waits for about this long. The wait ends with a check in its last quarter, or in its last half minute if that
    /// is less. Without such a check it takes a little longer.
    pub(super) async fn wait_for_check(&self, wait: Duration) {
        let begun = Instant::now();
        let mut looks = self.0.subscribe();
        let look = async {
            // The sender exists as long as this timer.
            while looks.changed().await.is_ok()
                && begun.elapsed() < wait.saturating_sub((wait / 4).min(MAX_SHORTENING))
            {
            }
        };
        tokio::select! {
            () = look => {}
            // After any check that may still come: the runtime's timers also wake the process some seconds before
            // they are due.
            () = sleep_until(begun + wait + wait / 8) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The duration of a wait of this many minutes, with checks at these seconds after its beginning.
    async fn rest_among(minutes: u64, seconds: &[u64]) -> u64 {
        let looks = CoalescedTimer::default();
        let begun = Instant::now();
        let looking = async {
            for second in seconds {
                sleep_until(begun + Duration::from_secs(*second)).await;
                looks.announce_check();
            }
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = looks.wait_for_check(Duration::from_mins(minutes)) => begun.elapsed().as_secs(),
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
