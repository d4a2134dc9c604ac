//! The requests of Task tools: rows of the journal like any other, so that they survive a restart. Their replies stay
//! on this device to be read.

use std::sync::Arc;
use std::time::Duration;

use super::wake_event::{LoopWaker, WakeEvent};
use crate::journal::{
    Journal, JournalError, ListedTask, OfferOutcome, RequestOffer, RequestOrigin, RequestRecord,
};
use punie_core::clock::Clock;
use punie_core::ids::{ConversationId, LeaseId, RequestId, ToolName};
use punie_tool::request::{RequestSession, ToolEffect, ToolRequest};

/// The origin of a task: that of the call that asked for it.
#[derive(Debug, Clone)]
pub struct TaskOrigin {
    /// The kind of agent.
    pub agent_type: Option<String>,
    /// The caller's name.
    pub caller: Option<String>,
    /// The session whose folders narrow the task.
    pub session: Option<Arc<RequestSession>>,
}

/// Creates tasks and finds them.
#[derive(Debug, Clone)]
pub struct TaskRequests {
    journal: Journal,
    lease: LeaseId,
    waker: LoopWaker,
    clock: Clock,
}

impl TaskRequests {
    /// Creates tasks in this journal and wakes this runner for them.
    pub fn new(journal: Journal, lease: LeaseId, waker: LoopWaker, clock: Clock) -> Self {
        Self {
            journal,
            lease,
            waker,
            clock,
        }
    }

    /// Accepts a call that runs independently of all others; returns the name by which TaskOutput finds it. It is made
    /// for the agent, the caller and the session that asked for the task.
    ///
    /// # Errors
    /// The journal could not be written; nothing will run.
    pub async fn accept(
        &self,
        id: RequestId,
        tool: ToolName,
        effect: ToolEffect,
        args: String,
        origin: TaskOrigin,
        title: Option<String>,
    ) -> Result<String, JournalError> {
        let now_ms = self.clock.now_ms();
        #[expect(
            clippy::cast_precision_loss,
            reason = "milliseconds since 1970 are far below 2^53"
        )]
        let request = ToolRequest {
            conversation: ConversationId::OwnOf(id.clone()),
            id: id.clone(),
            tool,
            args,
            agent_type: origin.agent_type,
            caller: origin.caller,
            session: origin.session,
            created_at_ms: now_ms as f64,
            deadline_ms: None,
            cancelled: false,
            issued_at_ms: None,
            signature: None,
        };
        let offers = vec![RequestOffer::Request(request, effect, title)];
        for admission in self
            .journal
            .accept_page(offers, RequestOrigin::Task, &self.lease, None, now_ms)
            .await?
        {
            if let OfferOutcome::Fresh(accepted) = admission {
                self.waker.wake(WakeEvent::TaskCreated(accepted));
            }
        }
        self.journal.assign_task_name(&id).await
    }

    /// Returns the request of the task with this name or id, and its state; with a session, only of one of its own.
    ///
    /// # Errors
    /// The journal could not be read.
    pub fn find(
        &self,
        name: &str,
        of: Option<&RequestSession>,
    ) -> Result<Option<(RequestId, RequestRecord)>, JournalError> {
        let reader = self.journal.open_reader()?;
        let Some(id) = reader.find_task_by_name(name, of)? else {
            return Ok(None);
        };
        let life = reader
            .request_record(&id)?
            .filter(|life| life.origin == RequestOrigin::Task);
        Ok(life.map(|life| (id, life)))
    }

    /// Returns the tasks created within this time, the latest first, at most `limit`; with a session, only its own.
    ///
    /// # Errors
    /// The journal could not be read.
    pub fn list_recent(
        &self,
        within: Duration,
        limit: u32,
        of: Option<&RequestSession>,
    ) -> Result<Vec<ListedTask>, JournalError> {
        let within_ms = i64::try_from(within.as_millis()).unwrap_or(i64::MAX);
        self.journal.open_reader()?.list_tasks(
            self.clock.now_ms().saturating_sub(within_ms),
            limit,
            of,
        )
    }
}
