//! The record of a reply in the journal, and the end of a request without a reply.

use std::time::Duration;

use super::call_runner::CallRunner;
use super::running_call::RunningCall;
use crate::journal::{AcceptedRequest, CloseReason, JournalError, RecordedReply};
use crate::runner::backoff::RetryIntervals;
use crate::runner::call_audit::AuditFacts;
use crate::runner::finished_call::{ANSWERED_TARGET, FinishedCall};
use punie_core::approval_answer::ApprovalDenial;
use punie_core::failpoint::reach_of;
use punie_tool::ObservedCall;
use punie_tool::request::{CallOutcome, CleanReply};

impl CallRunner {
    /// Records a reply, retrying while the journal cannot be written. Returns `None` if the journal already has a
    /// reply, or at the end of the process; then recovery answers.
    pub(super) async fn record_reply(
        &self,
        call: &AcceptedRequest,
        outcome: CallOutcome,
        attempt: Option<u32>,
        duration: Duration,
        observed: Option<&dyn ObservedCall>,
    ) -> Option<RecordedReply> {
        let request = call.tool_request();
        let facts = AuditFacts::from(&outcome);
        let sealer = &self.handles.sealer;
        let audit = &self.handles.audit;
        let reply = sealer.seal(request, outcome, attempt, duration).await;
        audit
            .record_answered(call, &reply, facts, attempt, duration)
            .await;
        let now_ms = self.handles.clock.now_ms();
        // Beside the journal's write, so that it delays no answer.
        let stored = sealer.store_record(call, reply.payload_json(), now_ms);
        let recorded = self.record_in_journal(call, &reply, duration, observed);
        tokio::join!(stored, recorded).1
    }

    /// Records a sealed reply as [`CallRunner::record_reply`].
    async fn record_in_journal(
        &self,
        call: &AcceptedRequest,
        sealed: &CleanReply,
        duration: Duration,
        observed: Option<&dyn ObservedCall>,
    ) -> Option<RecordedReply> {
        let handles = &self.handles;
        let request = call.tool_request();
        let kind = sealed.outcome_kind().as_str();
        reach_of("finish.before", request.id.as_str());
        let mut retry = RetryIntervals::new(handles.settings.waits.retry);
        let mut reserved = true;
        loop {
            let reply = sealed.clone();
            let now_ms = handles.clock.now_ms();
            match handles.journal.record_reply(call, reply, now_ms).await {
                Ok(recorded) => {
                    reach_of("finish.after", request.id.as_str());
                    RunningCall::notify_ended(observed, sealed);
                    let duration_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
                    let code = sealed.failure_code();
                    let end = sealed.call_end();
                    let rule = end.rule.as_deref();
                    let denial = end.denial.map(ApprovalDenial::as_str);
                    tracing::info!(target: ANSWERED_TARGET, { request.id = %request.id, tool.name = %request.tool, outcome = kind, code, rule, denial, duration_ms }, "a call was answered");
                    self.announce_finished(call, sealed);
                    return Some(recorded);
                }
                Err(error @ JournalError::Moved { .. }) => {
                    tracing::error!(request.id = %request.id, %error, "a second reply is not recorded");
                    handles.outbox.signal_work();
                    return None;
                }
                // The disk reserve was freed for this reply: retry at once, before others fill it.
                Err(JournalError::Full) if std::mem::take(&mut reserved) => continue,
                Err(error) => {
                    tracing::error!(request.id = %request.id, %error, "a reply cannot be recorded now");
                }
            }
            tokio::select! {
                () = tokio::time::sleep(retry.next(None)) => {}
                () = handles.phases.over.cancelled() => return None,
            }
        }
    }

    /// Tells the listener of a finished call.
    fn announce_finished(&self, call: &AcceptedRequest, reply: &CleanReply) {
        let Some(listener) = &self.finished_calls else {
            return;
        };
        let request = call.tool_request();
        let titles = self.handles.titles.as_ref();
        listener(&FinishedCall {
            at_ms: self.handles.clock.now_ms(),
            tool: request.tool.to_string(),
            title: titles
                .map(|titles| titles.title_of_call(request.tool.as_str(), &request.args))
                .unwrap_or_default(),
            kind: reply.outcome_kind(),
            code: reply.failure_code().map(str::to_owned),
            end: reply.call_end().clone(),
        });
    }

    /// Closes a request; if that fails, the reply is posted again after a restart, which does no harm.
    pub(super) async fn close_request(&self, call: &AcceptedRequest, close: CloseReason) {
        let id = &call.tool_request().id;
        let handles = &self.handles;
        let closing_ms = handles.server_clock.closing_ms();
        match handles.journal.close_request(id, close, closing_ms).await {
            Ok(()) | Err(JournalError::Moved { .. }) => {}
            Err(error) => {
                tracing::error!(request.id = %id, %error, "a request could not be closed");
            }
        }
    }
}
