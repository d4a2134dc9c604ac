//! The run of a prepared call: its start is recorded, and its tool runs to its end or until it is stopped. Not here: the
//! checks before (`call_preparation`), and the record of the reply (`reply_record`).

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::call_runner::CallRunner;
use super::intent_log::IntentLog;
use super::outcome::{StopReason, call_outcome, panic_error, refused_outcome};
use super::running_call::{CallResult, PreparedCall, RunningCall};
use punie_core::failpoint::reach_of;
use punie_text::output::SecretBoundaries;
use punie_tool::request::{CallOutcome, ToolReply};
use punie_tool::{
    ApprovalSubject, CallFollower, CallProgress, ReadyCall, ToolContext, ToolEffect, ToolError,
    UnrecordedIntents,
};

/// The time in which a call that was told to stop may do so, before it is abandoned. Killing a stubborn process tree
/// takes ten seconds, and a busy disk was seen to hold its end for half a minute.
const STOP_TIMEOUT: Duration = Duration::from_secs(45);

impl CallRunner {
    pub fn tool_context(&self, call: &RunningCall) -> ToolContext {
        let request = call.accepted.tool_request();
        ToolContext {
            request: request.id.clone(),
            conversation: request.conversation.clone(),
            agent_type: request.agent_type.clone(),
            caller: request.caller.clone(),
            session: request.session.clone(),
            cancel: call.cancel.child_token(),
            shutdown: self.handles.phases.ending.clone(),
            owner_stop: call.owner_stop.clone(),
            deadline: request
                .deadline_ms
                .and_then(|deadline| self.handles.server_clock.instant_of_deadline(deadline)),
            intents: Arc::new(UnrecordedIntents),
            before_images: None,
            progress: CallProgress::default(),
            secret_boundaries: SecretBoundaries::new(&self.handles.sealer.redactor),
            follower: CallFollower::of_observed(call.observed.clone()),
        }
    }

    /// Runs a prepared call after its start is recorded, under its deadline and a panic guard.
    pub(super) async fn run_prepared(
        self: &Arc<Self>,
        call: &RunningCall,
        prepared: PreparedCall,
    ) -> CallResult {
        let _over = call.over.clone().drop_guard();
        let ready = prepared.ready;
        let attempt = match self
            .record_start_with_retry(call, ready.declares_intents())
            .await
        {
            Ok(attempt) => {
                let _ = call.started.set(Instant::now());
                attempt
            }
            Err(not_started) => return not_started,
        };
        if let Some(changed) = self.refuse_if_changed(call, prepared.asked).await {
            return CallResult::Outcome(Box::new(changed), Some(attempt));
        }
        self.handles
            .audit
            .record_begun(&call.accepted, &prepared.cleared, attempt)
            .await;
        reach_of("start.after", call.accepted.tool_request().id.as_str());
        match self.run_tool(call, ready).await {
            Some(outcome) => CallResult::Outcome(Box::new(outcome), Some(attempt)),
            None => CallResult::LeftInJournal,
        }
    }

    /// Runs a call's tool to its end; `None` if the call is left for the next process.
    async fn run_tool(
        self: &Arc<Self>,
        call: &RunningCall,
        ready: ReadyCall,
    ) -> Option<CallOutcome> {
        let mut cx = self.tool_context(call);
        // Ends with this call, so that no progress is reported after its result.
        let (progress, _reporting) = self.claims.begin_reporting(&call.accepted);
        let (progress, follower) = self.stream_to_observer(call, progress);
        cx.progress = progress;
        if let Some(observed) = &call.observed {
            observed.on_started();
        }
        if ready.declares_intents() {
            cx.intents = Arc::new(IntentLog(self.handles.journal.clone()));
        }
        let (cut, answer) = self.run_until_stopped(call, cx, ready).await;
        if self.handles.phases.calls_over.is_cancelled() {
            // A tool's result during the shutdown is not reliable: its terminal may be gone.
            return None;
        }
        if let Some(follower) = follower {
            follower.finish().await;
        }
        let is_unanswered = !matches!(answer, Some(Ok(_)));
        if cut == Some(StopReason::Stopped)
            && is_unanswered
            && !call.accepted.tool_effect().runs_at_most_once()
        {
            // A read that the shutdown cut off is run again by the next process.
            return None;
        }
        Some(call_outcome(cut, answer))
    }

    /// Runs a call until it ends, or has had its time to stop. Returns the reason why it was stopped, and its result.
    async fn run_until_stopped(
        &self,
        call: &RunningCall,
        cx: ToolContext,
        ready: ReadyCall,
    ) -> (Option<StopReason>, Option<Result<ToolReply, ToolError>>) {
        let stop = cx.cancel.clone();
        let limit = cx.time_until_deadline(self.handles.settings.calls.current().longest_call);
        let is_question = call.accepted.tool_effect() == ToolEffect::AsksUser;
        // A person who is asked need not find the machine awake.
        let _counted = (!is_question).then(|| self.running.count_call());
        let mut running = self
            .threads
            .spawn(self.handles.background.tracker(), ready.run_call(cx));
        let ended = tokio::select! {
            joined = running.wait_for_result() => Ok(joined),
            () = call.cancel.cancelled() => Err(StopReason::Cancelled),
            () = call.wait_for_observer_stop() => Err(StopReason::Followed),
            () = self.wait_for_time_limit(call, limit) => Err(StopReason::Deadline(limit)),
            () = self.handles.phases.ending.cancelled() => Err(StopReason::Stopped),
            // Nobody may answer for minutes; the next process asks again.
            () = self.handles.phases.stopping.cancelled(), if is_question => Err(StopReason::Stopped),
        };
        let (cut, joined) = match ended {
            Ok(joined) => (None, Some(joined)),
            Err(cut) => {
                stop.cancel();
                tokio::select! {
                    last = tokio::time::timeout(STOP_TIMEOUT, running.wait_for_result()) => (Some(cut), last.ok()),
                    () = self.handles.phases.calls_over.cancelled() => (Some(cut), None),
                }
            }
        };
        running.abandon();
        // A tool may answer its own cancellation before the wait above notices it.
        let cut = match cut {
            None | Some(StopReason::Cancelled) if call.owner_stop.is_cancelled() => {
                Some(StopReason::Owner)
            }
            cut => cut,
        };
        let answer =
            joined.map(|joined| joined.ok().flatten().unwrap_or_else(|| Err(panic_error())));
        (cut, answer)
    }

    /// Returns the refusal of a call that no longer matches the person's approval.
    async fn refuse_if_changed(
        &self,
        call: &RunningCall,
        asked: Option<ApprovalSubject>,
    ) -> Option<CallOutcome> {
        let asked = asked?;
        let request = call.accepted.tool_request();
        let entry = self.handles.registry.find(request.tool.as_str()).ok()?;
        let access = match entry.decode_call(&request.args) {
            Ok(ready) => ready.declared_access().clone(),
            Err(error) => return Some(refused_outcome(error)),
        };
        self.gate
            .recheck_approved(&self.tool_context(call), entry.tool_spec(), &access, &asked)
            .await
            .err()
            .map(refused_outcome)
    }
}
