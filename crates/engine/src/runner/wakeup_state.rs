//! The state of the wake-up socket, shared by its task, the loop and the heartbeat.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::watch;

/// The state of the wake-up socket.
#[derive(Debug, Default)]
pub(super) struct WakeupState {
    /// Polls come back at once without events, so a socket is useful.
    pub(super) wanted: watch::Sender<bool>,
    /// The socket is connected.
    pub(super) up: watch::Sender<bool>,
    /// A wake-up is queued for the loop; further ones add nothing.
    is_queued: AtomicBool,
}

impl WakeupState {
    /// Returns whether the socket is connected.
    pub(super) fn is_connected(&self) -> bool {
        *self.up.borrow()
    }

    /// Returns whether polls are known to come back at once.
    pub(super) fn is_wanted(&self) -> bool {
        *self.wanted.borrow()
    }

    /// Sets whether a socket is useful.
    pub(super) fn set_wanted(&self, wanted: bool) {
        self.wanted
            .send_if_modified(|now| std::mem::replace(now, wanted) != wanted);
    }

    /// Returns a receiver of whether the socket is connected.
    pub(super) fn subscribe_connected(&self) -> watch::Receiver<bool> {
        self.up.subscribe()
    }

    /// Marks a wake-up as queued; returns false if one is already.
    pub(super) fn try_mark_queued(&self) -> bool {
        !self.is_queued.swap(true, Ordering::AcqRel)
    }

    /// Marks that the loop has received the wake-up.
    pub(super) fn clear_queued(&self) {
        self.is_queued.store(false, Ordering::Release);
    }
}
