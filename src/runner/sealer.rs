//! The conversion of an outcome to the reply that is recorded. Not here: the sealing itself (request), and the record
//! (executor).

use std::time::Duration;

use super::tool_threads::on_a_thread;
use crate::journal::Accepted;
use crate::output::OutputStore;
use crate::redact::Redactor;
use crate::request::{CleanReply, ErrorCode, Failure, Meta, Outcome, Sealing, ToolRequest};

/// The size up to which masking is fast; a larger outcome may also be stored in a file.
const SMALL: usize = 16 * 1024;

/// The most characters of a killed call's output in its answer.
const PARTIAL_CHARS: usize = 8_000;

/// Masks, truncates and stores the content of outcomes. Cheap to clone.
#[derive(Clone)]
pub(super) struct Sealer {
    pub redactor: Redactor,
    pub outputs: OutputStore,
}

impl Sealer {
    /// Seals an outcome on this thread.
    pub(super) fn seal_now(
        &self,
        request: &ToolRequest,
        outcome: Outcome,
        attempt: Option<u32>,
        duration: Duration,
    ) -> CleanReply {
        outcome.seal(&Sealing {
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
        outcome: Outcome,
        attempt: Option<u32>,
        duration: Duration,
    ) -> CleanReply {
        if outcome.weight() <= SMALL {
            return self.seal_now(request, outcome, attempt, duration);
        }
        let (sealer, request) = (self.clone(), request.clone());
        on_a_thread(move || sealer.seal_now(&request, outcome, attempt, duration)).await
    }

    /// Returns the outcome of an effect that began and whose end is unknown: it is never run again.
    pub(super) fn interrupted(&self, call: &Accepted) -> Outcome {
        let request = call.request();
        let handle = OutputStore::handle(&request.id, 0);
        let partial = self.outputs.tail_text(&handle, PARTIAL_CHARS).ok().flatten();
        let mut text = format!(
            "Interrupted: the device's runner ended while {} ran. It was not run again. Its effects may be there in \
             part or in whole: look before you repeat it.",
            request.tool
        );
        let mut meta = Meta { may_have_run: true, recovered: true, ..Meta::default() };
        if let Some(partial) = partial.filter(|partial| !partial.is_empty()) {
            text.push_str("\nWhat it had printed until then (the end of it):\n");
            text.push_str(&partial);
            meta.handle = Some(handle.as_str().to_owned());
        }
        Outcome::Error(Failure { code: ErrorCode::Interrupted, text, meta })
    }
}
