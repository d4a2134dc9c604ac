//! A call on its way to its reply, and the result of the work on it. Not here: the work (`call_runner`).

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::outcome::{cancelled_before_start, stopped_before_start};
use crate::journal::AcceptedRequest;
use crate::runner::call_audit::Clearance;
use punie_tool::request::CallOutcome;
use punie_tool::{ApprovalSubject, ObservedCall, ReadyCall};

/// A call on its way to its reply.
pub(in crate::runner) struct RunningCall {
    pub accepted: AcceptedRequest,
    /// Cancelled when the caller cancels the request, and when the owner stops the call.
    pub cancel: CancellationToken,
    /// Cancelled before that when the owner stops the call.
    pub owner_stop: CancellationToken,
    /// Cancelled when its tool has ended, or will not begin.
    pub over: CancellationToken,
    /// The time when its start was recorded, set then.
    pub started: OnceLock<Instant>,
    /// The call's observer, set when work on the call begins.
    pub observed: Option<Arc<dyn ObservedCall>>,
}

impl RunningCall {
    /// Returns the time for which it runs, without the waits before its start; zero if it has not started.
    pub fn run_time(&self) -> Duration {
        self.started.get().map(Instant::elapsed).unwrap_or_default()
    }

    /// Returns the outcome of a call that was cancelled before it started.
    pub fn never_started_outcome(&self) -> CallOutcome {
        if self.owner_stop.is_cancelled() {
            stopped_before_start()
        } else {
            cancelled_before_start()
        }
    }
}

/// A call that may begin.
pub(in crate::runner) struct PreparedCall {
    pub ready: ReadyCall,
    /// The reason why the call is allowed, for the audit.
    pub cleared: Clearance,
    /// The subject that a person was asked about; the call must still match it when it begins.
    pub asked: Option<ApprovalSubject>,
}

/// The result of working on a call.
pub(in crate::runner) enum CallResult {
    /// An outcome, of this execution (`None` if nothing was started).
    Outcome(Box<CallOutcome>, Option<u32>),
    /// No outcome: the call stays in the journal for the next process.
    LeftInJournal,
}

impl CallResult {
    pub fn from_outcome(outcome: CallOutcome) -> Self {
        Self::Outcome(Box::new(outcome), None)
    }
}
