//! From what the backend offers to what the journal has promised.

use super::engine::Engine;
use crate::backend::Offered;
use crate::failpoint::reach_of;
use crate::journal::{Admission, JournalError, Offer, Origin, Refusal};
use crate::request::{Effect, ErrorCode, Failure, Meta, Outcome, Sealing, ToolRequest};

impl Engine {
    /// Takes a page: one transaction for its requests, its cancels and the cursor.
    ///
    /// # Errors
    /// The journal could not be written; nothing of the page was taken.
    pub(super) async fn admit(
        &self,
        events: Vec<Offered>,
        cursor: Option<String>,
    ) -> Result<Vec<Admission>, JournalError> {
        let offers: Vec<Offer> = events.into_iter().filter_map(|event| self.offer(event)).collect();
        if offers.is_empty() && cursor.is_none() {
            return Ok(Vec::new());
        }
        for offer in &offers {
            if let Offer::Request(request, _) = offer {
                reach_of("accept.before", request.id.as_str());
            }
        }
        let admitted =
            self.journal.accept(offers, Origin::Backend, &self.lease, cursor, self.clock.now_ms()).await?;
        for admission in &admitted {
            if let Admission::Fresh(call) = admission {
                reach_of("accept.after", call.request().id.as_str());
            }
        }
        Ok(admitted)
    }

    fn offer(&self, event: Offered) -> Option<Offer> {
        match event {
            Offered::Request(request) => {
                let effect =
                    self.registry.effect(request.tool.as_str(), &request.args).unwrap_or(Effect::Reads);
                Some(Offer::Request(request, effect))
            }
            Offered::Cancel(id) => Some(Offer::Cancel(id)),
            Offered::Unreadable { request, why } => Some(Offer::Unreadable(self.refusal(request, &why))),
            Offered::Skipped { why } => {
                tracing::warn!(why, "an event of the backend was passed over");
                None
            }
        }
    }

    fn refusal(&self, request: ToolRequest, why: &str) -> Refusal {
        tracing::warn!(request.id = %request.id, why, "a request cannot be read and is answered so");
        let failure = Failure {
            code: ErrorCode::InvalidArgs,
            text: format!("The request cannot be read: {why}. It was not run; send it anew under a new id."),
            meta: Meta::default(),
        };
        let reply = Outcome::Error(failure).seal(&Sealing {
            redactor: &self.redactor,
            store: &self.outputs,
            request: &request.id,
            tool: &request.tool,
            duration: std::time::Duration::ZERO,
            attempt: None,
        });
        Refusal { request, reply }
    }
}
