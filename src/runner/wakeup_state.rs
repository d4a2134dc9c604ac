//! The state of the wake-up socket, as its task, the loop and the heartbeat know it. Not here: the socket's task
//! (intake).

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

/// The state of the wake-up socket.
#[derive(Debug, Default)]
pub(super) struct WakeupState {
    /// Whether polls come back at once with nothing, so that a socket is worth having.
    pub(super) wanted: watch::Sender<bool>,
    /// Whether the subscription stands.
    pub(super) up: watch::Sender<bool>,
    /// A wake-up is on its way to the loop: more of them say nothing more.
    rung: AtomicBool,
}

impl WakeupState {
    /// Whether a wake-up would come if there were something.
    pub(super) fn is_connected(&self) -> bool {
        *self.up.borrow()
    }

    /// Whether polls are known to come back at once.
    pub(super) fn is_wanted(&self) -> bool {
        *self.wanted.borrow()
    }

    /// Whether a socket is worth having.
    pub(super) fn set_wanted(&self, wanted: bool) {
        self.wanted.send_if_modified(|now| std::mem::replace(now, wanted) != wanted);
    }

    /// Returns a receiver of whether the subscription stands.
    pub(super) fn subscribe(&self) -> watch::Receiver<bool> {
        self.up.subscribe()
    }

    /// Marks a wake-up as on its way to the loop; false where one is already.
    pub(super) fn ring(&self) -> bool {
        !self.rung.swap(true, Ordering::AcqRel)
    }

    /// Marks that the loop has the wake-up.
    pub(super) fn take_ring(&self) {
        self.rung.store(false, Ordering::Release);
    }
}
