//! One call from its lane to its recorded reply: prepare, claim, start, run, seal, record, post.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::approvals::{ApprovalFailure, ApprovalService};
use super::claims::{ClaimOutcome, ClaimService};
use super::intent_log::IntentLog;
use super::outcome::{
    StopReason, call_outcome, cancelled_before_start, panic_error, preparation_timeout,
    refused_outcome,
};
use super::progress_report::ProgressReports;
use crate::failpoint::reach_of;
use crate::journal::{AcceptedRequest, CloseReason, Journal, RecordedReply, RequestOrigin};
use crate::request::{CallFailure, CallOutcome, ErrorCode, ResultMeta, ToolEffect};
use crate::runner::background::BackgroundTasks;
use crate::runner::call_audit::{CallAudit, Clearance};
use crate::runner::call_pause::CallPause;
use crate::runner::clock::ServerClock;
use crate::runner::delivery::Delivery;
use crate::runner::presence::Presence;
use crate::runner::request_signatures::RequestSignatures;
use crate::runner::runner_settings::RunnerSettings;
use crate::runner::sealer::OutcomeSealer;
use crate::runner::tool_threads::ToolThreads;
use crate::runner::wake_signal::MachineWakeSignal;
use crate::tool::{
    ApprovalSubject, CallGate, CallObserver, CallProgress, GateDecision, ObservedCall, ReadyCall,
    ToolContext, ToolError, ToolRegistry, UnrecordedIntents,
};

/// The time in which a call that was told to stop may do so, before it is abandoned. Killing a stubborn process tree
/// takes ten seconds.
const STOP_TIMEOUT: Duration = Duration::from_secs(15);

/// Runs calls, each from its lane to its recorded reply.
pub(in crate::runner) struct CallRunner {
    pub journal: Journal,
    pub audit: CallAudit,
    pub registry: Arc<ToolRegistry>,
    pub gate: Arc<dyn CallGate>,
    pub observer: Arc<dyn CallObserver>,
    pub sealer: OutcomeSealer,
    pub threads: ToolThreads,
    pub settings: RunnerSettings,
    pub server_clock: ServerClock,
    pub signatures: Arc<RequestSignatures>,
    pub claims: Arc<ClaimService>,
    pub approvals: ApprovalService,
    pub progress: Arc<ProgressReports>,
    pub pause: Arc<CallPause>,
    pub presence: Arc<Presence>,
    pub delivery: Arc<Delivery>,
    pub machine_wakes: MachineWakeSignal,
    pub background: BackgroundTasks,
}

/// A call on its way to its reply.
pub(in crate::runner) struct RunningCall {
    pub accepted: AcceptedRequest,
    /// Cancelled when the caller cancels the request.
    pub cancel: CancellationToken,
    /// The call's observer, set when work on the call begins.
    pub observed: Option<Arc<dyn ObservedCall>>,
}

/// A call that may begin.
struct PreparedCall {
    ready: ReadyCall,
    /// The reason why the call is allowed, for the audit.
    cleared: Clearance,
    /// The subject that a person was asked about; the call must still match it when it begins.
    asked: Option<ApprovalSubject>,
}

/// The result of working on a call.
pub(in crate::runner) enum CallResult {
    /// An outcome, of this execution (`None` if nothing was started).
    Outcome(Box<CallOutcome>, Option<u32>),
    /// No outcome: the call stays in the journal for the next process.
    LeftInJournal,
}

impl CallResult {
    pub(in crate::runner) fn from_outcome(outcome: CallOutcome) -> Self {
        Self::Outcome(Box::new(outcome), None)
    }
}

