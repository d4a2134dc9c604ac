//! The free disk space of the home. While it is too small, the runner neither requests nor starts new work; running
//! calls finish and are delivered. Not here: the measurement (journal).

use std::sync::Arc;

use tokio::sync::Notify;

use super::presence::health::HealthState;
use crate::journal::Journal;

/// Watches the free disk space.
pub(super) struct DiskRoom {
    pub journal: Journal,
    pub health: Arc<HealthState>,
    /// The bytes that must be free for new work.
    pub least_free: u64,
    /// New work waits for disk space. In one pass it does not: a failed write ends the pass with the reason.
    pub waits: bool,
    /// Signalled when a heartbeat has news.
    pub beat_soon: Arc<Notify>,
}

impl DiskRoom {
    /// Measures the disk space; returns whether new work must wait.
    pub(super) fn lacks_room(&self) -> bool {
        let full = self.waits && !self.journal.has_room(self.least_free);
        if self.health.disk_is_full(full) {
            self.beat_soon.notify_one();
            if full {
                tracing::error!("the disk of the home has no room: nothing new is begun until it has");
            } else {
                tracing::info!("the disk of the home has room again");
            }
        }
        full
    }

    /// Returns whether new work had to wait at the last measurement.
    pub(super) fn lacked_room(&self) -> bool {
        self.health.lacks_room()
    }
}
