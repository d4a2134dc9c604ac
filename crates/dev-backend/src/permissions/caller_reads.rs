//! The times at which callers last read `permissions:pending`, so that a device knows if a caller can be asked. Kept in
//! memory: a caller that still reads is known again after a restart.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

use punie_core::ids::DeviceId;

/// The time for which one read counts.
const READ_COUNTS_FOR: Duration = Duration::from_mins(1);

/// The last read of a caller for each device; `None` is a read for all devices.
#[derive(Debug, Default)]
pub(crate) struct CallerReads(Mutex<HashMap<Option<DeviceId>, Instant>>);

impl CallerReads {
    /// Records that a caller reads the questions of this device, or of all devices, now.
    pub fn record(&self, device: Option<&DeviceId>) {
        let now = Instant::now();
        let mut reads = self.0.lock();
        reads.retain(|_, at| now.duration_since(*at) < READ_COUNTS_FOR);
        reads.insert(device.cloned(), now);
    }

    /// Returns whether a caller read the questions of this device within the last minute.
    pub fn has_recent_read(&self, device: &DeviceId) -> bool {
        let reads = self.0.lock();
        let is_recent = |of: Option<DeviceId>| {
            reads
                .get(&of)
                .is_some_and(|at| at.elapsed() < READ_COUNTS_FOR)
        };
        is_recent(None) || is_recent(Some(device.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_read_counts_for_a_minute_and_for_its_device() {
        let reads = CallerReads::default();
        let device = |id: &str| DeviceId::parse(id).expect("an id");
        let recent = |reads: &CallerReads| {
            (
                reads.has_recent_read(&device("one")),
                reads.has_recent_read(&device("two")),
            )
        };
        assert_eq!(recent(&reads), (false, false));
        reads.record(Some(&device("one")));
        assert_eq!(recent(&reads), (true, false));
        tokio::time::advance(READ_COUNTS_FOR).await;
        assert_eq!(recent(&reads), (false, false));
        reads.record(None);
        assert_eq!(recent(&reads), (true, true));
    }
}
