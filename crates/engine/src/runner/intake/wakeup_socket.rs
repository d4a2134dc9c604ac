//! The wake-up socket: open while polls are not held, and reopened with back-off. It causes no more polls than bring
//! events.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::backend::{Backend as _, RecoveryAction, RetryDelay};
use crate::runner::backend_client::BackendClient;
use crate::runner::background::ShutdownPhases;
use crate::runner::backoff::RetryIntervals;
use crate::runner::runner_settings::{RunnerSettings, WakeupMode};
use crate::runner::session_keeper::SessionKeeper;
use crate::runner::wake_event::{LoopWaker, WakeEvent};
use crate::runner::wake_signal::MachineWakeSignal;
use crate::runner::wakeup_state::WakeupState;

/// The lifetime from which a socket's end does not count as a failure.
const MIN_STABLE_TIME: Duration = Duration::from_secs(30);

/// Keeps the wake-up socket open.
pub(in crate::runner) struct WakeupSocket {
    pub state: Arc<WakeupState>,
    pub backend: Arc<BackendClient>,
    pub sessions: Arc<SessionKeeper>,
    pub settings: RunnerSettings,
    pub waker: LoopWaker,
    pub machine_wakes: MachineWakeSignal,
    pub phases: ShutdownPhases,
}

impl WakeupSocket {
    fn wake_for_push(&self) {
        if self.state.try_mark_queued() {
            self.waker.wake(WakeEvent::Pushed);
        }
    }

    /// Listens until the socket ends; returns the wait before the next one.
    async fn listen_once(&self, retry: &mut RetryIntervals) -> Duration {
        let begun = Instant::now();
        let heard = || {
            self.state.up.send_replace(true);
            self.backend.announce_contact();
            self.wake_for_push();
        };
        let error = match self.backend.listen_for_wakeups(&heard).await {
            Ok(never) => match never {},
            Err(error) => error,
        };
        tracing::debug!(%error, "the wake-up socket is closed");
        if self.state.up.send_replace(false) {
            // Wake-ups may be missed now, so a poll is made, and from now on polls are as frequent as without the
            // socket.
            self.wake_for_push();
        }
        if begun.elapsed() >= MIN_STABLE_TIME {
            retry.reset();
        }
        match error.recovery_action() {
            // The poll finds out when the backend is back.
            RecoveryAction::Retry(RetryDelay::Reconnect) => retry.delay_after(RetryDelay::BackOff),
            RecoveryAction::Retry(pause) => retry.delay_after(pause),
            // The socket may have been open for days, so the session of that time says nothing about now.
            RecoveryAction::ReopenSession
                if self
                    .sessions
                    .reopen(self.sessions.current_generation())
                    .await
                    .is_ok() =>
            {
                retry.delay_after(RetryDelay::BackOff)
            }
            RecoveryAction::ReopenSession | RecoveryAction::GiveUp => {
                self.settings.waits.unauthorized
            }
            _ => retry
                .delay_after(RetryDelay::BackOff)
                .max(self.settings.waits.slow_retry.0),
        }
    }
}

/// Keeps the socket open while it is wanted, until the runner stops.
pub async fn run_wakeup_socket(socket: Arc<WakeupSocket>) {
    let mut wanted = socket.state.wanted.subscribe();
    let mut woken = socket.machine_wakes.subscribe();
    let mut retry = RetryIntervals::new(socket.settings.waits.retry);
    if socket.settings.poll.wakeup == WakeupMode::Off {
        return;
    }
    loop {
        let needed = async {
            if socket.settings.poll.wakeup == WakeupMode::Auto {
                // The sender exists as long as the runner's components.
                let _ = wanted.wait_for(|wanted| *wanted).await;
            }
        };
        tokio::select! {
            () = needed => {}
            () = socket.phases.stopping.cancelled() => return,
        }
        let wait = tokio::select! {
            wait = socket.listen_once(&mut retry) => wait,
            // After a sleep the old socket is useless.
            _ = woken.changed() => {
                socket.state.up.send_replace(false);
                Duration::ZERO
            }
            () = socket.phases.stopping.cancelled() => return,
        };
        tokio::select! {
            () = socket.backend.wait_to_retry(wait) => {}
            () = socket.phases.stopping.cancelled() => return,
        }
    }
}
