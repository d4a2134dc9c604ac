//! Calls that declared effects and were cut off by the end of an earlier process. The declared effects are compared
//! with the disk; then the call is run again, answered, or reported as interrupted.

use super::recovery::Recovery;
use crate::journal::{AcceptedRequest, EffectComparison};
use punie_tool::request::{CallFailure, CallOutcome, ErrorCode};
use punie_tool::{CallIntent, IntentOutcome};

impl Recovery {
    /// Compares the declared intents, as JSON text, with the current state. The outcome is the answer, unless the
    /// call is run again.
    pub async fn compare_intents(
        &self,
        call: &AcceptedRequest,
        declared: Vec<String>,
    ) -> (EffectComparison, Option<CallOutcome>) {
        let id = &call.tool_request().id;
        let parsed: Result<Vec<CallIntent>, _> = declared
            .iter()
            .map(|body| serde_json::from_str(body))
            .collect();
        let intents = match parsed {
            Ok(intents) => intents,
            Err(cause) => {
                tracing::warn!(request.id = %id, %cause, "what another version of the runner declared cannot be read");
                return (EffectComparison::Unclear, None);
            }
        };
        match self.survivors.inspect_effects(id, intents).await {
            IntentOutcome::Untouched => (EffectComparison::Untouched, None),
            IntentOutcome::Done(mut reply) => {
                reply.meta.recovered = true;
                (EffectComparison::Done, Some(CallOutcome::Ok(*reply)))
            }
            IntentOutcome::Unclear { text, mut meta } => {
                meta.recovered = true;
                meta.may_have_run = true;
                let text = format!(
                    "Interrupted: the device's runner ended while {} ran. It was not run again. What is there now:\n\
                     {text}\nLook at it before you repeat the call.",
                    call.tool_request().tool
                );
                let failure = CallFailure::new(ErrorCode::Interrupted, text).with_meta(*meta);
                (EffectComparison::Unclear, Some(CallOutcome::Error(failure)))
            }
        }
    }
}
