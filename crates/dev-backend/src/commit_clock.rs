//! The backend's clocks: the wall clock, which tests can replace, and the commit clock, which orders events.

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rusqlite::Connection;

/// The backend's wall clock: the system's, or a test's.
#[derive(Clone)]
pub struct BackendClock(Arc<dyn Fn() -> f64 + Send + Sync>);

impl BackendClock {
    /// Returns the system's clock.
    pub fn from_system() -> Self {
        Self::new(|| {
            SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0.0, |since| since.as_secs_f64() * 1000.0)
        })
    }

    /// Creates a clock from a function that returns milliseconds since 1970.
    pub fn new(now_ms: impl Fn() -> f64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(now_ms))
    }

    /// Returns whole milliseconds since 1970; fractions would only make replies longer.
    pub fn now_ms(&self) -> f64 {
        (self.0)().floor()
    }
}

impl Default for BackendClock {
    fn default() -> Self {
        Self::from_system()
    }
}

impl fmt::Debug for BackendClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clock").field(&self.now_ms()).finish()
    }
}

/// Advances the commit clock to the current time in nanoseconds. If the wall clock stood still or went back, it
/// advances by one. This is part of the caller's transaction, so a commit that is rolled back leaves no trace.
pub(super) fn advance_commit_seq(tx: &Connection, now_ms: f64) -> rusqlite::Result<i64> {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the cast saturates, and the maximum still only grows"
    )]
    let nanos = (now_ms * 1e6) as i64;
    tx.prepare_cached("UPDATE clock SET last_seq = max(?1, last_seq + 1) RETURNING last_seq")?
        .query_row([nanos], |row| row.get(0))
}

/// Returns the time of the last commit in this snapshot.
pub(super) fn last_commit_seq(db: &Connection) -> rusqlite::Result<i64> {
    db.prepare_cached("SELECT last_seq FROM clock")?
        .query_row([], |row| row.get(0))
}
