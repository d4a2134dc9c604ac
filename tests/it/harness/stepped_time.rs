//! Time that moves only when a test says so, in steps between which real sockets and threads do their work.

use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use tokio::task::yield_now;
use tokio::time::Instant;

use super::wait::PATIENCE;

/// The time of a runtime of one thread, stopped.
pub struct SteppedTime {
    /// A blocking task waits for it: while one runs, the runtime does not move its time by itself.
    _held: Sender<()>,
}

impl Drop for SteppedTime {
    fn drop(&mut self) {
        tokio::time::resume();
    }
}

impl SteppedTime {
    /// Stops the time of this runtime.
    pub fn stop() -> Self {
        tokio::time::pause();
        let (held, end) = channel::<()>();
        tokio::task::spawn_blocking(move || end.recv());
        Self { _held: held }
    }

    /// Moves time on, step by step, until it is so. How much of this time that took.
    pub async fn move_until(
        &self,
        what: &str,
        step: Duration,
        mut is_so: impl FnMut() -> bool,
    ) -> Duration {
        let (begun, really) = (Instant::now(), std::time::Instant::now());
        loop {
            self.work().await;
            if is_so() {
                return begun.elapsed();
            }
            assert!(
                really.elapsed() < PATIENCE,
                "in vain was waited for: {what}"
            );
            tokio::time::advance(step).await;
        }
    }

    /// Gives sockets, and the threads that own databases, a moment.
    async fn work(&self) {
        for _ in 0..16 {
            yield_now().await;
        }
        let moment = tokio::task::spawn_blocking(|| std::thread::sleep(Duration::from_millis(1)));
        moment.await.expect("it sleeps");
        for _ in 0..16 {
            yield_now().await;
        }
    }
}
