//! Percentiles and how they are printed.

use std::time::Duration;

/// Times of one kind.
#[derive(Debug, Clone, Default)]
pub struct Times(Vec<Duration>);

impl Times {
    pub fn add(&mut self, time: Duration) {
        self.0.push(time);
    }

    /// The time that this share of all does not exceed.
    pub fn percentile(&self, percent: usize) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        let at = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
        sorted.get(at).copied().unwrap_or_default()
    }

    /// `p50 / p99` in milliseconds.
    pub fn shown(&self) -> String {
        format!("{} / {}", ms(self.percentile(50)), ms(self.percentile(99)))
    }

    /// How many times those of another, at p50 and p99.
    pub fn ratio(&self, other: &Self) -> String {
        let at = |percent| ratio(self.percentile(percent), other.percentile(percent));
        format!("{:.2} / {:.2}", at(50), at(99))
    }
}

/// Milliseconds with two digits.
pub fn ms(time: Duration) -> String {
    format!("{:.2} ms", time.as_secs_f64() * 1_000.0)
}

/// How many times the other.
pub fn ratio(time: Duration, other: Duration) -> f64 {
    time.as_secs_f64() / other.as_secs_f64().max(f64::MIN_POSITIVE)
}

/// So many a second.
pub fn per_second(count: u32, time: Duration) -> f64 {
    f64::from(count) / time.as_secs_f64().max(f64::MIN_POSITIVE)
}
