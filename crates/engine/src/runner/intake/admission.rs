//! Converts the backend's offers and accepts them into the journal.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use crate::audit::{AuditActor, AuditDecision, AuditEntry, AuditEvent};
use crate::backend::OfferedEvent;
use crate::journal::{JournalError, OfferOutcome, RequestOffer, RequestOrigin, UnreadableRequest};
use crate::runner::call_audit::request_entry_with_args;
use crate::runner::handles::Handles;
use crate::runner::request_signatures;
use punie_core::failpoint::reach_of;
use punie_core::ids::RequestId;
use punie_tool::request::{CallFailure, CallOutcome, ErrorCode, ToolEffect, ToolRequest};

/// Accepts the backend's offers into the journal.
pub(super) struct OfferAdmission {
    pub handles: Arc<Handles>,
}

impl OfferAdmission {
    /// Accepts a page: one transaction for its requests, its cancels and the cursor.
    ///
    /// # Errors
    /// The journal could not be written; nothing of the page was accepted.
    pub async fn admit_page(
        &self,
        events: Vec<OfferedEvent>,
        cursor: Option<String>,
    ) -> Result<Vec<OfferOutcome>, JournalError> {
        let offers: Vec<RequestOffer> = events
            .into_iter()
            .filter_map(|event| self.convert(event))
            .collect();
        if offers.is_empty() && cursor.is_none() {
            return Ok(Vec::new());
        }
        for offer in &offers {
            if let RequestOffer::Request(request, ..) = offer {
                reach_of("accept.before", request.id.as_str());
            }
        }
        let refused: HashMap<RequestId, AuditEntry> = offers
            .iter()
            .filter_map(|offer| self.refusal_entry(offer))
            .collect();
        let origin = RequestOrigin::Backend;
        let now_ms = self.handles.clock.now_ms();
        let journal = &self.handles.journal;
        let lease = &self.handles.lease;
        let accepted = journal.accept_page(offers, origin, lease, cursor, now_ms);
        let admitted = accepted.await?;
        for admission in &admitted {
            if let OfferOutcome::Fresh(call) = admission {
                reach_of("accept.after", call.tool_request().id.as_str());
            }
        }
        self.audit_admitted(refused, &admitted);
        Ok(admitted)
    }

    /// Returns the audit row of a request that is refused on arrival.
    fn refusal_entry(&self, offer: &RequestOffer) -> Option<(RequestId, AuditEntry)> {
        let RequestOffer::Unreadable(UnreadableRequest { request, reply, .. }) = offer else {
            return None;
        };
        let now_ms = self.handles.clock.now_ms();
        let row = AuditEntry {
            decision: Some(AuditDecision::Denied),
            code: reply.failure_code().map(str::to_owned),
            rule: (reply.failure_code() != Some(ErrorCode::InvalidArgs.as_str()))
                .then(|| "backend.request_key".to_owned()),
            outcome: Some(reply.outcome_kind().as_str().to_owned()),
            bytes: Some(reply.payload_json().len() as u64),
            ..request_entry_with_args(request, AuditEvent::Refused, AuditActor::Caller, now_ms)
        };
        Some((request.id.clone(), row))
    }

    fn audit_admitted(
        &self,
        mut refused: HashMap<RequestId, AuditEntry>,
        admitted: &[OfferOutcome],
    ) {
        let now_ms = self.handles.clock.now_ms();
        let told = admitted.iter().filter_map(|admission| match admission {
            OfferOutcome::Refused(reply) => refused.remove(reply.request_id()),
            OfferOutcome::Conflict(conflict) => Some(AuditEntry {
                decision: Some(AuditDecision::Denied),
                ..request_entry_with_args(
                    &conflict.request,
                    AuditEvent::Conflict,
                    AuditActor::Caller,
                    now_ms,
                )
            }),
            OfferOutcome::Cancel(id) => Some(
                AuditEntry::new(AuditEvent::Cancelled, AuditActor::Caller, now_ms).with_request(id),
            ),
            _ => None,
        });
        self.handles.audit.log.queue_entries(told.collect());
    }

    fn convert(&self, event: OfferedEvent) -> Option<RequestOffer> {
        match event {
            OfferedEvent::Request(mut request) => {
                if let Some(refusal) = self.refuse_unsigned(&request) {
                    return Some(RequestOffer::Unreadable(refusal));
                }
                if self.handles.signatures.are_required() {
                    // The signed issue time determines the age, not the time that the backend reports.
                    request.created_at_ms = request.issued_at_ms.unwrap_or(request.created_at_ms);
                }
                let registry = &self.handles.registry;
                let effect = registry
                    .effect_of(request.tool.as_str(), &request.args)
                    .unwrap_or(ToolEffect::Reads);
                let title = self.title_of_request(&request);
                Some(RequestOffer::Request(request, effect, title))
            }
            OfferedEvent::Cancel(id) => Some(RequestOffer::Cancel(id)),
            OfferedEvent::Open { id, cancelled } => Some(RequestOffer::Open(id, cancelled)),
            OfferedEvent::Unreadable { request, why } => {
                let text = format!(
                    "The request cannot be read: {why}. It was not run; send it anew under a new id."
                );
                tracing::warn!(request.id = %request.id, why, "a request cannot be read and is answered so");
                let failure = CallFailure::new(ErrorCode::InvalidArgs, text);
                Some(RequestOffer::Unreadable(
                    self.build_refusal(request, failure),
                ))
            }
            OfferedEvent::Skipped { why } => {
                tracing::warn!(why, "an event of the backend was passed over");
                None
            }
        }
    }

    /// Refuses a request whose signature is missing or not acceptable.
    fn refuse_unsigned(&self, request: &ToolRequest) -> Option<UnreadableRequest> {
        let why = self.handles.signatures.problem(request)?;
        tracing::warn!(request.id = %request.id, ?why, "a request is not run: it is not signed as this device requires");
        let failure = request_signatures::signature_refusal(request, &why);
        Some(self.build_refusal(request.clone(), failure))
    }

    fn build_refusal(&self, request: ToolRequest, failure: CallFailure) -> UnreadableRequest {
        let sealer = &self.handles.sealer;
        let outcome = CallOutcome::Error(failure);
        let reply = sealer.seal_blocking(&request, outcome, None, Duration::ZERO);
        let title = self.title_of_request(&request);
        UnreadableRequest {
            request,
            reply,
            title,
        }
    }

    fn title_of_request(&self, request: &ToolRequest) -> Option<String> {
        let titles = self.handles.titles.as_ref()?;
        Some(titles.title_of_call(request.tool.as_str(), &request.args))
    }

    /// Records the cancels that came too late or matched no request, so that they can be found.
    pub(super) fn record_idle_cancels(&self, cancels: &[RequestId], admitted: &[OfferOutcome]) {
        let handles = &self.handles;
        let took = |id: &RequestId| {
            admitted
                .iter()
                .any(|admission| matches!(admission, OfferOutcome::Cancel(of) if of == id))
        };
        for id in cancels.iter().filter(|id| !took(id)) {
            tracing::info!(request.id = %id, "a cancel changes nothing: the request is over or was never seen");
            let event = AuditEvent::IdleCancel;
            let now_ms = handles.clock.now_ms();
            let row = AuditEntry::new(event, AuditActor::Caller, now_ms).with_request(id);
            handles.audit.log.queue_entries(vec![row]);
        }
    }
}
