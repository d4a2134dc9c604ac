//! The wait for a time limit. While this process is stopped (SIGSTOP, Ctrl-Z), what it waits for may end, and after
//! that the timer fires before the end is noticed.

use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

/// The lateness by which a timer shows that this process did not run.
const STOPPED: Duration = Duration::from_millis(100);
/// The time in which an end that came meanwhile is noticed.
pub const NOTICE_TIME: Duration = Duration::from_secs(2);

/// Waits until a time limit is up, and a little longer where this process did not run when it was up. Whoever waits for
/// something beside it then sees its end, if it has ended.
pub async fn wait_until_limit(until: Instant) {
    sleep_until(until).await;
    if until.elapsed() >= STOPPED {
        sleep(NOTICE_TIME).await;
    }
}

/// Does the same for a limit that begins now.
pub async fn wait_for_limit(limit: Duration) {
    wait_until_limit(Instant::now() + limit).await;
}

/// Returns the result of some work, or `None` if the time is up before.
pub async fn run_within_limit<T>(limit: Duration, work: impl Future<Output = T>) -> Option<T> {
    tokio::select! {
        biased;
        done = work => Some(done),
        () = wait_for_limit(limit) => None,
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_ended_while_this_process_was_stopped_is_still_received() {
        let limit = Duration::from_secs(10);
        let (sender, receiver) = oneshot::channel();
        let mut waiting = std::pin::pin!(run_within_limit(limit, receiver));
        assert!(poll_once(waiting.as_mut()).await.is_none());
        advance(Duration::from_secs(75)).await;
        assert!(poll_once(waiting.as_mut()).await.is_none());
        sender.send("its result").expect("it is awaited");
        assert_eq!(waiting.await, Some(Ok("its result")));
    }

    #[tokio::test(start_paused = true)]
    async fn what_has_not_ended_is_over_at_its_limit_or_a_moment_after_a_stop() {
        let begun = Instant::now();
        let limit = Duration::from_secs(10);
        let never = std::future::pending::<()>;
        assert_eq!(run_within_limit(limit, never()).await, None);
        assert_eq!(begun.elapsed(), limit);
        let mut waiting = std::pin::pin!(run_within_limit(limit, never()));
        assert!(poll_once(waiting.as_mut()).await.is_none());
        advance(Duration::from_secs(75)).await;
        let woken = Instant::now();
        assert_eq!(waiting.await, None);
        assert_eq!(woken.elapsed(), NOTICE_TIME);
    }

    async fn poll_once<F: Future + Unpin>(work: F) -> Option<F::Output> {
        tokio::select! {
            biased;
            done = work => Some(done),
            () = std::future::ready(()) => None,
        }
    }
}
