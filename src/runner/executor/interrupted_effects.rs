//! Calls that declared effects and were cut off by the end of an earlier process. The declared effects are compared
//! with the disk; then the call is run again, answered, or reported as interrupted. Not here: the other leftovers
//! (recovery), the rules (journal), and the comparison (`Survivors`).

use super::recovery::Recovery;
use crate::journal::{Accepted, Comparison};
use crate::request::{ErrorCode, Failure, Outcome};
use crate::tool::{Aftermath, Intent};

impl Recovery {
    /// Compares the declared intents, as JSON text, with the current state. The outcome is the answer, unless the
    /// call is run again.
    pub(in crate::runner) async fn compare(
        &self,
        call: &Accepted,
        declared: Vec<String>,
    ) -> (Comparison, Option<Outcome>) {
        let id = &call.request().id;
        let parsed: Result<Vec<Intent>, _> = declared.iter().map(|body| serde_json::from_str(body)).collect();
        let intents = match parsed {
            Ok(intents) => intents,
            Err(cause) => {
                tracing::warn!(request.id = %id, %cause, "what another version of the runner declared cannot be read");
                return (Comparison::Unclear, None);
            }
        };
        match self.survivors.look_after(id, intents).await {
            Aftermath::Untouched => (Comparison::Untouched, None),
            Aftermath::Done(mut reply) => {
                reply.meta.recovered = true;
                (Comparison::Done, Some(Outcome::Ok(*reply)))
            }
            Aftermath::Unclear { text, mut meta } => {
                meta.recovered = true;
                meta.may_have_run = true;
                let text = format!(
                    "Interrupted: the device's runner ended while {} ran. It was not run again. What is there now:\n\
                     {text}\nLook at it before you repeat the call.",
                    call.request().tool
                );
                let failure = Failure { code: ErrorCode::Interrupted, text, meta: *meta };
                (Comparison::Unclear, Some(Outcome::Error(failure)))
            }
        }
    }
}
