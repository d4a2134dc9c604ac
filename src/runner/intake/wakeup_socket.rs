//! The wake-up socket: open while polls are not held, and reopened with back-off. It causes no more polls than bring
//! events. Not here: its protocol (backend).

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::backend::{Backend as _, Disposition, Pause};
use crate::runner::backend_client::BackendClient;
use crate::runner::background::ShutdownPhases;
use crate::runner::backoff::Retry;
use crate::runner::session::SessionKeeper;
use crate::runner::settings::{Settings, WakeUp};
use crate::runner::wake::{Wake, Waker};
use crate::runner::wake_signal::WakeSignal;
use crate::runner::wakeup_state::WakeupState;

/// The lifetime from which a socket's end does not count as a failure.
const LASTING: Duration = Duration::from_secs(30);

/// Keeps the wake-up socket open.
pub(in crate::runner) struct WakeupSocket {
    pub state: Arc<WakeupState>,
    pub backend: Arc<BackendClient>,
    pub sessions: Arc<SessionKeeper>,
    pub settings: Settings,
    pub waker: Waker,
    pub machine_wakes: WakeSignal,
    pub phases: ShutdownPhases,
}

impl WakeupSocket {
    fn ring(&self) {
        if self.state.ring() {
            self.waker.wake(Wake::Pushed);
        }
    }

    /// Listens until the socket ends; returns the wait before the next one.
    async fn listen(&self, retry: &mut Retry) -> Duration {
        let begun = Instant::now();
        let heard = || {
            self.state.up.send_replace(true);
            self.ring();
        };
        let error = match self.backend.wakeups(&heard).await {
            Ok(never) => match never {},
            Err(error) => error,
        };
        tracing::info!(%error, "the wake-up socket is closed");
        if self.state.up.send_replace(false) {
            // Wake-ups may be missed now, so a poll is made, and from now on polls are as frequent as without the
            // socket.
            self.ring();
        }
        if begun.elapsed() >= LASTING {
            retry.reset();
        }
        match error.disposition() {
            Disposition::Retry(pause) => retry.after(pause),
            // The socket may have been open for days, so the session of that time says nothing about now.
            Disposition::Reopen if self.sessions.reopen(self.sessions.generation()).await.is_ok() => {
                retry.after(Pause::BackOff)
            }
            Disposition::Reopen | Disposition::Never => self.settings.waits.unauthorized,
            _ => retry.after(Pause::BackOff).max(self.settings.waits.slow_retry.0),
        }
    }
}

/// Keeps the socket open while it is wanted, until the runner stops.
pub(in crate::runner) async fn keep_open(socket: Arc<WakeupSocket>) {
    let mut wanted = socket.state.wanted.subscribe();
    let mut woken = socket.machine_wakes.subscribe();
    let mut retry = Retry::new(socket.settings.waits.retry);
    if socket.settings.poll.wakeup == WakeUp::Off {
        return;
    }
    loop {
        let needed = async {
            if socket.settings.poll.wakeup == WakeUp::Auto {
                // The sender exists as long as the runner's components.
                let _ = wanted.wait_for(|wanted| *wanted).await;
            }
        };
        tokio::select! {
            () = needed => {}
            () = socket.phases.stopping.cancelled() => return,
        }
        let wait = tokio::select! {
            wait = socket.listen(&mut retry) => wait,
            // After a sleep the old socket is useless.
            _ = woken.changed() => {
                socket.state.up.send_replace(false);
                Duration::ZERO
            }
            () = socket.phases.stopping.cancelled() => return,
        };
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = socket.phases.stopping.cancelled() => return,
        }
    }
}
