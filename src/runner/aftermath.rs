//! What a call came to that declared its effects and was cut off by the end of an earlier life. Nothing declared:
//! nothing happened. Else whoever made the effects looks, and it is run again, answered, or told for what it is.
//! Not here: what else an earlier life leaves (recovery), and looking (whoever `Survivors` is).

use std::future::Future;
use std::pin::Pin;

use super::engine::Engine;
use super::recovery::{ATTEMPTS, poisonous};
use crate::journal::Accepted;
use crate::request::{ErrorCode, Failure, Outcome};
use crate::tool::{Aftermath, Intent};

/// Done once it is known what became of declared effects.
pub type LookedAfter<'a> = Pin<Box<dyn Future<Output = Aftermath> + Send + 'a>>;

impl Engine {
    /// The answer to a call with effects that an earlier life started, by what it declared; none where it is to be run again, because
    /// nothing of it happened.
    pub(super) async fn after_a_crash(
        &self,
        call: &Accepted,
        attempt: u32,
        declared: Option<Vec<String>>,
    ) -> Option<Outcome> {
        let id = &call.request().id;
        let Some(bodies) = declared else { return Some(self.interrupted(call)) };
        let parsed: Result<Vec<Intent>, _> = bodies.iter().map(|body| serde_json::from_str(body)).collect();
        let intents = match parsed {
            Ok(intents) => intents,
            Err(cause) => {
                tracing::warn!(request.id = %id, %cause, "what another version of the runner declared cannot be read");
                return Some(self.interrupted(call));
            }
        };
        let aftermath = if intents.is_empty() {
            Aftermath::Untouched
        } else {
            self.survivors.look_after(id, intents).await
        };
        match aftermath {
            Aftermath::Untouched if attempt >= ATTEMPTS => Some(poisonous(attempt)),
            Aftermath::Untouched => {
                tracing::info!(request.id = %id, attempt, "nothing of a call that was cut off has happened; it is run again");
                None
            }
            Aftermath::Done(mut reply) => {
                reply.meta.recovered = true;
                Some(Outcome::Ok(reply))
            }
            Aftermath::Unclear { text, mut meta } => {
                meta.recovered = true;
                meta.may_have_run = true;
                let text = format!(
                    "Interrupted: the device's runner ended while {} ran. It was not run again. What is there now:\n\
                     {text}\nLook at it before you repeat the call.",
                    call.request().tool
                );
                Some(Outcome::Error(Failure { code: ErrorCode::Interrupted, text, meta: *meta }))
            }
        }
    }
}
