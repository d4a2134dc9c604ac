//! The time of the next poll, decided from the result of the last one, unless the backend names one (`NextPoll`, applied in
//! the `mod.rs` beside). This file does no I/O.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::backend::{BackendError, RecoveryAction, RetryDelay};
use crate::runner::backoff::{RetryBudget, RetryIntervals, add_jitter};
use crate::runner::runner_settings::RunnerSettings;

/// The poll schedule for one backend.
pub(super) struct PollSchedule {
    settings: RunnerSettings,
    /// The backend holds polls; unknown until a poll came back empty.
    holds_polls: Option<bool>,
    last_event: Option<Instant>,
    retry: RetryIntervals,
    slow: RetryIntervals,
    /// The time of the first of the polls in a row that failed.
    failing_since: Option<Instant>,
}

impl PollSchedule {
    pub(super) fn new(settings: RunnerSettings, budget: &Arc<RetryBudget>) -> Self {
        let retry = RetryIntervals::new(settings.waits.retry).with_budget(budget);
        let slow = RetryIntervals::new(settings.waits.slow_retry);
        Self {
            settings,
            holds_polls: None,
            last_event: None,
            retry,
            slow,
            failing_since: None,
        }
    }

    /// Records a page that came after this long; `listens` while the wake-up socket is connected. Returns the wait
    /// before the next poll, and how long an outage was that this page ends.
    pub(super) fn record_page(
        &mut self,
        events: usize,
        is_done: bool,
        held: Duration,
        listens: bool,
    ) -> (Duration, Option<Duration>) {
        let recovered = self.failing_since.take().map(|since| since.elapsed());
        self.retry.reset();
        self.slow.reset();
        if events > 0 {
            self.last_event = Some(Instant::now());
        } else if is_done && recovered.is_none() {
            // After an error the poll did not ask to be held.
            self.holds_polls =
                Some(!self.settings.poll.hold.is_zero() && held >= self.settings.poll.hold / 4);
        }
        let wait = if !is_done || self.holds_polls != Some(false) {
            Duration::ZERO
        } else {
            self.interval(listens)
        };
        (wait, recovered)
    }

    /// Records a failed poll; returns the wait before the next.
    pub(super) fn record_error(&mut self, error: &BackendError) -> Duration {
        self.failing_since.get_or_insert_with(Instant::now);
        match error.recovery_action() {
            RecoveryAction::Retry(pause) => self.retry.delay_after(pause),
            RecoveryAction::ReopenSession => {
                add_jitter(self.settings.waits.unauthorized, self.settings.poll.jitter)
            }
            RecoveryAction::RetrySlowly | RecoveryAction::GiveUp => {
                self.slow.next(Some(self.settings.waits.slow_retry.0))
            }
            RecoveryAction::CorrectClock(_)
            | RecoveryAction::SignAgain
            | RecoveryAction::Shrink(_) => self.retry.delay_after(RetryDelay::BackOff),
        }
    }

    /// Resets the retries after a sleep of the machine, because earlier failures say nothing about now.
    pub(super) fn reset_retries(&mut self) {
        self.retry.reset();
        self.slow.reset();
    }

    /// Returns whether polls came back at once without events.
    pub(super) fn is_unheld(&self) -> bool {
        self.holds_polls == Some(false)
    }

    /// Returns whether the last poll failed.
    pub(super) fn is_failing(&self) -> bool {
        self.failing_since.is_some()
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
        add_jitter(interval, settings.poll.jitter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELD: Duration = Duration::from_secs(25);
    const AT_ONCE: Duration = Duration::from_millis(2);

    #[tokio::test(start_paused = true)]
    async fn a_backend_that_holds_polls_is_polled_without_intervals() {
        let mut rhythm =
            PollSchedule::new(RunnerSettings::default(), &Arc::new(RetryBudget::new()));
        assert_eq!(rhythm.record_page(0, true, HELD, false).0, Duration::ZERO);
        assert_eq!(
            rhythm.record_page(3, true, AT_ONCE, false).0,
            Duration::ZERO
        );
        assert_eq!(rhythm.record_page(0, true, HELD, false).0, Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_backend_that_does_not_is_polled_often_after_an_event_and_seldom_when_idle() {
        let mut rhythm =
            PollSchedule::new(RunnerSettings::default(), &Arc::new(RetryBudget::new()));
        let near = |wait: Duration, seconds: f64| {
            let ratio = wait.as_secs_f64() / seconds;
            assert!(
                (0.79..=1.21).contains(&ratio),
                "{wait:?} is not about {seconds} s"
            );
        };
        near(rhythm.record_page(0, true, AT_ONCE, false).0, 30.0);
        near(rhythm.record_page(1, true, AT_ONCE, false).0, 1.0);
        tokio::time::advance(Duration::from_secs(61)).await;
        near(rhythm.record_page(0, true, AT_ONCE, false).0, 5.0);
        tokio::time::advance(Duration::from_mins(10)).await;
        near(rhythm.record_page(0, true, AT_ONCE, false).0, 30.0);
        assert_eq!(
            rhythm.record_page(64, false, AT_ONCE, false).0,
            Duration::ZERO,
            "more is there at once"
        );
        near(rhythm.record_page(0, true, AT_ONCE, true).0, 300.0);
    }

    #[tokio::test(start_paused = true)]
    async fn the_first_page_after_errors_ends_an_outage() {
        let mut rhythm =
            PollSchedule::new(RunnerSettings::default(), &Arc::new(RetryBudget::new()));
        let gone = BackendError::Unreachable {
            url: String::new(),
            cause: String::new(),
        };
        assert!(rhythm.record_error(&gone) <= Duration::from_secs(1));
        assert!(rhythm.record_page(0, true, HELD, false).1.is_some());
        assert!(rhythm.record_page(0, true, HELD, false).1.is_none());
        let silent = BackendError::Function {
            message: "Server Error".into(),
        };
        assert!(rhythm.record_error(&silent) >= Duration::from_secs(30));
    }

    #[tokio::test(start_paused = true)]
    async fn a_backend_that_asks_for_quiet_is_not_polled_before() {
        let mut rhythm =
            PollSchedule::new(RunnerSettings::default(), &Arc::new(RetryBudget::new()));
        let quiet = Duration::from_secs(90);
        let busy = BackendError::Busy {
            status: 429,
            code: String::new(),
            retry_after: Some(quiet),
        };
        for _ in 0..20 {
            let wait = rhythm.record_error(&busy);
            assert!(wait >= quiet && wait <= quiet.mul_f64(1.1), "{wait:?}");
        }
    }
}
