//! The record that a call begins, written before it begins.

use super::call_runner::CallRunner;
use super::running_call::{CallResult, RunningCall};
use crate::journal::{AcceptedRequest, JournalError, RequestState};
use crate::runner::backoff::RetryIntervals;

impl CallRunner {
    /// Records the start of a call, retrying for as long as the call is wanted. Its lane waits meanwhile, because a
    /// full disk needs that.
    pub async fn record_start_with_retry(
        &self,
        call: &RunningCall,
        declares: bool,
    ) -> Result<u32, CallResult> {
        let handles = &self.handles;
        let mut retry = RetryIntervals::new(handles.settings.waits.retry);
        loop {
            let id = &call.accepted.tool_request().id;
            let now_ms = handles.clock.now_ms();
            let started = handles
                .journal
                .record_start(&call.accepted, declares, now_ms);
            match started.await {
                Ok(started) => return Ok(started.attempt),
                Err(JournalError::TakenBack { .. }) => {
                    return Err(CallResult::from_outcome(call.never_started_outcome()));
                }
                Err(error @ JournalError::Moved { .. }) => {
                    tracing::error!(request.id = %id, %error, "the call is not begun a second time");
                    return Err(self.resolve_started_before(&call.accepted).await);
                }
                Err(error) => {
                    tracing::error!(request.id = %id, %error, "the call cannot be begun now");
                }
            }
            tokio::select! {
                () = tokio::time::sleep(retry.next(None)) => {}
                () = handles.phases.stopping.cancelled() => return Err(CallResult::LeftInJournal),
            }
            if let Some(outcome) = self.early_outcome(call) {
                return Err(CallResult::from_outcome(outcome));
            }
        }
    }

    /// Answers a call whose start the journal already has, for example because a failed write succeeded after all. No
    /// task of this process runs it, so it would otherwise wait for the next process.
    async fn resolve_started_before(&self, call: &AcceptedRequest) -> CallResult {
        let id = call.tool_request().id.clone();
        let journal = &self.handles.journal;
        let record = journal.read_blocking(move |reader| reader.request_record(&id));
        let state = record.await.map(|record| record.map(|record| record.state));
        match state {
            Ok(Some(RequestState::Started)) => {
                CallResult::from_outcome(self.handles.sealer.interrupted(call))
            }
            Ok(_) => {
                self.handles.outbox.signal_work();
                CallResult::LeftInJournal
            }
            Err(error) => {
                tracing::error!(request.id = %call.tool_request().id, %error, "the call is left for the next start");
                CallResult::LeftInJournal
            }
        }
    }
}
