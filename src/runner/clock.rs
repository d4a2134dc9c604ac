//! Three clocks: the time of day, which people and time servers move; the time since the machine was started, which
//! nobody moves and which goes on while it sleeps; and the backend's, known by a reading and carried on by the second.
//! Deadlines are the backend's. Not here: timers, which stand still while the machine sleeps (tokio's).

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

/// The time of day and the time since the start of the machine, both in milliseconds.
#[derive(Clone)]
pub struct Clock {
    now: Arc<dyn Fn() -> i64 + Send + Sync>,
    since_boot: Arc<dyn Fn() -> i64 + Send + Sync>,
}

impl Clock {
    /// The system's.
    pub fn system() -> Self {
        Self::from_fn(|| {
            SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |age| i64::try_from(age.as_millis()).unwrap_or(i64::MAX))
        })
    }

    /// Another time of day.
    pub fn from_fn(now: impl Fn() -> i64 + Send + Sync + 'static) -> Self {
        Self::from_fns(now, since_boot)
    }

    /// Another time of day, and another time since the start.
    pub fn from_fns(
        now: impl Fn() -> i64 + Send + Sync + 'static,
        since_boot: impl Fn() -> i64 + Send + Sync + 'static,
    ) -> Self {
        Self { now: Arc::new(now), since_boot: Arc::new(since_boot) }
    }

    /// The time of day, in milliseconds since 1970.
    pub fn now_ms(&self) -> i64 {
        (self.now)()
    }

    /// Since the machine was started, its sleep included.
    pub fn since_boot_ms(&self) -> i64 {
        (self.since_boot)()
    }
}

/// `CLOCK_BOOTTIME` on Linux; what Darwin calls `CLOCK_MONOTONIC` also counts sleep.
#[cfg(unix)]
fn since_boot() -> i64 {
    #[cfg(target_os = "linux")]
    let id = rustix::time::ClockId::Boottime;
    #[cfg(not(target_os = "linux"))]
    let id = rustix::time::ClockId::Monotonic;
    let time = rustix::time::clock_gettime(id);
    time.tv_sec * 1_000 + time.tv_nsec / 1_000_000
}

/// Since the first look, by a clock that counts sleep on Windows.
#[cfg(not(unix))]
fn since_boot() -> i64 {
    static FIRST: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    let since = FIRST.get_or_init(std::time::Instant::now).elapsed();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clock({})", self.now_ms())
    }
}

/// When the backend was asked, since the start of the machine.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked(i64);

/// No answer is waited for longer while the machine is awake, a session that is opened on the way included.
const LONGEST_ANSWER_MS: i64 = 90_000;

/// Clocks that differ by more than this are told of, in milliseconds.
pub const SKEW_MS: u64 = 120_000;

/// The backend's clock. Between readings it goes by the time since the start of the machine: whoever moves the time
/// of day moves no deadline.
#[derive(Debug, Clone)]
pub(super) struct ServerClock {
    local: Clock,
    /// The backend's clock minus the time since the start.
    offset_ms: Arc<AtomicI64>,
    read: Arc<AtomicBool>,
}

impl ServerClock {
    /// Before any reading it shows the time of day.
    pub(super) fn new(local: Clock) -> Self {
        let offset = local.now_ms() - local.since_boot_ms();
        Self { local, offset_ms: Arc::new(AtomicI64::new(offset)), read: Arc::default() }
    }

    /// To be kept while the backend is asked for its time.
    pub(super) fn asking(&self) -> Asked {
        Asked(self.local.since_boot_ms())
    }

    /// Takes a reading; returns the backend's clock minus the time of day. Nothing is taken, and none is returned, of
    /// one that was so long on its way that the machine must have slept meanwhile: it tells the time of before.
    pub(super) fn set(&self, server_now_ms: f64, asked: Asked) -> Option<i64> {
        if self.local.since_boot_ms() - asked.0 > LONGEST_ANSWER_MS {
            return None;
        }
        #[expect(clippy::cast_possible_truncation, reason = "milliseconds since 1970")]
        let server_now = server_now_ms as i64;
        let before = self.skew_ms();
        self.offset_ms.store(server_now - self.local.since_boot_ms(), Ordering::Relaxed);
        self.read.store(true, Ordering::Relaxed);
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

    /// How far the backend's clock is ahead of the time of day, where that is worth a word.
    pub(super) fn skew_ms(&self) -> Option<i64> {
        let skew = self.whole_now_ms() - self.local.now_ms();
        (skew.unsigned_abs() > SKEW_MS).then_some(skew)
    }

    /// Takes the offset from the time of day that an earlier life read, until this one reads its own.
    pub(super) fn recall(&self, offset_ms: i64) {
        if !self.is_read() {
            let offset = self.local.now_ms() + offset_ms - self.local.since_boot_ms();
            self.offset_ms.store(offset, Ordering::Relaxed);
        }
    }

    /// Whether this life has read it.
    pub(super) fn is_read(&self) -> bool {
        self.read.load(Ordering::Relaxed)
    }

    /// When `deadline_ms` of the backend's clock is, as an instant; none where it has passed.
    pub(super) fn instant(&self, deadline_ms: f64) -> Option<Instant> {
        let left = deadline_ms - self.now_ms();
        (left > 0.0).then(|| Instant::now() + Duration::from_secs_f64((left / 1_000.0).min(1e9)))
    }

    #[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 are far below 2^53")]
    pub(super) fn now_ms(&self) -> f64 {
        self.whole_now_ms() as f64
    }

    /// The same as a whole number.
    pub(super) fn whole_now_ms(&self) -> i64 {
        self.local.since_boot_ms() + self.offset_ms.load(Ordering::Relaxed)
    }

    /// The moment to close a request at, in milliseconds since 1970. How long it is remembered is measured by the
    /// backend's clock, so that a wrong one of ours must not date it; where ours is right enough, `history` shows its
    /// steps in order.
    pub(super) fn closing_ms(&self) -> i64 {
        match self.skew_ms() {
            Some(_) => self.whole_now_ms(),
            None => self.local.now_ms(),
        }
    }

    /// The clock of this machine.
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
        let (day, boot) = (Arc::new(AtomicI64::new(YEAR)), Arc::new(AtomicI64::new(0)));
        let (shown, passed) = (Arc::clone(&day), Arc::clone(&boot));
        let clock =
            Clock::from_fns(move || shown.load(Ordering::SeqCst), move || passed.load(Ordering::SeqCst));
        let server = ServerClock::new(clock);
        assert_eq!((server.whole_now_ms(), server.skew_ms()), (YEAR, None));
        server.recall(5);
        assert_eq!(server.whole_now_ms(), YEAR + 5);
        #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
        let offset = server.set((YEAR + 1_000) as f64, server.asking());
        assert_eq!(offset, Some(1_000));
        for moved in [YEAR * 2, YEAR - 86_400_000, 0] {
            day.store(moved, Ordering::SeqCst);
            assert_eq!(server.whole_now_ms(), YEAR + 1_000);
            assert_eq!(server.skew_ms(), Some(YEAR + 1_000 - moved), "and it is told of");
        }
        boot.store(600_000, Ordering::SeqCst);
        assert_eq!(server.whole_now_ms(), YEAR + 601_000, "sleep counts");
        let asked = server.asking();
        boot.store(1_200_000, Ordering::SeqCst);
        assert_eq!(server.set(5.0, asked), None, "an answer from before a sleep");
        assert_eq!(server.whole_now_ms(), YEAR + 1_201_000);
    }
}
