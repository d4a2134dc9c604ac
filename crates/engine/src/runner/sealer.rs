//! The conversion of an outcome to the reply that is recorded. Not here: the sealing itself (request), and the record
//! (executor).

use std::time::Duration;

use super::call_record::build_call_record;
use super::tool_threads::run_on_blocking_thread;
use crate::journal::AcceptedRequest;
use punie_text::output::{CallRecordStore, OutputStore};
use punie_text::redact::Redactor;
use punie_tool::request::{
    CallFailure, CallOutcome, CleanReply, ErrorCode, ResultMeta, SealContext, ToolRequest,
};

/// The size up to which masking is fast; a larger outcome may also be stored in a file.
const MAX_INLINE_BYTES: usize = 16 * 1024;

/// The most characters of a killed call's output in its answer.
const PARTIAL_CHARS: usize = 8_000;

/// Masks, truncates and stores the content of outcomes. Cheap to clone.
#[derive(Clone)]
pub(super) struct OutcomeSealer {
    pub redactor: Redactor,
    pub outputs: OutputStore,
    pub records: Option<CallRecordStore>,
}

impl OutcomeSealer {
    /// Seals an outcome on this thread.
    pub(super) fn seal_blocking(
        &self,
        request: &ToolRequest,
        outcome: CallOutcome,
        attempt: Option<u32>,
        duration: Duration,
    ) -> CleanReply {
        outcome.seal(&SealContext {
            redactor: &self.redactor,
            store: &self.outputs,
            request: &request.id,
            tool: &request.tool,
            duration,
            attempt,
        })
    }

    /// Seals an outcome; a large one is sealed on another thread.
    pub(super) async fn seal(
        &self,
        request: &ToolRequest,
        outcome: CallOutcome,
        attempt: Option<u32>,
        duration: Duration,
    ) -> CleanReply {
        if outcome.estimated_bytes() <= MAX_INLINE_BYTES {
            return self.seal_blocking(request, outcome, attempt, duration);
        }
        let sealer = self.clone();
        let request = request.clone();
        run_on_blocking_thread(move || sealer.seal_blocking(&request, outcome, attempt, duration))
            .await
    }

    /// Stores the arguments and the answer of a call for the owner. A failure is logged: the call itself went well.
    pub(super) fn store_record_blocking(&self, request: &ToolRequest, payload: &str, now_ms: i64) {
        let Some(records) = &self.records else {
            return;
        };
        let record = build_call_record(request, payload, &self.redactor);
        if let Err(error) = records.append(&record, now_ms) {
            tracing::warn!(request.id = %request.id, %error, "the arguments and the output cannot be kept for `history`");
        }
    }

    /// Stores the same on another thread.
    pub(super) async fn store_record(&self, call: &AcceptedRequest, payload: &str, now_ms: i64) {
        if self.records.is_none() {
            return;
        }
        let sealer = self.clone();
        let call = call.clone();
        let payload = payload.to_owned();
        run_on_blocking_thread(move || {
            sealer.store_record_blocking(call.tool_request(), &payload, now_ms);
        })
        .await;
    }

    /// Returns the outcome of an effect that began and whose end is unknown: it is never run again.
    pub(super) fn interrupted(&self, call: &AcceptedRequest) -> CallOutcome {
        let request = call.tool_request();
        let handle = OutputStore::handle_for(&request.id, 0);
        let partial = self.outputs.tail(&handle, PARTIAL_CHARS).ok().flatten();
        let mut text = format!(
            "Interrupted: the device's runner ended while {} ran. It was not run again. Its effects may be there in \
             part or in whole: look before you repeat it.",
            request.tool
        );
        let mut meta = ResultMeta {
            may_have_run: true,
            recovered: true,
            ..ResultMeta::default()
        };
        if let Some(partial) = partial.filter(|partial| !partial.is_empty()) {
            text.push_str("\nWhat it had printed until then (the end of it):\n");
            text.push_str(&partial);
            meta.handle = Some(handle.as_str().to_owned());
        }
        CallOutcome::Error(CallFailure::new(ErrorCode::Interrupted, text).with_meta(meta))
    }
}
