//! The free disk space of the home. While it is too small, the runner neither requests nor starts new work; running
//! calls finish and are delivered.

use std::sync::Arc;

use tokio::sync::Notify;

use super::presence::health::HealthState;
use super::runner_settings::LiveCallSettings;
use crate::journal::Journal;

/// Watches the free disk space.
pub(super) struct DiskSpaceGate {
    pub journal: Journal,
    pub health: Arc<HealthState>,
    /// The settings with the bytes that must be free for new work.
    pub calls: LiveCallSettings,
    /// New work waits for disk space. In one pass it does not: a failed write ends the pass with the reason.
    pub waits: bool,
    /// Signalled when a heartbeat has news.
    pub heartbeat_soon: Arc<Notify>,
}

impl DiskSpaceGate {
    /// Measures the disk space; returns whether new work must wait.
    pub(super) fn check(&self) -> bool {
        let least_free = self.calls.current().least_free;
        let full = self.waits && !self.journal.has_disk_space(least_free);
        if self.health.set_disk_full(full) {
            self.heartbeat_soon.notify_one();
            if full {
                tracing::error!(
                    "the disk of the home has no room: nothing new is begun until it has"
                );
            } else {
                tracing::info!("the disk of the home has room again");
            }
        }
        full
    }

    /// Returns whether new work had to wait at the last measurement.
    pub(super) fn was_full(&self) -> bool {
        self.health.is_disk_full()
    }
}
