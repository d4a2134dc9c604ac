//! Two names that are exchanged without end: what a path check must stand. Not for tests without such a race.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use rustix::fs::{CWD, RenameFlags, renameat_with};

/// Exchanges two names until it is dropped.
pub struct FlippingNames {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl FlippingNames {
    /// Begins; both names must exist.
    pub fn start(one: &Path, other: &Path) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let (one, other, seen) = (one.to_owned(), other.to_owned(), Arc::clone(&over));
        let thread = std::thread::spawn(move || {
            while !seen.load(Ordering::Relaxed) {
                renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).expect("two names");
            }
        });
        Self {
            over,
            thread: Some(thread),
        }
    }
}

impl Drop for FlippingNames {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the exchange went on to the end");
        }
    }
}
