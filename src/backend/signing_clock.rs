//! The time that a device signs with: the backend's, as far as it is known, and later with each signature.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// The backend's clock, as its functions have told it.
#[derive(Debug, Default)]
pub(super) struct SigningClock {
    /// Backend clock minus ours, in milliseconds.
    offset_ms: AtomicI64,
    /// Whether a function of the backend has told the time to this process.
    is_told: AtomicBool,
    last_signed_ms: AtomicI64,
}

impl SigningClock {
    /// The time to sign with: the backend's, and later than any signed before. Until a function has told the time, it
    /// goes by this offset, which the dates of answers tell.
    pub(super) fn next_ms(&self, dated_offset_ms: Option<i64>) -> i64 {
        let is_told = self.is_told.load(Ordering::Relaxed);
        let dated = dated_offset_ms.filter(|_| !is_told);
        let now = local_ms() + dated.unwrap_or_else(|| self.offset_ms.load(Ordering::Relaxed));
        let last = self.last_signed_ms.fetch_max(now, Ordering::SeqCst);
        if now > last { now } else { self.last_signed_ms.fetch_add(1, Ordering::SeqCst) + 1 }
    }

    /// Sets the clock to what a function of the backend told.
    pub(super) fn set(&self, server_now_ms: f64) {
        #[expect(clippy::cast_possible_truncation, reason = "milliseconds since 1970")]
        self.offset_ms.store(server_now_ms as i64 - local_ms(), Ordering::Relaxed);
        self.is_told.store(true, Ordering::Relaxed);
    }

    /// Sets the clock after a signature by the wrong time was refused. Signing begins anew by the right one: if ours was
    /// ahead, it would otherwise have to wait until the backend's has caught up.
    pub(super) fn reset(&self, server_now_ms: f64) {
        self.set(server_now_ms);
        #[expect(clippy::cast_possible_truncation, reason = "milliseconds since 1970")]
        self.last_signed_ms.store(server_now_ms as i64, Ordering::SeqCst);
    }
}

fn local_ms() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |age| i64::try_from(age.as_millis()).unwrap_or(i64::MAX))
}
