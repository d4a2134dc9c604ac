//! The free disk space of the home. While it is too small, the runner neither requests nor starts new work; running
//! calls finish and are delivered.

use std::sync::Arc;

use super::handles::Handles;

/// Watches the free disk space.
pub(super) struct DiskSpaceGate {
    pub handles: Arc<Handles>,
    /// New work waits for disk space. In one pass it does not: a failed write ends the pass with the reason.
    pub waits: bool,
}

impl DiskSpaceGate {
    /// Measures the disk space; returns whether new work must wait.
    pub(super) fn check(&self) -> bool {
        let handles = &self.handles;
        let least_free = handles.settings.calls.current().least_free;
        let full = self.waits && !handles.journal.has_disk_space(least_free);
        if handles.health.set_disk_full(full) {
            handles.heartbeat_soon.notify_one();
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
        self.handles.health.is_disk_full()
    }
}
