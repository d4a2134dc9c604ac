//! After a sleep of the machine: connections of before are worth nothing, waits have lost their meaning, and what was
//! wanted may not be any more. Not here: how the sleep is noticed (vigil).

use std::time::Duration;

use super::{Mode, Runner};

impl Runner {
    /// Asks the backend anew over new connections, at once. What waits is judged again before it begins.
    pub(super) fn woke(&mut self, missed: Duration) {
        tracing::info!(
            seconds = missed.as_secs(),
            "the machine slept, or this process was stopped; connections are made anew"
        );
        let engine = &self.engine;
        engine.backend.refresh_connections();
        engine.woken.send_modify(|times| *times += 1);
        engine.outbox.reconnected();
        engine.beat_soon.notify_one();
        self.rhythm.rested();
        if self.mode == Mode::Stay {
            self.polling = false;
            self.poll();
            self.list_open();
        }
    }
}
