//! What the loop does while the disk has no room: nothing new is asked for and nothing waiting is begun, what runs is
//! finished and delivered, and the disk is looked at again soon. Not here: how room is measured (journal).

use std::time::Duration;

use super::{Mode, Runner};

/// The longest wait between looks at the disk.
const LOOK: Duration = Duration::from_secs(5);

impl Runner {
    /// Looks whether new work must wait. One pass does not: what it cannot write ends it with the reason.
    pub(super) fn lacks_room(&mut self) -> bool {
        let full = self.mode == Mode::Stay && !self.engine.has_room();
        if self.engine.condition.disk_is_full(full) {
            self.engine.beat_soon.notify_one();
            if full {
                tracing::error!("the disk of the home has no room: nothing new is begun until it has");
            } else {
                tracing::info!("the disk of the home has room again");
            }
        }
        full
    }

    /// Comes back for another look.
    pub(super) fn wait_for_room(&mut self) {
        self.poll_after(self.engine.settings.retry.1.min(LOOK));
    }

    /// The time for a poll has come, and for what waited for room.
    pub(super) async fn poll_due(&mut self) {
        self.poll_at = None;
        if self.engine.condition.lacks_room() && !self.lacks_room() {
            self.start_ready().await;
        }
        self.poll();
    }
}
