//! The wake-up socket, as the runner keeps it: open while polls are not held, opened anew with back-off, and never a
//! reason to poll more often than something comes of it. Not here: its protocol (backend).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::backoff::Retry;
use super::engine::Engine;
use super::settings::WakeUp;
use super::wake::Wake;
use super::{Mode, Runner};
use crate::backend::{Disposition, Pause};

/// A socket that lasted so long was no failure.
const LASTING: Duration = Duration::from_secs(30);

/// The wait after the first wake-up that was for nothing; each further one on end doubles it.
const IN_VAIN: Duration = Duration::from_millis(20);

/// What the socket's task and the loop know of each other.
#[derive(Debug, Default)]
pub(super) struct Ears {
    /// Whether polls come back at once with nothing, so that a socket is worth having.
    wanted: watch::Sender<bool>,
    /// Whether the subscription stands.
    up: watch::Sender<bool>,
    /// A wake-up is on its way to the loop: more of them say nothing more.
    rung: AtomicBool,
}

impl Ears {
    /// Whether a wake-up would come if there were something.
    pub(super) fn are_up(&self) -> bool {
        *self.up.borrow()
    }

    /// Whether polls are known to come back at once.
    pub(super) fn is_wanted(&self) -> bool {
        *self.wanted.borrow()
    }

    /// Whether a socket is worth having.
    pub(super) fn want(&self, wanted: bool) {
        self.wanted.send_if_modified(|now| std::mem::replace(now, wanted) != wanted);
    }

    /// For `status`.
    pub(super) fn state(&self) -> watch::Receiver<bool> {
        self.up.subscribe()
    }
}

impl Engine {
    fn ring(&self) {
        if !self.ears.rung.swap(true, Ordering::AcqRel) {
            self.waker.wake(Wake::Pushed);
        }
    }

    /// Listens until the socket ends, and says how long to wait before the next.
    async fn listen(&self, retry: &mut Retry) -> Duration {
        let begun = Instant::now();
        let heard = || {
            self.ears.up.send_replace(true);
            self.ring();
        };
        let error = match self.backend.wakeups(&heard).await {
            Ok(never) => match never {},
            Err(error) => error,
        };
        tracing::info!(%error, "the wake-up socket is closed");
        if self.ears.up.send_replace(false) {
            // What it would have told is asked for, and from here on as often as without it.
            self.ring();
        }
        if begun.elapsed() >= LASTING {
            retry.reset();
        }
        match error.disposition() {
            Disposition::Retry(pause) => retry.after(pause),
            // It may have stood for days: what session was open then says nothing of now.
            Disposition::Reopen
                if self.sessions.reopen(self.sessions.generation(), &self.condition).await.is_ok() =>
            {
                retry.after(Pause::BackOff)
            }
            Disposition::Reopen | Disposition::Never => self.settings.unauthorized,
            _ => retry.after(Pause::BackOff).max(self.settings.slow_retry.0),
        }
    }
}

/// Keeps the socket while it is wanted, until the runner stops.
pub(super) async fn keep(engine: Arc<Engine>) {
    let mut wanted = engine.ears.wanted.subscribe();
    let mut woken = engine.woken.subscribe();
    let mut retry = Retry::new(engine.settings.retry);
    if engine.settings.wakeup == WakeUp::Off {
        return;
    }
    loop {
        let needed = async {
            if engine.settings.wakeup == WakeUp::Auto {
                // The sender lives as long as the engine.
                let _ = wanted.wait_for(|wanted| *wanted).await;
            }
        };
        tokio::select! {
            () = needed => {}
            () = engine.stopping.cancelled() => return,
        }
        let wait = tokio::select! {
            wait = engine.listen(&mut retry) => wait,
            // After a sleep the old socket is worth nothing.
            _ = woken.changed() => {
                engine.ears.up.send_replace(false);
                Duration::ZERO
            }
            () = engine.stopping.cancelled() => return,
        };
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = engine.stopping.cancelled() => return,
        }
    }
}

/// The loop's memory of wake-ups.
#[derive(Debug, Default)]
pub(super) struct Pushed {
    /// One came while a poll was under way that may not have seen what it is about.
    again: bool,
    /// Whether the poll under way was made because of one.
    asked: bool,
    /// Polls on end that were made because of one and brought nothing.
    in_vain: u32,
    not_before: Option<Instant>,
}

impl Runner {
    /// The backend says that there may be something.
    pub(super) fn pushed(&mut self) {
        self.engine.ears.rung.store(false, Ordering::Release);
        self.heed_push();
    }

    fn heed_push(&mut self) {
        if self.polling {
            self.pushed.again = true;
            return;
        }
        // A backend that is away or asks for patience is not asked sooner for a socket's sake.
        if self.mode == Mode::OnePass || self.rhythm.is_failing() {
            return;
        }
        self.pushed.again = false;
        self.pushed.asked = true;
        match self.pushed.not_before.filter(|at| *at > Instant::now()) {
            Some(at) => self.poll_at = Some(self.poll_at.map_or(at, |planned| planned.min(at))),
            None => self.poll(),
        }
    }

    /// A poll ended, with so many events; looks whether it was worth its wake-up, and whether another came meanwhile.
    pub(super) fn after_poll(&mut self, events: usize) {
        let pushed = &mut self.pushed;
        if events > 0 {
            (pushed.in_vain, pushed.not_before) = (0, None);
        } else if std::mem::take(&mut pushed.asked) {
            let wait =
                (IN_VAIN * 2_u32.pow(pushed.in_vain.min(10))).min(self.engine.settings.active_interval);
            pushed.in_vain += 1;
            pushed.not_before = Some(Instant::now() + wait);
        }
        pushed.asked = false;
        if pushed.again {
            self.heed_push();
        }
    }
}