impl CallRunner {
    /// Answers a call: records exactly one reply, or closes the request, or leaves it with a reason.
    pub(in crate::runner) async fn answer_one_call(self: &Arc<Self>, mut call: RunningCall) {
        let begun = Instant::now();
        call.observed = self.show_to_observer(&call.accepted);
        let (claimed, result) = self.claim_and_run(&call).await;
        let id = &call.accepted.tool_request().id;
        let lease_lost = self.claims.held.release_claim(id);
        let (outcome, attempt) = match (claimed, result) {
            (ClaimOutcome::NotGranted(reason), _) => {
                tracing::info!(request.id = %id, reason, "the request is not ours to answer");
                self.audit.record_undeliverable(id, None, &reason);
                return self
                    .close_request(&call.accepted, CloseReason::Undeliverable(reason))
                    .await;
            }
            (ClaimOutcome::Answered, _) => {
                tracing::info!(request.id = %id, "the request has a result already");
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
                begun.elapsed(),
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
                .get_or_insert_with(|| self.audit.confinement.describe_confinement());
        }
        outcome
    }

    /// Answers a call whose task panicked; the effects that it already had stay.
    pub(in crate::runner) async fn answer_panicked_call(self: &Arc<Self>, call: &AcceptedRequest) {
        tracing::error!(request.id = %call.tool_request().id, "answering a call failed inside the runner");
        self.claims.held.release_claim(&call.tool_request().id);
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
        if call.request_origin() == RequestOrigin::Backend {
            self.delivery.deliver_reply(recorded).await;
        }
    }

    async fn claim_and_run(self: &Arc<Self>, call: &RunningCall) -> (ClaimOutcome, CallResult) {
        let PreparedCall {
            ready,
            cleared,
            asked,
        } = match self.prepare_call(call).await {
            Ok(prepared) => prepared,
            Err(CallResult::LeftInJournal) => {
                return (ClaimOutcome::Abandoned, CallResult::LeftInJournal);
            }
            Err(refused) => {
                return (
                    self.claims.claim_once(&call.accepted, &call.cancel).await,
                    refused,
                );
            }
        };
        if !call.accepted.tool_effect().runs_at_most_once() {
            return tokio::join!(
                self.claims.claim_once(&call.accepted, &call.cancel),
                self.run_prepared(call, ready, &cleared, asked)
            );
        }
        let claimed = self
            .claims
            .claim_with_retry(&call.accepted, &call.cancel)
            .await;
        match claimed {
            ClaimOutcome::Abandoned if !call.cancel.is_cancelled() => {
                (claimed, CallResult::LeftInJournal)
            }
            ClaimOutcome::Granted | ClaimOutcome::Abandoned => {
                // The claim may have taken long, and its answer may have reported that the caller cancelled the call.
                let work = match self.early_outcome(call) {
                    None => self.run_prepared(call, ready, &cleared, asked).await,
                    Some(outcome) => CallResult::from_outcome(outcome),
                };
                (claimed, work)
            }
            ClaimOutcome::InDoubt => (
                claimed,
                CallResult::from_outcome(self.sealer.interrupted_outcome(&call.accepted)),
            ),
            other => (other, CallResult::LeftInJournal),
        }
    }

    /// Returns the outcome of a call that was cancelled, is late, or was stopped by a person before it began.
    pub(in crate::runner) fn early_outcome(&self, call: &RunningCall) -> Option<CallOutcome> {
        if call.cancel.is_cancelled() {
            return Some(cancelled_before_start());
        }
        self.refuse_if_late(&call.accepted)
            .or_else(|| self.approvals.stopped.refuse_if_stopped(&call.accepted))
            .map(CallOutcome::Error)
    }

    /// Makes all checks that can refuse a call before it has an effect.
    async fn prepare_call(
        self: &Arc<Self>,
        call: &RunningCall,
    ) -> Result<PreparedCall, CallResult> {
        self.presence.learn_server_time().await;
        if let Some(outcome) = self.early_outcome(call) {
            return Err(CallResult::from_outcome(outcome));
        }
        // The paths that the gate checks may hang, as they may for the tool.
        let limit = self
            .tool_context(call)
            .time_until_deadline(self.settings.calls.longest_call);
        let decoded = tokio::select! {
            decoded = self.decode_and_permit(call) => decoded,
            () = call.cancel.cancelled() => return Err(CallResult::from_outcome(cancelled_before_start())),
            () = self.wait_for_time_limit(call, limit) => return Err(CallResult::from_outcome(preparation_timeout(limit))),
            () = self.background.phases.calls_over.cancelled() => return Err(CallResult::LeftInJournal),
        };
        let (ready, permission) =
            decoded.map_err(|error| CallResult::from_outcome(refused_outcome(error)))?;
        let mut cleared = Clearance::without_approval();
        let wants_a_say = call
            .observed
            .as_ref()
            .is_some_and(|observed| observed.wants_approval());
        let asked = match permission {
            GateDecision::Allowed => None,
            GateDecision::NeedsApproval(asked) => Some(asked),
        };
        if asked.is_some() || wants_a_say {
            cleared = self
                .approvals
                .wait_for_approval(call, asked.as_ref())
                .await
                .map_err(|stopped| match stopped {
                    ApprovalFailure::Refused(failure) => {
                        CallResult::from_outcome(CallOutcome::Error(*failure))
                    }
                    ApprovalFailure::Cancelled => {
                        CallResult::from_outcome(cancelled_before_start())
                    }
                    ApprovalFailure::Stopping => CallResult::LeftInJournal,
                })?;
            // The answer may have taken long, and the owner may have paused calls meanwhile.
            tokio::select! {
                () = self.pause.wait_until_released() => {}
                () = call.cancel.cancelled() => {}
                () = self.background.phases.stopping.cancelled() => return Err(CallResult::LeftInJournal),
            }
            if let Some(outcome) = self.early_outcome(call) {
                return Err(CallResult::from_outcome(outcome));
            }
        }
        Ok(PreparedCall {
            ready,
            cleared,
            asked,
        })
    }

    /// Decodes the call for its tool, and asks the gate for permission.
    async fn decode_and_permit(
        &self,
        call: &RunningCall,
    ) -> Result<(ReadyCall, GateDecision), ToolError> {
        let request = call.accepted.tool_request();
        let entry = self.registry.find_tool(request.tool.as_str())?;
        let ready = entry.decode_call(&request.args)?;
        if ready.actual_effect().runs_at_most_once()
            && !call.accepted.tool_effect().runs_at_most_once()
        {
            // Another version of the runner accepted the call as a read, so nothing would prevent that it runs twice.
            return Err(ToolError::internal_error(
                "The call was taken for one that changes nothing and would change something. It was not run; ask anew.",
            ));
        }
        let permission = self
            .gate
            .permit_call(
                &self.tool_context(call),
                entry.tool_spec(),
                ready.as_gate_input(&request.args),
            )
            .await?;
        Ok((ready, permission))
    }

    fn refuse_if_late(&self, call: &AcceptedRequest) -> Option<CallFailure> {
        if call.request_origin() == RequestOrigin::Task {
            return None;
        }
        let request = call.tool_request();
        let now = self
            .server_clock
            .now_ms()
            .max(self.signatures.earliest_now_ms());
        let age = now - request.created_at_ms;
        let ttl = self.settings.calls.ttl.as_secs_f64() * 1_000.0;
        let why = match request.deadline_ms {
            Some(deadline) if deadline <= now => {
                format!(
                    "its deadline passed {} ago",
                    format_whole_seconds(now - deadline)
                )
            }
            None if request.created_at_ms > 0.0 && age > ttl => {
                format!(
                    "it is {} old and this device runs nothing older than {}",
                    format_whole_seconds(age),
                    format_whole_seconds(ttl)
                )
            }
            _ => return None,
        };
        let text = format!("The request was not run: {why}. Ask again if it is still wanted.");
        Some(CallFailure {
            code: ErrorCode::Expired,
            text,
            meta: ResultMeta::default(),
        })
    }

    pub(in crate::runner) fn tool_context(&self, call: &RunningCall) -> ToolContext {
        let request = call.accepted.tool_request();
        ToolContext {
            request: request.id.clone(),
            conversation: request.conversation.clone(),
            agent_type: request.agent_type.clone(),
            cancel: call.cancel.child_token(),
            shutdown: self.background.phases.ending.clone(),
            deadline: request
                .deadline_ms
                .and_then(|deadline| self.server_clock.instant_of_deadline(deadline)),
            intents: Arc::new(UnrecordedIntents),
            before_images: None,
            progress: CallProgress::default(),
            secret_boundaries: crate::request::redactor_boundaries(&self.sealer.redactor),
        }
    }

    /// Runs a prepared call after its start is recorded, under its deadline and a panic guard.
    async fn run_prepared(
        self: &Arc<Self>,
        call: &RunningCall,
        ready: ReadyCall,
        cleared: &Clearance,
        asked: Option<ApprovalSubject>,
    ) -> CallResult {
        let declares = ready.declares_intents();
        let attempt = match self.record_start_with_retry(call, declares).await {
            Ok(attempt) => attempt,
            Err(not_started) => return not_started,
        };
        if let Some(changed) = self.refuse_if_changed(call, asked).await {
            return CallResult::Outcome(Box::new(changed), Some(attempt));
        }
        self.audit
            .record_begun(&call.accepted, cleared, attempt)
            .await;
        reach_of("start.after", call.accepted.tool_request().id.as_str());
        let mut cx = self.tool_context(call);
        // Ends with this call, so that no progress is reported after its result.
        let (progress, _telling) = self.progress.begin_reporting(&call.accepted);
        let (progress, following) = self.stream_to_observer(call, progress);
        cx.progress = progress;
        if let Some(observed) = &call.observed {
            observed.on_started();
        }
        if declares {
            cx.intents = Arc::new(IntentLog(self.journal.clone()));
        }
        let stop = cx.cancel.clone();
        let limit = cx.time_until_deadline(self.settings.calls.longest_call);
        let mut running = self
            .threads
            .spawn_tool(self.background.task_tracker(), ready.run_call(cx));
        let ended = tokio::select! {
            joined = running.wait_for_result() => Ok(joined),
            () = call.cancel.cancelled() => Err(StopReason::Cancelled),
            () = call.stopped_by_follower() => Err(StopReason::Followed),
            () = self.wait_for_time_limit(call, limit) => Err(StopReason::Deadline(limit)),
            () = self.background.phases.ending.cancelled() => Err(StopReason::Stopped),
        };
        let (cut, joined) = match ended {
            Ok(joined) => (None, Some(joined)),
            Err(cut) => {
                stop.cancel();
                tokio::select! {
                    last = tokio::time::timeout(STOP_TIMEOUT, running.wait_for_result()) => (Some(cut), last.ok()),
                    () = self.background.phases.calls_over.cancelled() => (Some(cut), None),
                }
            }
        };
        running.abandon_tool();
        if self.background.phases.calls_over.is_cancelled() {
            // A tool's result during the shutdown is not reliable: its terminal may be gone.
            return CallResult::LeftInJournal;
        }
        if let Some(following) = following {
            following.finish_output().await;
        }
        let answer =
            joined.map(|joined| joined.ok().flatten().unwrap_or_else(|| Err(panic_error())));
        let unanswered = !matches!(answer, Some(Ok(_)));
        if cut == Some(StopReason::Stopped)
            && unanswered
            && !call.accepted.tool_effect().runs_at_most_once()
        {
            // A read that the shutdown cut off is run again by the next process.
            return CallResult::LeftInJournal;
        }
        CallResult::Outcome(Box::new(call_outcome(cut, answer)), Some(attempt))
    }

    /// Returns the refusal of a call that no longer matches the person's approval.
    async fn refuse_if_changed(
        &self,
        call: &RunningCall,
        asked: Option<ApprovalSubject>,
    ) -> Option<CallOutcome> {
        let (asked, request) = (asked?, call.accepted.tool_request());
        let entry = self.registry.find_tool(request.tool.as_str()).ok()?;
        let access = match entry.decode_call(&request.args) {
            Ok(ready) => ready.declared_access().clone(),
            Err(error) => return Some(refused_outcome(error)),
        };
        self.gate
            .recheck_approved(entry.tool_spec(), &access, &asked)
            .await
            .err()
            .map(refused_outcome)
    }
}

fn format_whole_seconds(ms: f64) -> String {
    format!("{:.0} s", ms / 1_000.0)
}
