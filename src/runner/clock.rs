//! Two clocks: ours, injected, and the backend's, known by its offset from ours. Deadlines are the backend's.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

/// The time of day, in milliseconds since 1970.
#[derive(Clone)]
pub struct Clock(Arc<dyn Fn() -> i64 + Send + Sync>);

impl Clock {
    /// The system's.
    pub fn system() -> Self {
        Self::from_fn(|| {
            SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |age| i64::try_from(age.as_millis()).unwrap_or(i64::MAX))
        })
    }

    /// Another one.
    pub fn from_fn(now: impl Fn() -> i64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(now))
    }

    /// Now.
    pub fn now_ms(&self) -> i64 {
        (self.0)()
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Clock({})", self.now_ms())
    }
}

/// Clocks that differ by more than this are told of.
pub const SKEW_MS: u64 = 120_000;

/// The backend's clock.
#[derive(Debug, Clone)]
pub(super) struct ServerClock {
    local: Clock,
    offset_ms: Arc<AtomicI64>,
    read: Arc<AtomicBool>,
}

impl ServerClock {
    pub(super) fn new(local: Clock) -> Self {
        Self { local, offset_ms: Arc::default(), read: Arc::default() }
    }

    /// Takes a reading; returns the backend's clock minus ours.
    pub(super) fn set(&self, server_now_ms: f64) -> i64 {
        #[expect(clippy::cast_possible_truncation, reason = "milliseconds since 1970")]
        let offset = server_now_ms as i64 - self.local.now_ms();
        let before = self.skew_ms();
        self.offset_ms.store(offset, Ordering::Relaxed);
        self.read.store(true, Ordering::Relaxed);
        if before.is_none()
            && let Some(skew_ms) = self.skew_ms()
        {
            tracing::warn!(
                skew_ms,
                "this device's clock is not the backend's; deadlines are judged by the backend's"
            );
        }
        offset
    }

    /// How far the backend's clock is ahead of ours, where that is worth a word.
    pub(super) fn skew_ms(&self) -> Option<i64> {
        let offset = self.offset_ms.load(Ordering::Relaxed);
        (offset.unsigned_abs() > SKEW_MS).then_some(offset)
    }

    /// Takes the offset that an earlier life read, until this one reads its own.
    pub(super) fn recall(&self, offset_ms: i64) {
        if !self.is_read() {
            self.offset_ms.store(offset_ms, Ordering::Relaxed);
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
        (self.local.now_ms() + self.offset_ms.load(Ordering::Relaxed)) as f64
    }
}
