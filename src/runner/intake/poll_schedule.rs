//! The time of the next poll, decided from the result of the last one. This file does no I/O.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::backend::{BackendError, Disposition, Pause};
use crate::runner::backoff::{Budget, Retry, jittered};
use crate::runner::settings::Settings;

/// The poll schedule for one backend.
pub(super) struct PollSchedule {
    settings: Settings,
    /// The backend holds polls; unknown until a poll came back empty.
    holds: Option<bool>,
    last_event: Option<Instant>,
    retry: Retry,
    slow: Retry,
    failing: bool,
}

impl PollSchedule {
    pub(super) fn new(settings: Settings, budget: &Arc<Budget>) -> Self {
        let retry = Retry::new(settings.waits.retry).within(budget);
        let slow = Retry::new(settings.waits.slow_retry);
        Self { settings, holds: None, last_event: None, retry, slow, failing: false }
    }

    /// Records a page that came after this long; `listens` while the wake-up socket is connected. Returns the wait
    /// before the next poll, and whether this page ends an outage.
    pub(super) fn page(
        &mut self,
        events: usize,
        is_done: bool,
        held: Duration,
        listens: bool,
    ) -> (Duration, bool) {
        let recovered = std::mem::take(&mut self.failing);
        self.retry.reset();
        self.slow.reset();
        if events > 0 {
            self.last_event = Some(Instant::now());
        } else if is_done && !recovered {
            // After an error the poll did not ask to be held.
            self.holds = Some(!self.settings.poll.hold.is_zero() && held >= self.settings.poll.hold / 4);
        }
        let wait =
            if !is_done || self.holds != Some(false) { Duration::ZERO } else { self.interval(listens) };
        (wait, recovered)
    }

    /// Records a failed poll; returns the wait before the next.
    pub(super) fn error(&mut self, error: &BackendError) -> Duration {
        self.failing = true;
        match error.disposition() {
            Disposition::Retry(pause) => self.retry.after(pause),
            Disposition::Reopen => jittered(self.settings.waits.unauthorized, self.settings.poll.jitter),
            Disposition::RetrySlowly | Disposition::Never => {
                self.slow.next(Some(self.settings.waits.slow_retry.0))
            }
            Disposition::CorrectClock(_) | Disposition::SignAgain | Disposition::Shrink(_) => {
                self.retry.after(Pause::BackOff)
            }
        }
    }

    /// Resets the retries after a sleep of the machine, because earlier failures say nothing about now.
    pub(super) fn rested(&mut self) {
        self.retry.reset();
        self.slow.reset();
    }

    /// Returns whether polls came back at once without events.
    pub(super) fn does_not_hold(&self) -> bool {
        self.holds == Some(false)
    }

    /// Returns whether the last poll failed.
    pub(super) fn is_failing(&self) -> bool {
        self.failing
    }

    fn interval(&self, listens: bool) -> Duration {
        let since = self.last_event.map(|at| at.elapsed());
        let settings = &self.settings;
        let interval = match since {
            _ if listens => settings.poll.listening_interval,
            Some(since) if since < settings.poll.active_for => settings.poll.active_interval,
            Some(since) if since < settings.poll.recent_for => settings.poll.recent_interval,
            _ => settings.poll.idle_interval,
        };
        jittered(interval, settings.poll.jitter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELD: Duration = Duration::from_secs(25);
    const AT_ONCE: Duration = Duration::from_millis(2);

    #[tokio::test(start_paused = true)]
    async fn a_backend_that_holds_polls_is_polled_without_intervals() {
        let mut rhythm = PollSchedule::new(Settings::default(), &Arc::new(Budget::new()));
        assert_eq!(rhythm.page(0, true, HELD, false).0, Duration::ZERO);
        assert_eq!(rhythm.page(3, true, AT_ONCE, false).0, Duration::ZERO);
        assert_eq!(rhythm.page(0, true, HELD, false).0, Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_backend_that_does_not_is_polled_often_after_an_event_and_seldom_when_idle() {
        let mut rhythm = PollSchedule::new(Settings::default(), &Arc::new(Budget::new()));
        let near = |wait: Duration, seconds: f64| {
            let ratio = wait.as_secs_f64() / seconds;
            assert!((0.79..=1.21).contains(&ratio), "{wait:?} is not about {seconds} s");
        };
        near(rhythm.page(0, true, AT_ONCE, false).0, 30.0);
        near(rhythm.page(1, true, AT_ONCE, false).0, 1.0);
        tokio::time::advance(Duration::from_secs(61)).await;
        near(rhythm.page(0, true, AT_ONCE, false).0, 5.0);
        tokio::time::advance(Duration::from_mins(10)).await;
        near(rhythm.page(0, true, AT_ONCE, false).0, 30.0);
        assert_eq!(rhythm.page(64, false, AT_ONCE, false).0, Duration::ZERO, "more is there at once");
        near(rhythm.page(0, true, AT_ONCE, true).0, 300.0);
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_page_after_errors_ends_an_outage() {
        let mut rhythm = PollSchedule::new(Settings::default(), &Arc::new(Budget::new()));
        let gone = BackendError::Unreachable { url: String::new(), cause: String::new() };
        assert!(rhythm.error(&gone) <= Duration::from_secs(1));
        assert!(rhythm.page(0, true, HELD, false).1);
        assert!(!rhythm.page(0, true, HELD, false).1);
        let silent = BackendError::Function { message: "Server Error".into() };
        assert!(rhythm.error(&silent) >= Duration::from_secs(30));
    }

    #[tokio::test(start_paused = true)]
    async fn a_backend_that_asks_for_quiet_is_not_polled_before() {
        let mut rhythm = PollSchedule::new(Settings::default(), &Arc::new(Budget::new()));
        let quiet = Duration::from_secs(90);
        let busy = BackendError::Busy { status: 429, code: String::new(), retry_after: Some(quiet) };
        for _ in 0..20 {
            let wait = rhythm.error(&busy);
            assert!(wait >= quiet && wait <= quiet.mul_f64(1.1), "{wait:?}");
        }
    }
}
