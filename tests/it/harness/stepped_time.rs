//! Time that moves only when a test says so, from timer to timer, and only while no real work is under way: no call of the
//! backend ([`InstantBackend`](super::instant_backend::InstantBackend)), no blocking task, and at each step no write to
//! the journal.

use std::convert::Infallible;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use punie_engine::journal::Journal;
use tokio::sync::oneshot;
use tokio::task::yield_now;
use tokio::time::Instant;

use super::wait::PATIENCE;

/// While it lives, a paused clock does not go on by itself. (The runtime lets the clock stand while a blocking task runs.)
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

/// The time of a runtime of one thread, stopped.
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
    /// Stops the time of this runtime.
    pub fn stop() -> Self {
        tokio::time::pause();
        Self {
            hold: Some(TimeHold::begin()),
            journal: None,
        }
    }

    /// Has each step wait until this journal has written what it was given.
    pub fn wait_for_journal(&mut self, journal: Journal) {
        self.journal = Some(journal);
    }

    /// Moves time on by this, at most `step` at once, until it is so. How much of this time that took.
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
                () = &mut late => panic!("in vain was waited for: {what}"),
                () = self.make_step(step) => {}
            }
        }
    }

    /// Moves time on, at most `step` at once, until this is done.
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
                () = &mut late => panic!("it is not done"),
                () = moving => {}
            }
        }
    }

    async fn make_step(&mut self, step: Duration) {
        self.hold = None;
        tokio::time::sleep(step).await;
        self.hold = Some(TimeHold::begin());
    }

    /// Moves time on by so much.
    pub async fn pass(&mut self, time: Duration, step: Duration) {
        let end = Instant::now() + time;
        self.move_until("the time to pass", step, || Instant::now() >= end)
            .await;
    }

    /// Waits until it is so, while time stands.
    pub async fn stand_until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let begun = std::time::Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < PATIENCE, "in vain was waited for: {what}");
            self.work().await;
        }
    }

    /// Gives sockets and threads a moment, and the journal the time that it needs.
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

/// Completes after this time of the real clock; does not keep a paused one from moving.
fn real_timer(time: Duration) -> impl Future<Output = ()> + Unpin {
    let (tell, mut told) = oneshot::channel();
    let (alive, dropped) = channel::<Infallible>();
    std::thread::spawn(move || {
        if dropped.recv_timeout(time) == Err(RecvTimeoutError::Timeout) {
            // Nobody may wait any more.
            let _ = tell.send(());
        }
    });
    Box::pin(async move {
        let _alive = alive;
        // Without a word the thread is gone, which it is only after this.
        let _ = (&mut told).await;
    })
}
