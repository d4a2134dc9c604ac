//! The wake-up socket: open while polls are not held, and reopened with back-off. It causes no more polls than bring
//! events.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::backend::{Backend as _, RecoveryAction, RetryDelay};
use crate::runner::backoff::RetryIntervals;
use crate::runner::handles::Handles;
use crate::runner::runner_settings::WakeupMode;
use crate::runner::wake_event::WakeEvent;

/// The lifetime from which a socket's end does not count as a failure.
const MIN_STABLE_TIME: Duration = Duration::from_secs(30);

/// Wakes the loop for a poll, unless it is to wake for one already.
fn wake_for_push(handles: &Handles) {
    if handles.socket.try_mark_queued() {
        handles.waker.wake(WakeEvent::Pushed);
    }
}

/// Listens until the socket ends; returns the wait before the next one.
async fn listen_once(handles: &Handles, retry: &mut RetryIntervals) -> Duration {
    let backend = &handles.backend;
    let sessions = &handles.sessions;
    let socket = &handles.socket;
    let waits = &handles.settings.waits;
    let begun = Instant::now();
    let heard = || {
        socket.up.send_replace(true);
        backend.announce_contact();
        wake_for_push(handles);
    };
    let error = match backend.listen_for_wakeups(&heard).await {
        Ok(never) => match never {},
        Err(error) => error,
    };
    tracing::debug!(%error, "the wake-up socket is closed");
    if socket.up.send_replace(false) {
        // Wake-ups may be missed now, so a poll is made, and from now on polls are as frequent as without the socket.
        wake_for_push(handles);
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
            if sessions.reopen(sessions.current_generation()).await.is_ok() =>
        {
            retry.delay_after(RetryDelay::BackOff)
        }
        RecoveryAction::ReopenSession | RecoveryAction::GiveUp => waits.unauthorized,
        _ => retry
            .delay_after(RetryDelay::BackOff)
            .max(waits.slow_retry.0),
    }
}

/// Keeps the socket open while it is wanted, until the runner stops.
pub async fn run_wakeup_socket(handles: Arc<Handles>) {
    let socket = &handles.socket;
    let settings = &handles.settings;
    let mut wanted = socket.wanted.subscribe();
    let mut woken = handles.machine_wakes.subscribe();
    let mut retry = RetryIntervals::new(settings.waits.retry);
    if settings.poll.wakeup == WakeupMode::Off {
        return;
    }
    loop {
        let needed = async {
            if settings.poll.wakeup == WakeupMode::Auto {
                // The sender exists as long as the runner's components.
                let _ = wanted.wait_for(|wanted| *wanted).await;
            }
        };
        tokio::select! {
            () = needed => {}
            () = handles.phases.stopping.cancelled() => return,
        }
        let wait = tokio::select! {
            wait = listen_once(&handles, &mut retry) => wait,
            // After a sleep the old socket is useless.
            _ = woken.changed() => {
                socket.up.send_replace(false);
                Duration::ZERO
            }
            () = handles.phases.stopping.cancelled() => return,
        };
        tokio::select! {
            () = handles.backend.wait_to_retry(wait) => {}
            () = handles.phases.stopping.cancelled() => return,
        }
    }
}
