//! The requests of Task tools: rows of the journal like any other, so that they survive a restart. Their replies stay
//! on this device to be read.

use std::time::Duration;

use super::clock::Clock;
use super::wake::{Wake, Waker};
use crate::ids::{ConversationId, LeaseId, RequestId, ToolName};
use crate::journal::{Admission, Journal, JournalError, ListedTask, Offer, Origin, RequestLife};
use crate::request::{Effect, ToolRequest};

/// Creates tasks and finds them.
#[derive(Debug, Clone)]
pub struct TaskRequests {
    journal: Journal,
    lease: LeaseId,
    waker: Waker,
    clock: Clock,
}

impl TaskRequests {
    /// Creates tasks in this journal and wakes this runner for them.
    pub fn new(journal: Journal, lease: LeaseId, waker: Waker, clock: Clock) -> Self {
        Self { journal, lease, waker, clock }
    }

    /// Accepts a call that runs independently of all others; returns the name by which TaskOutput finds it.
    ///
    /// # Errors
    /// The journal could not be written; nothing will run.
    pub async fn start(
        &self,
        id: RequestId,
        tool: ToolName,
        effect: Effect,
        args: String,
        agent_type: Option<String>,
    ) -> Result<String, JournalError> {
        let now_ms = self.clock.now_ms();
        #[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 are far below 2^53")]
        let request = ToolRequest {
            conversation: ConversationId::from(&id),
            id: id.clone(),
            tool,
            args,
            agent_type,
            created_at_ms: now_ms as f64,
            deadline_ms: None,
            cancelled: false,
            issued_at_ms: None,
            signature: None,
        };
        let offers = vec![Offer::Request(request, effect)];
        for admission in self.journal.accept(offers, Origin::Task, &self.lease, None, now_ms).await? {
            if let Admission::Fresh(accepted) = admission {
                self.waker.wake(Wake::TaskMade(accepted));
            }
        }
        self.journal.name_task(&id).await
    }

    /// Returns the request of the task with this name or id, and its state.
    ///
    /// # Errors
    /// The journal could not be read.
    pub fn find(&self, name: &str) -> Result<Option<(RequestId, RequestLife)>, JournalError> {
        let reader = self.journal.reader()?;
        let Some(id) = reader.find_task(name)? else { return Ok(None) };
        let life = reader.life(&id)?.filter(|life| life.origin == Origin::Task);
        Ok(life.map(|life| (id, life)))
    }

    /// Returns the tasks created within this time, the latest first, at most `limit`.
    ///
    /// # Errors
    /// The journal could not be read.
    pub fn recent(&self, within: Duration, limit: u32) -> Result<Vec<ListedTask>, JournalError> {
        let within_ms = i64::try_from(within.as_millis()).unwrap_or(i64::MAX);
        self.journal.reader()?.tasks(self.clock.now_ms().saturating_sub(within_ms), limit)
    }
}
