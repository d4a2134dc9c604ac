//! The time limit of a call: its own limit counts only the time while the machine is awake, its deadline all time.
//! Not here: the reaction when the time is up (`call_execution`).

use std::time::Duration;

use super::call_runner::CallRunner;
use super::running_call::RunningCall;

impl CallRunner {
    /// Waits until a call has run for this long, not counting sleep, or until its deadline has passed.
    pub async fn wait_for_time_limit(&self, call: &RunningCall, limit: Duration) {
        let mut woken = self.machine_wakes.subscribe_wakes();
        let over = tokio::time::sleep(limit);
        tokio::pin!(over);
        loop {
            tokio::select! {
                () = &mut over => return,
                Ok(()) = woken.changed() => {}
            }
            let Some(deadline) = call.accepted.tool_request().deadline_ms else {
                continue;
            };
            match self.server_clock.instant_of_deadline(deadline) {
                Some(at) => {
                    let at = at.min(over.deadline());
                    over.as_mut().reset(at);
                }
                None => return,
            }
        }
    }
}
