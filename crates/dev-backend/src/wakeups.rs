//! Calls that wait for a device's next event, and their wake-up by commits.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::watch;

use punie_core::ids::DeviceId;

type Waiting = Mutex<HashMap<DeviceId, DeviceListeners>>;

#[derive(Debug)]
struct DeviceListeners {
    signal: watch::Sender<()>,
    count: usize,
}

/// The devices for which calls wait.
#[derive(Debug, Default)]
pub(super) struct WakeupRegistry {
    waiting: Arc<Waiting>,
}

impl WakeupRegistry {
    /// Starts listening. Arm before reading: a commit between the read and the wait then ends the wait at once.
    pub fn arm(&self, device: &DeviceId) -> ArmedWakeup {
        let mut waiting = self.waiting.lock();
        let listeners = waiting
            .entry(device.clone())
            .or_insert_with(|| DeviceListeners {
                signal: watch::Sender::new(()),
                count: 0,
            });
        listeners.count += 1;
        let signal = listeners.signal.subscribe();
        ArmedWakeup {
            device: device.clone(),
            signal,
            waiting: Arc::clone(&self.waiting),
        }
    }

    /// Wakes all calls that wait for this device.
    pub fn wake_device(&self, device: &DeviceId) {
        let waiting = self.waiting.lock();
        if let Some(listeners) = waiting.get(device) {
            listeners.signal.send_replace(());
        }
    }
}

/// One waiting call. Dropping the last one removes the device.
#[derive(Debug)]
pub(super) struct ArmedWakeup {
    device: DeviceId,
    signal: watch::Receiver<()>,
    waiting: Arc<Waiting>,
}

impl ArmedWakeup {
    /// Completes at the first commit since arming, or since it last completed.
    pub async fn wait(&mut self) {
        self.signal
            .changed()
            .await
            .expect("the sender stays in the map while a listener lives");
    }
}

impl Drop for ArmedWakeup {
    fn drop(&mut self) {
        let mut waiting = self.waiting.lock();
        if let Some(listeners) = waiting.get_mut(&self.device) {
            listeners.count -= 1;
            if listeners.count == 0 {
                waiting.remove(&self.device);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_wake_up_between_arming_and_waiting_is_kept() {
        let wakeups = WakeupRegistry::default();
        let device = DeviceId::parse("d").expect("an id");
        let mut first = wakeups.arm(&device);
        let mut second = wakeups.arm(&device);
        wakeups.wake_device(&device);
        first.wait().await;
        second.wait().await;
    }

    #[test]
    fn nobody_waiting_leaves_nothing_behind() {
        let wakeups = WakeupRegistry::default();
        let device = DeviceId::parse("d").expect("an id");
        let first = wakeups.arm(&device);
        let second = wakeups.arm(&device);
        drop(first);
        assert_eq!(wakeups.waiting.lock().len(), 1);
        drop(second);
        assert!(wakeups.waiting.lock().is_empty());
        wakeups.wake_device(&device);
    }
}
