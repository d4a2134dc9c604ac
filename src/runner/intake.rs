//! From what the backend offers to what the journal has promised.

use std::collections::HashMap;

use super::auditing::about;
use super::engine::Engine;
use crate::audit::{Decision, Entry, Event, Who};
use crate::backend::Offered;
use crate::failpoint::reach_of;
use crate::ids::RequestId;
use crate::journal::{Accepted, Admission, JournalError, Offer, Origin, Refusal};
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
            Offered::Open { id, cancelled } => Some(Offer::Open(id, cancelled)),
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
        let why = self.unsigned_why(request)?;
        tracing::warn!(request.id = %request.id, ?why, "a request is not run: it is not signed as this device requires");
        let Failure { code, text, .. } = not_signed(request, &why);
        Some(self.refusal(request.clone(), code, text))
    }

    fn unsigned_why(&self, request: &ToolRequest) -> Option<NotSigned> {
        let auth = self.request_auth.as_ref()?;
        #[expect(clippy::cast_precision_loss, reason = "milliseconds since 1970 are far below 2^53")]
        let now_ms = self.clock.now_ms() as f64;
        auth.check(request, now_ms, self.settings.ttl.as_secs_f64() * 1_000.0).err()
    }

    /// The same for one that an earlier life of the runner accepted: perhaps before a key was pinned, or under another
    /// one. It was in time when it came; how long it may wait is another matter. What a call of this device made
    /// (Task) is signed by nobody, and as good as the key that the life had which made it.
    pub(super) fn unsigned_left(&self, call: &Accepted, key_is_new: bool) -> Option<Outcome> {
        let why = match call.origin() {
            Origin::Backend => self.unsigned_why(call.request())?,
            Origin::Task => key_is_new.then_some(NotSigned::Missing)?,
        };
        if matches!(why, NotSigned::Expired(_) | NotSigned::Early(_)) {
            return None;
        }
        tracing::warn!(request.id = %call.request().id, ?why, "a request that was left is not run: it is not signed");
        Some(Outcome::Error(not_signed(call.request(), &why)))
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

fn not_signed(request: &ToolRequest, why: &NotSigned) -> Failure {
    let code =
        if matches!(why, NotSigned::Expired(_)) { ErrorCode::Expired } else { ErrorCode::PolicyDenied };
    let text = format!(
        "{} was not run: its owner lets this device run only requests that are signed with a known key, and {}",
        request.tool,
        in_words(why)
    );
    Failure { code, text, meta: Meta::default() }
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
