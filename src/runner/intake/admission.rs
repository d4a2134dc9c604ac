//! Converts the backend's offers and accepts them into the journal.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::audit::{Decision, Entry, Event, Who};
use crate::backend::Offered;
use crate::failpoint::reach_of;
use crate::ids::{LeaseId, RequestId};
use crate::journal::{Admission, Journal, JournalError, Offer, Origin, Refusal};
use crate::request::{Effect, ErrorCode, Failure, Meta, Outcome, ToolRequest};
use crate::runner::call_audit::{CallAudit, about};
use crate::runner::request_signatures::{self, RequestSignatures};
use crate::runner::sealer::Sealer;
use crate::tool::Registry;

/// Accepts the backend's offers into the journal.
#[derive(Clone)]
pub(in crate::runner) struct Admissions {
    pub journal: Journal,
    pub audit: CallAudit,
    pub signatures: Arc<RequestSignatures>,
    pub registry: Arc<Registry>,
    pub sealer: Sealer,
    /// The lease of this process.
    pub lease: LeaseId,
}

impl Admissions {
    /// Accepts a page: one transaction for its requests, its cancels and the cursor.
    ///
    /// # Errors
    /// The journal could not be written; nothing of the page was accepted.
    pub(in crate::runner) async fn admit(
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
        let admitted = self
            .journal
            .accept(offers, Origin::Backend, &self.lease, cursor, self.audit.clock.now_ms())
            .await?;
        for admission in &admitted {
            if let Admission::Fresh(call) = admission {
                reach_of("accept.after", call.request().id.as_str());
            }
        }
        self.audit_admitted(refused, &admitted);
        Ok(admitted)
    }

    /// Returns the audit row of a request that is refused on arrival.
    fn row_of(&self, offer: &Offer) -> Option<(RequestId, Entry)> {
        let Offer::Unreadable(Refusal { request, reply }) = offer else { return None };
        let row = Entry {
            decision: Some(Decision::Denied),
            code: reply.code().map(str::to_owned),
            rule: (reply.code() != Some(ErrorCode::InvalidArgs.as_str()))
                .then(|| "backend.request_key".to_owned()),
            outcome: Some(reply.kind().as_str().to_owned()),
            bytes: Some(reply.payload().len() as u64),
            ..about(request, Event::Refused, Who::Caller, self.audit.clock.now_ms())
        };
        Some((request.id.clone(), row))
    }

    fn audit_admitted(&self, mut refused: HashMap<RequestId, Entry>, admitted: &[Admission]) {
        let now_ms = self.audit.clock.now_ms();
        let told = admitted.iter().filter_map(|admission| match admission {
            Admission::Refused(reply) => refused.remove(reply.id()),
            Admission::Conflict(conflict) => Some(Entry {
                decision: Some(Decision::Denied),
                ..about(&conflict.request, Event::Conflict, Who::Caller, now_ms)
            }),
            Admission::Cancel(id) => Some(Entry::new(Event::Cancelled, Who::Caller, now_ms).about(id)),
            _ => None,
        });
        self.audit.audit.note(told.collect());
    }

    fn offer(&self, event: Offered) -> Option<Offer> {
        match event {
            Offered::Request(mut request) => {
                if let Some(refusal) = self.unsigned(&request) {
                    return Some(Offer::Unreadable(refusal));
                }
                if self.signatures.are_required() {
                    // The signed issue time determines the age, not the time that the backend reports.
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

    /// Refuses a request whose signature is missing or not acceptable.
    fn unsigned(&self, request: &ToolRequest) -> Option<Refusal> {
        let why = self.signatures.refusal_reason(request)?;
        tracing::warn!(request.id = %request.id, ?why, "a request is not run: it is not signed as this device requires");
        let Failure { code, text, .. } = request_signatures::refusal(request, &why);
        Some(self.refusal(request.clone(), code, text))
    }

    fn refusal(&self, request: ToolRequest, code: ErrorCode, text: String) -> Refusal {
        let failure = Failure { code, text, meta: Meta::default() };
        let reply = self.sealer.seal_now(&request, Outcome::Error(failure), None, Duration::ZERO);
        Refusal { request, reply }
    }

    /// Records the cancels that came too late or matched no request, so that they can be found.
    pub(super) fn record_idle_cancels(&self, cancels: &[RequestId], admitted: &[Admission]) {
        let took = |id: &RequestId| {
            admitted.iter().any(|admission| matches!(admission, Admission::Cancel(of) if of == id))
        };
        for id in cancels.iter().filter(|id| !took(id)) {
            tracing::info!(request.id = %id, "a cancel changes nothing: the request is over or was never seen");
            let row = Entry::new(Event::IdleCancel, Who::Caller, self.audit.clock.now_ms()).about(id);
            self.audit.audit.note(vec![row]);
        }
    }
}
