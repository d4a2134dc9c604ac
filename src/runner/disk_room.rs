//! The room on the disk of the home: while there is none, nothing new is asked for and nothing waiting is begun; calls that
//! run are finished and delivered. Not here: how room is measured (journal).

use std::sync::Arc;

use tokio::sync::Notify;

use super::presence::health::HealthState;
use crate::journal::Journal;

/// Watches the room on the disk.
pub(super) struct DiskRoom {
    pub journal: Journal,
    pub health: Arc<HealthState>,
    /// The bytes that must be free for new work.
    pub least_free: u64,
    /// New work waits for room. One pass does not: a failed write ends it with the reason.
    pub waits: bool,
    /// Rings when a heartbeat has news.
    pub beat_soon: Arc<Notify>,
}

impl DiskRoom {
    /// Looks whether new work must wait.
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

    /// Returns whether new work had to wait at the last look.
    pub(super) fn lacked_room(&self) -> bool {
        self.health.lacks_room()
    }
}
