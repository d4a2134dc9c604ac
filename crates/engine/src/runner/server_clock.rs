//! The backend's clock, which is set by a reading and continues by the time since boot; deadlines use it. Not here: the
//! clocks of this machine (core), and timers, which stop while the machine sleeps (tokio's).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::Duration;

use tokio::time::Instant;

use punie_core::clock::{Clock, ExpiryClock};

/// The time since boot at which the backend was asked for its time.
#[derive(Debug, Clone, Copy)]
pub(super) struct ClockQuestion(i64);

/// The longest wait for an answer while the machine is awake, including a session that is opened on the way.
const MAX_ANSWER_MS: i64 = 90_000;

/// The difference of two clocks, in milliseconds, from which it is reported.
pub const SKEW_MS: u64 = 120_000;

/// The backend's clock. Between readings it continues by the time since boot, so that a changed time of day moves no
/// deadline.
#[derive(Debug, Clone)]
pub(super) struct ServerClock {
    local: Clock,
    /// The backend's clock minus the time since boot.
    offset_ms: Arc<AtomicI64>,
    read: Arc<AtomicBool>,
    expiry: ExpiryClock,
}

impl ServerClock {
    /// Creates the clock; before the first reading it shows the time of day. `expiry` is told every reading.
    pub(super) fn new(local: Clock, expiry: ExpiryClock) -> Self {
        let offset = local.now_ms() - local.since_boot_ms();
        Self {
            local,
            offset_ms: Arc::new(AtomicI64::new(offset)),
            read: Arc::default(),
            expiry,
        }
    }

    /// Returns the moment of a question, to be stored until the backend answers with its time.
    pub(super) fn begin_reading(&self) -> ClockQuestion {
        ClockQuestion(self.local.since_boot_ms())
    }

    /// Stores a reading; returns the backend's clock minus the time of day. An answer that took too long is ignored
    /// with `None`: the machine must have slept meanwhile, so the reading is old.
    pub(super) fn record_reading(&self, server_now_ms: f64, asked: ClockQuestion) -> Option<i64> {
        if self.local.since_boot_ms() - asked.0 > MAX_ANSWER_MS {
            return None;
        }
        #[expect(clippy::cast_possible_truncation, reason = "milliseconds since 1970")]
        let server_now = server_now_ms as i64;
        let before = self.skew_ms();
        self.offset_ms
            .store(server_now - self.local.since_boot_ms(), Ordering::Relaxed);
        self.read.store(true, Ordering::Relaxed);
        self.expiry.record_backend_time(server_now);
        if before.is_none()
            && let Some(skew_ms) = self.skew_ms()
        {
            tracing::warn!(
                skew_ms,
                "this device's clock is not the backend's; deadlines are judged by the backend's"
            );
        }
        Some(server_now - self.local.now_ms())
    }

    /// Returns how far the backend's clock is ahead of the time of day, if that is worth reporting.
    pub(super) fn skew_ms(&self) -> Option<i64> {
        let skew = self.whole_now_ms() - self.local.now_ms();
        (skew.unsigned_abs() > SKEW_MS).then_some(skew)
    }

    /// Uses the offset from the time of day that an earlier process read, until this process reads its own.
    pub(super) fn apply_stored_offset(&self, offset_ms: i64) {
        if !self.is_read() {
            let offset = self.local.now_ms() + offset_ms - self.local.since_boot_ms();
            self.offset_ms.store(offset, Ordering::Relaxed);
        }
    }

    /// Returns whether this process has read the backend's clock.
    pub(super) fn is_read(&self) -> bool {
        self.read.load(Ordering::Relaxed)
    }

    /// Converts `deadline_ms` of the backend's clock to an instant; `None` if it has passed.
    pub(super) fn instant_of_deadline(&self, deadline_ms: f64) -> Option<Instant> {
        let left = deadline_ms - self.now_ms();
        (left > 0.0).then(|| Instant::now() + Duration::from_secs_f64((left / 1_000.0).min(1e9)))
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "milliseconds since 1970 are far below 2^53"
    )]
    pub(super) fn now_ms(&self) -> f64 {
        self.whole_now_ms() as f64
    }

    /// Returns the backend's time in whole milliseconds.
    pub(super) fn whole_now_ms(&self) -> i64 {
        self.local.since_boot_ms() + self.offset_ms.load(Ordering::Relaxed)
    }

    /// Returns the time to store for a closed request, in milliseconds since 1970. Retention is measured by the
    /// backend's clock, so a wrong local clock must not date it. If the local clock is right enough, it is used, so
    /// that `history` shows a request's steps in order.
    pub(super) fn closing_ms(&self) -> i64 {
        match self.skew_ms() {
            Some(_) => self.whole_now_ms(),
            None => self.local.now_ms(),
        }
    }

    /// Returns the time by which old things may be deleted.
    pub(super) fn expiry(&self) -> &ExpiryClock {
        &self.expiry
    }

    pub(super) fn local(&self) -> &Clock {
        &self.local
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const YEAR: i64 = 365 * 86_400_000;

    #[test]
    fn whoever_moves_the_time_of_day_moves_no_deadline() {
        let day = Arc::new(AtomicI64::new(YEAR));
        let boot = Arc::new(AtomicI64::new(0));
        let shown = Arc::clone(&day);
        let passed = Arc::clone(&boot);
        let clock = Clock::from_time_fns(
            move || shown.load(Ordering::SeqCst),
            move || passed.load(Ordering::SeqCst),
        );
        let server = ServerClock::new(clock, ExpiryClock::default());
        assert_eq!((server.whole_now_ms(), server.skew_ms()), (YEAR, None));
        server.apply_stored_offset(5);
        assert_eq!(server.whole_now_ms(), YEAR + 5);
        #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
        let offset = server.record_reading((YEAR + 1_000) as f64, server.begin_reading());
        assert_eq!(offset, Some(1_000));
        for moved in [YEAR * 2, YEAR - 86_400_000, 0] {
            day.store(moved, Ordering::SeqCst);
            assert_eq!(server.whole_now_ms(), YEAR + 1_000);
            assert_eq!(
                server.skew_ms(),
                Some(YEAR + 1_000 - moved),
                "and it is told of"
            );
        }
        boot.store(600_000, Ordering::SeqCst);
        assert_eq!(server.whole_now_ms(), YEAR + 601_000, "sleep counts");
        let asked = server.begin_reading();
        boot.store(1_200_000, Ordering::SeqCst);
        assert_eq!(
            server.record_reading(5.0, asked),
            None,
            "an answer from before a sleep"
        );
        assert_eq!(server.whole_now_ms(), YEAR + 1_201_000);
    }
}
