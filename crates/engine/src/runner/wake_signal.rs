//! The signal that the machine woke from a sleep, for waits that this invalidates.

use std::sync::Arc;

use tokio::sync::watch;

/// A signal that changes after each sleep of the machine. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct MachineWakeSignal(Arc<watch::Sender<u64>>);

impl MachineWakeSignal {
    /// Notifies all receivers that the machine has slept.
    pub(super) fn announce(&self) {
        self.0.send_modify(|wakes| *wakes += 1);
    }

    /// Returns a receiver that changes with the next wake.
    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }
}
