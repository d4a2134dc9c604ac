//! The signal that the machine woke from a sleep, for waits that have lost their meaning by it. Not here: how the sleep is
//! noticed (housekeeping).

use std::sync::Arc;

use tokio::sync::watch;

/// Changes after each sleep of the machine. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub(super) struct WakeSignal(Arc<watch::Sender<u64>>);

impl WakeSignal {
    /// Tells all who wait that the machine has slept.
    pub(super) fn send(&self) {
        self.0.send_modify(|wakes| *wakes += 1);
    }

    /// Returns a receiver that changes with the next wake.
    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }
}
