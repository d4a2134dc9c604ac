//! How long a call may run: its own limit counts the time that the machine is awake, its deadline all of it. Not here:
//! what is done when the time is up (execute).

use std::time::Duration;

use super::call_runner::{Call, CallRunner};

impl CallRunner {
    /// Waits until a call has run for this long, the machine being awake, or its deadline has passed, awake or not.
    pub(in crate::runner) async fn time_is_up(&self, call: &Call, limit: Duration) {
        let mut woken = self.machine_wakes.subscribe();
        let over = tokio::time::sleep(limit);
        tokio::pin!(over);
        loop {
            tokio::select! {
                () = &mut over => return,
                Ok(()) = woken.changed() => {}
            }
            let Some(deadline) = call.accepted.request().deadline_ms else { continue };
            match self.server_clock.instant(deadline) {
                Some(at) => {
                    let at = at.min(over.deadline());
                    over.as_mut().reset(at);
                }
                None => return,
            }
        }
    }
}
