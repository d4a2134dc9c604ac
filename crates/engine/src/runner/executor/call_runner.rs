//! One call from its lane to its recorded reply: prepare, claim, start, run, seal, record, post.

use std::sync::Arc;
use std::time::Duration;

use super::approvals::ApprovalService;
use super::claims::{ClaimOutcome, ClaimService};
use super::outcome::panic_error;
use super::running_call::{CallResult, RunningCall};
use crate::journal::{AcceptedRequest, CloseReason, RecordedReply, RequestOrigin};
use crate::runner::delivery::Delivery;
use crate::runner::finished_call::FinishedCallListener;
use crate::runner::handles::Handles;
use crate::runner::keep_awake::RunningCalls;
use crate::runner::parts::BackgroundCommands;
use crate::runner::presence::Presence;
use crate::runner::tool_threads::ToolThreads;
use punie_tool::request::{CallOutcome, ToolEffect};
use punie_tool::{CallGate, CallObserver};

/// Runs calls, each from its lane to its recorded reply.
pub(in crate::runner) struct CallRunner {
    pub handles: Arc<Handles>,
    pub gate: Arc<dyn CallGate>,
    pub observer: Arc<dyn CallObserver>,
    pub threads: ToolThreads,
    pub claims: Arc<ClaimService>,
    pub approvals: Arc<ApprovalService>,
    pub presence: Arc<Presence>,
    pub delivery: Arc<Delivery>,
    pub finished_calls: Option<FinishedCallListener>,
    pub background_commands: Arc<dyn BackgroundCommands>,
    pub running: RunningCalls,
}

impl CallRunner {
    /// Answers a call: records exactly one reply, or closes the request, or leaves it with a reason.
    pub async fn answer_one(self: &Arc<Self>, mut call: RunningCall) {
        call.observed = self.show_to_observer(&call.accepted);
        let (claimed, result) = self.claim_and_run(&call).await;
        call.over.cancel();
        let id = &call.accepted.tool_request().id;
        let lease_lost = self.claims.held.release(id);
        let (outcome, attempt) = match (claimed, result) {
            (ClaimOutcome::NotGranted(reason), _) => {
                tracing::info!(request.id = %id, reason, "the request is not ours to answer");
                self.handles.audit.record_undeliverable(id, None, &reason);
                return self
                    .close_request(&call.accepted, CloseReason::Undeliverable(reason))
                    .await;
            }
            (ClaimOutcome::Answered, _) => {
                tracing::info!(request.id = %id, "the request has a result already");
                // The backend itself answers a request that is cancelled or late.
                if self.early_outcome(&call).is_none() {
                    self.handles.pause.report_unknown_answer();
                }
                return self
                    .close_request(&call.accepted, CloseReason::Delivered)
                    .await;
            }
            (_, CallResult::LeftInJournal) => return,
            (_, CallResult::Outcome(outcome, attempt)) => (*outcome, attempt),
        };
        let outcome = self.add_circumstances(outcome, &call, lease_lost);
        let recorded = self
            .record_reply(
                &call.accepted,
                outcome,
                attempt,
                call.run_time(),
                call.observed.as_deref(),
            )
            .await;
        if let Some(recorded) = recorded {
            self.post_reply(&call.accepted, recorded).await;
        }
    }

    /// Adds to an outcome the circumstances that the caller should know.
    fn add_circumstances(
        &self,
        mut outcome: CallOutcome,
        call: &RunningCall,
        lease_lost: bool,
    ) -> CallOutcome {
        let meta = match &mut outcome {
            CallOutcome::Ok(reply) => &mut reply.meta,
            CallOutcome::Error(failure) | CallOutcome::Cancelled(failure) => &mut failure.meta,
        };
        meta.lease_lost = lease_lost;
        let in_editor = call
            .observed
            .as_ref()
            .is_some_and(|observed| observed.ran_in_editor());
        if call.accepted.tool_effect() == ToolEffect::Executes && !in_editor {
            meta.confinement
                .get_or_insert_with(|| self.handles.audit.confinement.describe_confinement());
        }
        outcome
    }

    /// Answers a call whose task panicked; the effects that it already had stay.
    pub async fn answer_panicked(self: &Arc<Self>, call: &AcceptedRequest) {
        tracing::error!(request.id = %call.tool_request().id, "answering a call failed inside the runner");
        self.claims.held.release(&call.tool_request().id);
        let outcome = CallOutcome::Error(panic_error().into());
        if let Some(recorded) = self
            .record_reply(call, outcome, None, Duration::ZERO, None)
            .await
        {
            self.post_reply(call, recorded).await;
        }
    }

    /// Posts the reply of a backend request; a task's reply stays here to be read.
    async fn post_reply(self: &Arc<Self>, call: &AcceptedRequest, recorded: RecordedReply) {
        if call.origin() == RequestOrigin::Backend {
            self.delivery.deliver_reply(recorded).await;
        }
    }

    async fn claim_and_run(self: &Arc<Self>, call: &RunningCall) -> (ClaimOutcome, CallResult) {
        let prepared = match self.prepare(call).await {
            Ok(prepared) => prepared,
            Err(CallResult::LeftInJournal) => {
                return (ClaimOutcome::Abandoned, CallResult::LeftInJournal);
            }
            Err(refused) => {
                call.over.cancel();
                return (
                    self.claims.claim_once(&call.accepted, &call.cancel).await,
                    refused,
                );
            }
        };
        if !call.accepted.tool_effect().runs_at_most_once() {
            return tokio::join!(
                self.claims.claim_once(&call.accepted, &call.cancel),
                self.run_prepared(call, prepared)
            );
        }
        // The effect begins when both are there.
        let (claimed, ()) = tokio::join!(
            self.claims.claim_with_retry(&call.accepted, &call.cancel),
            prepared
                .ready
                .take_snapshot(&call.accepted.tool_request().id)
        );
        match claimed {
            ClaimOutcome::Abandoned if !call.cancel.is_cancelled() => {
                (claimed, CallResult::LeftInJournal)
            }
            ClaimOutcome::Granted | ClaimOutcome::Abandoned => {
                // The claim may have taken long, and its answer may have reported that the caller cancelled the call.
                let work = match self.early_outcome(call) {
                    None => self.run_prepared(call, prepared).await,
                    Some(outcome) => CallResult::from_outcome(outcome),
                };
                (claimed, work)
            }
            ClaimOutcome::InDoubt => (
                claimed,
                CallResult::from_outcome(self.handles.sealer.interrupted(&call.accepted)),
            ),
            other => (other, CallResult::LeftInJournal),
        }
    }
}
