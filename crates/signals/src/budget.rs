//! The limits of one collection.

use std::cell::{Cell, OnceCell};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The time and the entries that a source may use, and its cancellation. Each source gets one of its own.
#[derive(Debug)]
pub struct Budget {
    deadline: Instant,
    entries_left: Cell<u64>,
    cancelled: Arc<AtomicBool>,
    exceeded: OnceCell<&'static str>,
}

impl Budget {
    /// Begins a budget.
    pub fn begin(time: Duration, entries: u64, cancelled: Arc<AtomicBool>) -> Self {
        Self {
            deadline: Instant::now() + time,
            entries_left: Cell::new(entries),
            cancelled,
            exceeded: OnceCell::new(),
        }
    }

    /// Counts one entry (a row, a folder, a line). Returns whether the source may go on.
    pub fn take_entry(&self) -> bool {
        let Some(left) = self.entries_left.get().checked_sub(1) else {
            self.exceeded
                .get_or_init(|| "the limit of entries was reached");
            return false;
        };
        self.entries_left.set(left);
        self.has_time()
    }

    /// Returns whether time is left and nobody has cancelled.
    pub fn has_time(&self) -> bool {
        if self.cancelled.load(Ordering::Relaxed) {
            self.exceeded.get_or_init(|| "it was cancelled");
            return false;
        }
        if Instant::now() >= self.deadline {
            self.exceeded
                .get_or_init(|| "the limit of time was reached");
            return false;
        }
        true
    }

    /// Returns whether a source had to stop early.
    pub fn is_exceeded(&self) -> bool {
        self.exceeded.get().is_some()
    }

    /// Returns the reason for which a source had to stop early, for people.
    pub fn exceeded_limit(&self) -> Option<&'static str> {
        self.exceeded.get().copied()
    }

    /// Returns a function that a SQLite progress handler can call: true ends the statement.
    pub fn interrupt_check(&self) -> impl Fn() -> bool + Send + 'static {
        let deadline = self.deadline;
        let cancelled = Arc::clone(&self.cancelled);
        move || cancelled.load(Ordering::Relaxed) || Instant::now() >= deadline
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(time: Duration, entries: u64) -> Budget {
        Budget::begin(time, entries, Arc::default())
    }

    #[test]
    fn a_budget_ends_by_entries_time_and_cancellation() {
        let entries = budget(Duration::from_mins(10), 2);
        assert!(entries.take_entry() && entries.take_entry());
        assert_eq!(entries.exceeded_limit(), None);
        assert!(!entries.take_entry());
        assert_eq!(
            entries.exceeded_limit(),
            Some("the limit of entries was reached")
        );
        let time = budget(Duration::ZERO, 2);
        assert!(!time.take_entry() && time.is_exceeded() && time.interrupt_check()());
        let cancelled = Arc::new(AtomicBool::new(false));
        let stopped = Budget::begin(Duration::from_mins(10), 2, Arc::clone(&cancelled));
        assert!(stopped.has_time() && !stopped.interrupt_check()());
        cancelled.store(true, Ordering::Relaxed);
        assert!(!stopped.has_time() && stopped.interrupt_check()());
        assert_eq!(stopped.exceeded_limit(), Some("it was cancelled"));
    }
}
