//! From what the backend offers to what the journal has promised.

use std::collections::HashMap;

use super::auditing::about;
use super::engine::Engine;
use crate::audit::{Decision, Entry, Event, Who};
use crate::backend::Offered;
use crate::failpoint::reach_of;
use crate::ids::RequestId;
use crate::journal::{Admission, JournalError, Offer, Origin, Refusal};
use crate::request::{
    Effect, ErrorCode, Failure, Meta, NotSigned, Outcome, RequestAuth, Sealing, ToolRequest,
};

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
        let refused: HashMap<RequestId, Entry> =
            offers.iter().filter_map(|offer| self.row_of(offer)).collect();
        let admitted =
            self.journal.accept(offers, Origin::Backend, &self.lease, cursor, self.clock.now_ms()).await?;
        for admission in &admitted {
            if let Admission::Fresh(call) = admission {
                reach_of("accept.after", call.request().id.as_str());
            }
        }
        self.audit_admitted(refused, &admitted);
        Ok(admitted)
    }

    /// What the audit will say of a request that is refused at the door.
    fn row_of(&self, offer: &Offer) -> Option<(RequestId, Entry)> {
        let Offer::Unreadable(Refusal { request, reply }) = offer else { return None };
        let row = Entry {
            decision: Some(Decision::Denied),
            code: reply.code().map(str::to_owned),
            rule: (reply.code() != Some(ErrorCode::InvalidArgs.as_str()))
                .then(|| "backend.request_key".to_owned()),
            outcome: Some(reply.kind().as_str().to_owned()),
            bytes: Some(reply.payload().len() as u64),
            ..about(request, Event::Refused, Who::Caller, self.clock.now_ms())
        };
        Some((request.id.clone(), row))
    }

    fn audit_admitted(&self, mut refused: HashMap<RequestId, Entry>, admitted: &[Admission]) {
        let now_ms = self.clock.now_ms();
        let told = admitted.iter().filter_map(|admission| match admission {
            Admission::Refused(reply) => refused.remove(reply.id()),
            Admission::Conflict(conflict) => Some(Entry {
                decision: Some(Decision::Denied),
                ..about(&conflict.request, Event::Conflict, Who::Caller, now_ms)
            }),
            Admission::Cancel(id) => Some(Entry::new(Event::Cancelled, Who::Caller, now_ms).about(id)),
            _ => None,
        });
        self.audit.note(told.collect());
    }

    fn offer(&self, event: Offered) -> Option<Offer> {
        match event {
            Offered::Request(mut request) => {
                if let Some(refusal) = self.unsigned(&request) {
                    return Some(Offer::Unreadable(refusal));
                }
                if self.request_auth.is_some() {
                    // The caller's word, and not that of whoever carried it, says how old it is.
                    request.created_at_ms = request.issued_at_ms.unwrap_or(request.created_at_ms);
                }
                let effect =
                    self.registry.effect(request.tool.as_str(), &request.args).unwrap_or(Effect::Reads);
                Some(Offer::Request(request, effect))
            }
            Offered::Cancel(id) => Some(Offer::Cancel(id)),
            Offered::Unreadable { request, why } => {
                let text = format!(
                    "The request cannot be read: {why}. It was not run; send it anew under a new id."
                );
                tracing::warn!(request.id = %request.id, why, "a request cannot be read and is answered so");
                Some(Offer::Unreadable(self.refusal(request, ErrorCode::InvalidArgs, text)))
            }
            Offered::Skipped { why } => {
                tracing::warn!(why, "an event of the backend was passed over");
                None
            }
        }
    }

    /// The least that the time may be where requests are signed: whoever carries them also tells the backend's time, and
    /// could hold it back.
    #[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 are far below 2^53")]
    pub(super) fn least_now_ms(&self) -> f64 {
        match self.request_auth {
            Some(_) => self.clock.now_ms() as f64 - RequestAuth::SKEW_MS,
            None => 0.0,
        }
    }

    /// The answer to a request that this device does not run because of its signature, or for want of one.
    fn unsigned(&self, request: &ToolRequest) -> Option<Refusal> {
        let auth = self.request_auth.as_ref()?;
        let now_ms = self.clock.now_ms();
        #[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 are far below 2^53")]
        let checked = auth.check(request, now_ms as f64, self.settings.ttl.as_secs_f64() * 1_000.0);
        let why = checked.err()?;
        tracing::warn!(request.id = %request.id, ?why, "a request is not run: it is not signed as this device requires");
        let code =
            if matches!(why, NotSigned::Expired(_)) { ErrorCode::Expired } else { ErrorCode::PolicyDenied };
        let text = format!(
            "{} was not run: its owner lets this device run only requests that are signed with a known key, and {}",
            request.tool,
            in_words(&why)
        );
        Some(self.refusal(request.clone(), code, text))
    }

    fn refusal(&self, request: ToolRequest, code: ErrorCode, text: String) -> Refusal {
        let failure = Failure { code, text, meta: Meta::default() };
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

fn in_words(why: &NotSigned) -> String {
    let seconds = |ms: &i64| ms / 1_000;
    match why {
        NotSigned::Missing => "this one has no signature. Send it anew, under a new id, with `issuedAtMs` and \
                               `signature` (docs/audit.md says what is signed)."
            .to_owned(),
        NotSigned::Bad => "the signature of this one is not that key's for this request at this device. Sign the id, \
                           the device's id, the tool, the arguments and the times exactly as they are sent, with the \
                           key that the device has pinned, and send it anew under a new id."
            .to_owned(),
        NotSigned::Expired(ms) => format!(
            "this one expired {} s ago by this device's clock. Sign and send it anew, under a new id, if it is still \
             wanted.",
            seconds(ms)
        ),
        NotSigned::Early(ms) => format!(
            "this one was signed {} s in the future by this device's clock. Set the clocks, and send it anew under a \
             new id.",
            seconds(ms)
        ),
    }
}
