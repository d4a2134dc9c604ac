//! A clock that moves only when a test moves it, from timer to timer, and that stops for real work. Such work is a call
//! of the backend ([`InstantBackend`](super::instant_backend::InstantBackend)), a blocking task and, at each step, a
//! write to the journal.

use std::convert::Infallible;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use punie_engine::journal::Journal;
use tokio::sync::oneshot;
use tokio::task::yield_now;
use tokio::time::Instant;

use super::wait::PATIENCE;

/// Keeps a paused clock from advancing by itself, until this is dropped. Tokio does not advance a paused clock while a
/// blocking task runs.
pub struct TimeHold {
    _ends: Sender<Infallible>,
}

impl TimeHold {
    pub fn begin() -> Self {
        let (ends, end) = channel();
        tokio::task::spawn_blocking(move || end.recv().is_err());
        Self { _ends: ends }
    }
}

/// The stopped clock of a current-thread runtime.
pub struct SteppedTime {
    hold: Option<TimeHold>,
    journal: Option<Journal>,
}

impl Drop for SteppedTime {
    fn drop(&mut self) {
        tokio::time::resume();
    }
}

impl SteppedTime {
    /// Stops the clock of this runtime.
    pub fn stop() -> Self {
        tokio::time::pause();
        Self {
            hold: Some(TimeHold::begin()),
            journal: None,
        }
    }

    /// Makes each step wait until this journal has stored its pending writes.
    pub fn wait_for_journal(&mut self, journal: Journal) {
        self.journal = Some(journal);
    }

    /// Advances the clock, by at most `step` at once, until the condition holds. Returns the time by which the clock
    /// advanced.
    pub async fn move_until(
        &mut self,
        what: &str,
        step: Duration,
        mut is_so: impl FnMut() -> bool,
    ) -> Duration {
        let begun = Instant::now();
        let mut late = real_timer(PATIENCE);
        loop {
            self.work().await;
            if is_so() {
                return begun.elapsed();
            }
            tokio::select! {
                biased;
                () = &mut late => panic!("timed out while waiting for {what}"),
                () = self.make_step(step) => {}
            }
        }
    }

    /// Advances the clock, by at most `step` at once, until this future completes.
    pub async fn run<T>(&mut self, step: Duration, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        let mut late = real_timer(PATIENCE);
        loop {
            let moving = async {
                self.work().await;
                self.make_step(step).await;
            };
            tokio::select! {
                biased;
                done = &mut work => {
                    self.hold = Some(TimeHold::begin());
                    return done;
                }
                () = &mut late => panic!("the work did not complete in time"),
                () = moving => {}
            }
        }
    }

    async fn make_step(&mut self, step: Duration) {
        self.hold = None;
        tokio::time::sleep(step).await;
        self.hold = Some(TimeHold::begin());
    }

    /// Advances the clock by this time.
    pub async fn pass(&mut self, time: Duration, step: Duration) {
        let end = Instant::now() + time;
        while Instant::now() < end {
            // The patience of a wait is for one of these, so a long time may take long on a busy machine.
            let next = end.min(Instant::now() + step * 50);
            self.move_until("the time to pass", step, || Instant::now() >= next)
                .await;
        }
    }

    /// Waits until the condition holds, without advancing the clock.
    pub async fn stand_until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let begun = std::time::Instant::now();
        while !is_so() {
            assert!(
                begun.elapsed() < PATIENCE,
                "timed out while waiting for {what}"
            );
            self.work().await;
        }
    }

    /// Lets sockets and threads work for a moment, and waits for the writes of the journal.
    async fn work(&self) {
        for _ in 0..2 {
            for _ in 0..16 {
                yield_now().await;
            }
            if let Some(journal) = &self.journal {
                let written = journal.store_fact("stepped_time", String::new());
                written.await.expect("the journal writes");
            }
        }
        let moment = tokio::task::spawn_blocking(|| std::thread::sleep(Duration::from_millis(1)));
        moment.await.expect("it sleeps");
        for _ in 0..16 {
            yield_now().await;
        }
    }
}

/// Completes after this time on the real clock, and lets a paused clock advance.
fn real_timer(time: Duration) -> impl Future<Output = ()> + Unpin {
    let (tell, mut told) = oneshot::channel();
    let (alive, dropped) = channel::<Infallible>();
    std::thread::spawn(move || {
        if dropped.recv_timeout(time) == Err(RecvTimeoutError::Timeout) {
            // The receiver may be gone.
            let _ = tell.send(());
        }
    });
    Box::pin(async move {
        let _alive = alive;
        // An error means that the thread has ended, and it ends only after the time.
        let _ = (&mut told).await;
    })
}
