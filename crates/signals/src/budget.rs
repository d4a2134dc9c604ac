//! The limits of one collection.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The time, the entries and the bytes that a source may use, and its cancellation. Each source gets one of its own.
#[derive(Debug)]
pub struct Budget {
    deadline: Instant,
    entries_left: Cell<u64>,
    cancelled: Arc<AtomicBool>,
    is_exceeded: Cell<bool>,
}

impl Budget {
    /// Begins a budget.
    pub fn begin(time: Duration, entries: u64, cancelled: Arc<AtomicBool>) -> Self {
        Self {
            deadline: Instant::now() + time,
            entries_left: Cell::new(entries),
            cancelled,
            is_exceeded: Cell::new(false),
        }
    }

    /// Counts one entry (a row, a folder, a line). Returns whether the source may go on.
    pub fn take_entry(&self) -> bool {
        let left = self.entries_left.get();
        self.entries_left.set(left.saturating_sub(1));
        let may_go_on = left > 0 && self.has_time();
        if !may_go_on {
            self.is_exceeded.set(true);
        }
        may_go_on
    }

    /// Returns whether time is left and nobody has cancelled.
    pub fn has_time(&self) -> bool {
        let may_go_on = !self.cancelled.load(Ordering::Relaxed) && Instant::now() < self.deadline;
        if !may_go_on {
            self.is_exceeded.set(true);
        }
        may_go_on
    }

    /// Returns whether a source had to stop early.
    pub fn is_exceeded(&self) -> bool {
        self.is_exceeded.get()
    }

    /// Returns a function that a SQLite progress handler can call: true ends the statement.
    pub fn interrupt_check(&self) -> impl Fn() -> bool + Send + 'static {
        let (deadline, cancelled) = (self.deadline, Arc::clone(&self.cancelled));
        move || cancelled.load(Ordering::Relaxed) || Instant::now() >= deadline
    }
}
