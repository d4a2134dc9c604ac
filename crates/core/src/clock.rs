//! The clocks of this machine, and the time by which old things may be deleted. Not here: the backend's clock, by which
//! deadlines are judged (the engine's `ServerClock`).

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The time of day and the time since boot, both in milliseconds.
#[derive(Clone)]
pub struct Clock {
    now: Arc<dyn Fn() -> i64 + Send + Sync>,
    since_boot: Arc<dyn Fn() -> i64 + Send + Sync>,
}

impl Clock {
    /// Returns the system's clock.
    pub fn system() -> Self {
        Self::from_fn(unix_time_ms)
    }

    /// Creates a clock with another time of day.
    pub fn from_fn(now: impl Fn() -> i64 + Send + Sync + 'static) -> Self {
        Self::from_time_fns(now, read_boot_time)
    }

    /// Creates a clock with another time of day and another time since boot.
    pub fn from_time_fns(
        now: impl Fn() -> i64 + Send + Sync + 'static,
        since_boot: impl Fn() -> i64 + Send + Sync + 'static,
    ) -> Self {
        Self {
            now: Arc::new(now),
            since_boot: Arc::new(since_boot),
        }
    }

    /// Returns the time of day, in milliseconds since 1970.
    pub fn now_ms(&self) -> i64 {
        (self.now)()
    }

    /// Returns the milliseconds since boot, including sleep.
    pub fn since_boot_ms(&self) -> i64 {
        (self.since_boot)()
    }
}

/// Returns this machine's time of day in milliseconds since 1970, or 0 if its clock is set to before 1970.
pub fn unix_time_ms() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |age| i64::try_from(age.as_millis()).unwrap_or(i64::MAX))
}

/// Reads `CLOCK_BOOTTIME` on Linux; Darwin's `CLOCK_MONOTONIC` also counts sleep.
#[cfg(unix)]
fn read_boot_time() -> i64 {
    #[cfg(target_os = "linux")]
    let id = rustix::time::ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    let id = rustix::time::ClockId::Monotonic;
    let time = rustix::time::clock_gettime(id);
    time.tv_sec * 1_000 + time.tv_nsec / 1_000_000
}

/// Returns the time since the first call, by a clock that counts sleep on Windows.
#[cfg(not(unix))]
fn read_boot_time() -> i64 {
    static FIRST: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    let since = FIRST.get_or_init(std::time::Instant::now).elapsed();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clock({})", self.now_ms())
    }
}

/// Stands for a time that nobody has told yet.
const UNKNOWN: i64 = i64::MIN;

/// The time by which old things may be deleted: never later than the backend says, and never later than the time of day.
/// Until this process has asked the backend, it goes on from the last time that an earlier process knew. So a time of day
/// that is set ahead deletes nothing.
///
/// The default knows no time: by it nothing is old. Clones share what they learn.
#[derive(Debug, Clone)]
pub struct ExpiryClock {
    local: Clock,
    /// The known time minus the time since boot, or [`UNKNOWN`].
    offset_ms: Arc<AtomicI64>,
    /// The backend has a clock of its own.
    follows_backend: bool,
}

impl Default for ExpiryClock {
    fn default() -> Self {
        Self::from_known_time(Clock::system(), None)
    }
}

impl ExpiryClock {
    /// Creates a clock that goes on from the last time that an earlier process knew, in milliseconds since 1970.
    pub fn from_known_time(local: Clock, known_ms: Option<i64>) -> Self {
        let offset_ms =
            known_ms.map_or(UNKNOWN, |known| known.saturating_sub(local.since_boot_ms()));
        Self {
            local,
            offset_ms: Arc::new(AtomicI64::new(offset_ms)),
            follows_backend: true,
        }
    }

    /// Ignores what the backend says, because it is a part of this process and knows no other clock.
    #[must_use]
    pub fn without_backend(mut self) -> Self {
        self.follows_backend = false;
        self
    }

    /// Goes on from the time that the backend told just now.
    pub fn record_backend_time(&self, now_ms: i64) {
        if self.follows_backend {
            let offset_ms = now_ms.saturating_sub(self.local.since_boot_ms());
            self.offset_ms.store(offset_ms, Ordering::Relaxed);
        }
    }

    /// Returns the time, in milliseconds since 1970; `None` while it is not known.
    pub fn now_ms(&self) -> Option<i64> {
        let offset_ms = self.offset_ms.load(Ordering::Relaxed);
        (offset_ms != UNKNOWN).then(|| {
            let known = self.local.since_boot_ms().saturating_add(offset_ms);
            known.min(self.local.now_ms())
        })
    }

    /// Returns whether a time in milliseconds since 1970 is longer ago than this.
    pub fn is_older(&self, at_ms: i64, age: Duration) -> bool {
        let age_ms = i64::try_from(age.as_millis()).unwrap_or(i64::MAX);
        self.now_ms()
            .is_some_and(|now| at_ms < now.saturating_sub(age_ms))
    }

    /// Returns whether the time of a file is longer ago than this.
    pub fn is_file_older(&self, at: SystemTime, age: Duration) -> bool {
        let since_1970 = at.duration_since(UNIX_EPOCH).unwrap_or_default();
        self.is_older(
            i64::try_from(since_1970.as_millis()).unwrap_or(i64::MAX),
            age,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400_000;

    /// A clock whose time of day and time since boot the test sets, in days.
    fn stepped_clock() -> (Arc<AtomicI64>, Arc<AtomicI64>, Clock) {
        let day = Arc::new(AtomicI64::new(0));
        let boot = Arc::new(AtomicI64::new(0));
        let shown = Arc::clone(&day);
        let passed = Arc::clone(&boot);
        let read = |days: &AtomicI64| days.load(Ordering::SeqCst) * DAY;
        let clock = Clock::from_time_fns(move || read(&shown), move || read(&passed));
        (day, boot, clock)
    }

    #[test]
    fn a_time_of_day_that_is_set_ahead_makes_nothing_old() {
        let (day, boot, clock) = stepped_clock();
        day.store(500, Ordering::SeqCst);
        let is_old = |expiry: &ExpiryClock, at: i64| {
            expiry.is_older(at * DAY, Duration::from_hours(24 * 10))
        };
        let unknown = ExpiryClock::from_known_time(clock.clone(), None);
        assert!(!is_old(&unknown, -1_000), "nobody has told the time");
        let expiry = ExpiryClock::from_known_time(clock.clone(), Some(100 * DAY));
        assert!(is_old(&expiry, 89) && !is_old(&expiry, 91));
        boot.store(5, Ordering::SeqCst);
        assert!(
            is_old(&expiry, 94),
            "the time goes on while the process runs"
        );
        expiry.clone().record_backend_time(200 * DAY);
        assert!(is_old(&expiry, 189) && !is_old(&expiry, 191));
        day.store(150, Ordering::SeqCst);
        assert!(
            !is_old(&expiry, 141),
            "a backend that is ahead deletes nothing, too"
        );
        let own = ExpiryClock::from_known_time(clock, Some(100 * DAY)).without_backend();
        own.record_backend_time(400 * DAY);
        assert_eq!(own.now_ms(), Some(100 * DAY));
    }
}
