//! The checks that can refuse a call before it has an effect, and its wait for approval.

use super::approvals::ApprovalFailure;
use super::call_runner::CallRunner;
use super::outcome::{preparation_timeout, refused_outcome};
use super::running_call::{CallResult, PreparedCall, RunningCall};
use crate::journal::{AcceptedRequest, RequestOrigin};
use crate::runner::call_audit::Clearance;
use punie_tool::request::{CallFailure, CallOutcome, ErrorCode};
use punie_tool::{ApprovalSubject, GateDecision, ReadyCall, ToolError};

impl CallRunner {
    /// Returns the outcome of a call that was cancelled, is late, or was stopped by a person before it began.
    pub fn early_outcome(&self, call: &RunningCall) -> Option<CallOutcome> {
        if call.cancel.is_cancelled() {
            return Some(call.never_started_outcome());
        }
        self.refuse_if_late(&call.accepted)
            .or_else(|| self.approvals.stopped.refuse_if_stopped(&call.accepted))
            .map(CallOutcome::Error)
    }

    /// Makes all checks that can refuse a call before it has an effect.
    pub(super) async fn prepare(&self, call: &RunningCall) -> Result<PreparedCall, CallResult> {
        self.presence.learn_server_time().await;
        if let Some(outcome) = self.early_outcome(call) {
            return Err(CallResult::from_outcome(outcome));
        }
        // The paths that the gate checks may hang, as they may for the tool.
        let limit = self
            .tool_context(call)
            .time_until_deadline(self.handles.settings.calls.current().longest_call);
        let stopped = |outcome| Err(CallResult::from_outcome(outcome));
        let decoded = tokio::select! {
            decoded = self.decode_and_permit(call) => decoded,
            () = call.cancel.cancelled() => return stopped(call.never_started_outcome()),
            () = self.wait_for_time_limit(call, limit) => {
                let late = self.early_outcome(call);
                return stopped(late.unwrap_or_else(|| preparation_timeout(limit)));
            }
            () = self.handles.phases.calls_over.cancelled() => return Err(CallResult::LeftInJournal),
        };
        let (ready, permission) =
            decoded.map_err(|error| CallResult::from_outcome(refused_outcome(error)))?;
        let asked = match permission {
            GateDecision::Allowed => None,
            GateDecision::NeedsApproval(asked) => Some(asked),
        };
        let does_observer_ask = call
            .observed
            .as_ref()
            .is_some_and(|observed| observed.wants_approval());
        let cleared = if asked.is_some() || does_observer_ask {
            self.obtain_approval(call, asked.as_ref()).await?
        } else {
            Clearance::without_approval()
        };
        Ok(PreparedCall {
            ready,
            cleared,
            asked,
        })
    }

    /// Waits for the approval of a call, and checks again whether it may begin.
    async fn obtain_approval(
        &self,
        call: &RunningCall,
        asked: Option<&ApprovalSubject>,
    ) -> Result<Clearance, CallResult> {
        let cleared = self.approvals.wait_for_approval(call, asked).await;
        let cleared = cleared.map_err(|stopped| match stopped {
            ApprovalFailure::Refused(failure) => {
                CallResult::from_outcome(CallOutcome::Error(*failure))
            }
            ApprovalFailure::Cancelled => CallResult::from_outcome(call.never_started_outcome()),
            ApprovalFailure::Stopping => CallResult::LeftInJournal,
        })?;
        // The answer may have taken long, and the owner may have paused calls meanwhile.
        tokio::select! {
            () = self.handles.pause.wait_until_released() => {}
            () = call.cancel.cancelled() => {}
            () = self.handles.phases.stopping.cancelled() => return Err(CallResult::LeftInJournal),
        }
        match self.early_outcome(call) {
            Some(outcome) => Err(CallResult::from_outcome(outcome)),
            None => Ok(cleared),
        }
    }

    /// Decodes the call for its tool, and asks the gate for permission.
    async fn decode_and_permit(
        &self,
        call: &RunningCall,
    ) -> Result<(ReadyCall, GateDecision), ToolError> {
        let request = call.accepted.tool_request();
        let entry = self.handles.registry.find(request.tool.as_str())?;
        let ready = entry.decode_call(&request.args)?;
        if ready.actual_effect().runs_at_most_once()
            && !call.accepted.tool_effect().runs_at_most_once()
        {
            // Another version of the runner accepted the call as a read, so nothing would prevent that it runs twice.
            return Err(ToolError::internal(
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
        Ok((ready.narrowed_to(request.session.as_ref()), permission))
    }

    fn refuse_if_late(&self, call: &AcceptedRequest) -> Option<CallFailure> {
        if call.origin() == RequestOrigin::Task {
            return None;
        }
        let request = call.tool_request();
        let handles = &self.handles;
        let earliest = handles.signatures.earliest_now_ms();
        let now = handles.server_clock.now_ms().max(earliest);
        let age = now - request.created_at_ms;
        let ttl = handles.settings.calls.current().ttl.as_secs_f64() * 1_000.0;
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
        Some(CallFailure::new(ErrorCode::Expired, text))
    }
}

fn format_whole_seconds(ms: f64) -> String {
    format!("{:.0} s", ms / 1_000.0)
}
