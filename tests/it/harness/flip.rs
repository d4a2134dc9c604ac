//! Exchanges two names in a loop, for tests of path checks that must withstand this race.
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
    /// Starts the exchange. Both names must exist.
    pub fn start(one: &Path, other: &Path) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let one = one.to_owned();
        let other = other.to_owned();
        let seen = Arc::clone(&over);
        let thread = std::thread::spawn(move || {
            while !seen.load(Ordering::Relaxed) {
                renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE)
                    .expect("both names exist");
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
            thread.join().expect("the exchange did not panic");
        }
    }
}
