//! The clock for signatures: the backend's time as far as it is known, always increasing.

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use punie_core::clock::unix_time_ms;

/// The backend's clock, as its functions report it.
#[derive(Debug, Default)]
pub(super) struct SigningClock {
    /// The backend's clock minus the local one, in milliseconds.
    offset_ms: AtomicI64,
    /// True once a function of the backend has reported its time to this process.
    has_server_time: AtomicBool,
    last_signed_ms: AtomicI64,
}

impl SigningClock {
    /// Returns the time to sign with: the backend's, and later than any time used before. Until a function has reported
    /// the time, it uses this offset, taken from the `Date` header of answers.
    pub(super) fn next_ms(&self, dated_offset_ms: Option<i64>) -> i64 {
        let is_told = self.has_server_time.load(Ordering::Relaxed);
        let dated = dated_offset_ms.filter(|_| !is_told);
        let now = unix_time_ms() + dated.unwrap_or_else(|| self.offset_ms.load(Ordering::Relaxed));
        let last = self.last_signed_ms.fetch_max(now, Ordering::SeqCst);
        if now > last {
            now
        } else {
            self.last_signed_ms.fetch_add(1, Ordering::SeqCst) + 1
        }
    }

    /// Sets the clock to the time that a function of the backend reported.
    pub(super) fn set_server_time(&self, server_now_ms: f64) {
        #[expect(clippy::cast_possible_truncation, reason = "milliseconds since 1970")]
        self.offset_ms
            .store(server_now_ms as i64 - unix_time_ms(), Ordering::Relaxed);
        self.has_server_time.store(true, Ordering::Relaxed);
    }

    /// Sets the clock after the backend refused a signature because of its time. It also allows signing times to go
    /// back: with a local clock that was ahead, signing would otherwise wait until the backend catches up.
    pub(super) fn reset_server_time(&self, server_now_ms: f64) {
        self.set_server_time(server_now_ms);
        #[expect(clippy::cast_possible_truncation, reason = "milliseconds since 1970")]
        self.last_signed_ms
            .store(server_now_ms as i64, Ordering::SeqCst);
    }
}
