//! The time limit of a call: its own limit counts only the time while the machine is awake, its deadline all time.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::call_runner::CallRunner;
use super::running_call::RunningCall;
use punie_tool::time_limit::{NOTICE_TIME, wait_until_limit};

impl CallRunner {
    /// Waits until a call has run for this long, not counting sleep, or until its deadline has passed.
    pub async fn wait_for_time_limit(&self, call: &RunningCall, limit: Duration) {
        let mut woken = self.handles.machine_wakes.subscribe();
        let mut over = Instant::now() + limit;
        loop {
            tokio::select! {
                () = wait_until_limit(over) => return,
                Ok(()) = woken.changed() => {}
            }
            let Some(deadline) = call.accepted.tool_request().deadline_ms else {
                continue;
            };
            match self.handles.server_clock.instant_of_deadline(deadline) {
                Some(at) => over = at.min(over),
                // A call that ended while the machine slept is noticed.
                None => return sleep(NOTICE_TIME).await,
            }
        }
    }
}
