//! Taking a page of offers: one transaction for all of its requests, cancels and the cursor.

use std::sync::Arc;

use rusqlite::{OptionalExtension, Transaction, params};
use sha2::{Digest, Sha256};

use super::apply_transition::apply_request_event;
use super::entry::{RecordedReply, RequestOrigin, RequestState, parse_column};
use super::facts::advance_cursor;
use super::incidents::insert_incident;
use super::reply_rows::store_reply;
use super::statements::execute_cached;
use super::transition_rules::{KnownRequest, RequestEvent, TransitionResult};
use super::write_job::WriteDurability;
use super::{Journal, JournalError};
use punie_core::ids::{ConversationId, LeaseId, RequestId};
use punie_tool::request::{CleanReply, ToolEffect, ToolRequest};

/// A request that is promised: it will be answered whatever happens. Only the journal makes one. Clones share its
/// arguments, which may be long.
#[derive(Debug, Clone)]
pub struct AcceptedRequest {
    request: Arc<ToolRequest>,
    effect: ToolEffect,
    origin: RequestOrigin,
    lease: LeaseId,
}

impl AcceptedRequest {
    pub(super) fn new(
        request: ToolRequest,
        effect: ToolEffect,
        origin: RequestOrigin,
        lease: LeaseId,
    ) -> Self {
        Self {
            request: Arc::new(request),
            effect,
            origin,
            lease,
        }
    }

    /// The request.
    pub fn tool_request(&self) -> &ToolRequest {
        &self.request
    }
    /// The most that its tool may do.
    pub fn tool_effect(&self) -> ToolEffect {
        self.effect
    }
    /// Its origin.
    pub fn origin(&self) -> RequestOrigin {
        self.origin
    }
    /// The lease under which it is claimed and posted.
    pub fn lease_id(&self) -> &LeaseId {
        &self.lease
    }
}

/// One thing that a page offers.
#[derive(Debug, Clone)]
pub enum RequestOffer {
    /// A request, with the effect of its tool ([`ToolEffect::Reads`] where there is no such tool), and the masked title
    /// that `history` shows, if one is kept.
    Request(ToolRequest, ToolEffect, Option<String>),
    /// The caller took this request back.
    Cancel(RequestId),
    /// A request that cannot be read; its answer is ready.
    Unreadable(UnreadableRequest),
    /// A request that has no result yet, by its id alone, and whether the caller took it back.
    Open(RequestId, bool),
}

/// The answer to a request that cannot be read beyond its id.
#[derive(Debug, Clone)]
pub struct UnreadableRequest {
    /// The request, as far as it could be read.
    pub request: ToolRequest,
    /// The answer.
    pub reply: CleanReply,
    /// Its masked title, if one is kept.
    pub title: Option<String>,
}

/// The outcome of an offer.
#[derive(Debug, Clone)]
pub enum OfferOutcome {
    /// New, and now promised.
    Fresh(AcceptedRequest),
    /// New and refused at the door: post the answer.
    Refused(RecordedReply),
    /// Answered before, not yet acknowledged: post it again.
    Answered(RequestId),
    /// Promised before and not answered yet: being worked on, or to be started.
    InFlight(RepeatedRequest),
    /// Answered and acknowledged.
    Closed(RequestId),
    /// Known with other arguments: neither run nor answered.
    Conflict(IdConflict),
    /// Known, not finished: to be cancelled.
    Cancel(RequestId),
    /// Offered by its id alone, and not known: its body is needed.
    Unknown(RequestId),
}

/// A request that was promised before and is not answered yet; its arguments stay in the journal.
#[derive(Debug, Clone)]
pub struct RepeatedRequest {
    /// Its id.
    pub id: RequestId,
    /// Its conversation.
    pub conversation: ConversationId,
    /// [`RequestState::Accepted`] or [`RequestState::Started`].
    pub state: RequestState,
    /// True if the caller took it back.
    pub cancelled: bool,
}

/// Two different requests under one id.
#[derive(Debug, Clone)]
pub struct IdConflict {
    /// The id they share.
    pub id: RequestId,
    /// The second.
    pub request: ToolRequest,
}

impl Journal {
    /// Takes a page: every request in it is known from here on, every cancel recorded, and the cursor moved, or
    /// nothing of it is.
    ///
    /// # Errors
    /// The page was not taken; offer it again.
    pub async fn accept_page(
        &self,
        offers: Vec<RequestOffer>,
        origin: RequestOrigin,
        lease: &LeaseId,
        cursor: Option<String>,
        now_ms: i64,
    ) -> Result<Vec<OfferOutcome>, JournalError> {
        let promises_effects = offers.iter().any(
            |offer| matches!(offer, RequestOffer::Request(_, effect, _) if effect.runs_at_most_once()),
        );
        let durability = WriteDurability::for_effect(promises_effects);
        let lease = lease.clone();
        let backend = self.current.row_id();
        self.writer
            .write_and_wait(durability, move |transaction| {
                let page = PageTransaction {
                    transaction,
                    backend,
                    origin,
                    lease,
                    now_ms,
                };
                let mut admissions = Vec::with_capacity(offers.len());
                for offer in offers {
                    admissions.extend(page.admit_offer(offer)?);
                }
                if let Some(cursor) = cursor {
                    advance_cursor(transaction, backend, &cursor)?;
                }
                Ok(admissions)
            })
            .await
    }
}

struct PageTransaction<'a> {
    transaction: &'a Transaction<'a>,
    /// Whose page it is.
    backend: i64,
    origin: RequestOrigin,
    lease: LeaseId,
    now_ms: i64,
}

impl PageTransaction<'_> {
    fn admit_offer(&self, offer: RequestOffer) -> Result<Option<OfferOutcome>, JournalError> {
        match offer {
            RequestOffer::Request(request, effect, title) => self
                .admit_request(request, effect, title.as_deref())
                .map(Some),
            RequestOffer::Cancel(id) => self.admit_cancellation(id),
            RequestOffer::Unreadable(refusal) => self.admit_unreadable(&refusal).map(Some),
            RequestOffer::Open(id, cancelled) => self.admit_id(id, cancelled).map(Some),
        }
    }

    fn admit_request(
        &self,
        request: ToolRequest,
        effect: ToolEffect,
        title: Option<&str>,
    ) -> Result<OfferOutcome, JournalError> {
        if let Some(known) = self.insert_unless_known(&request, effect, title)? {
            return Ok(known);
        }
        Ok(OfferOutcome::Fresh(AcceptedRequest::new(
            request,
            effect,
            self.origin,
            self.lease.clone(),
        )))
    }

    fn admit_unreadable(&self, refusal: &UnreadableRequest) -> Result<OfferOutcome, JournalError> {
        let title = refusal.title.as_deref();
        if let Some(known) = self.insert_unless_known(&refusal.request, ToolEffect::Reads, title)? {
            return Ok(known);
        }
        let recorded = store_reply(
            self.transaction,
            &refusal.request.id,
            &refusal.reply,
            self.now_ms,
        )?;
        Ok(OfferOutcome::Refused(recorded))
    }

    /// Admits an offer by id: a known id is the same request, whatever its arguments.
    fn admit_id(&self, id: RequestId, cancelled: bool) -> Result<OfferOutcome, JournalError> {
        let Some(known) = self
            .find_known_offer(&id)?
            .filter(|known| known.backend == self.backend)
        else {
            return Ok(OfferOutcome::Unknown(id));
        };
        let event = RequestEvent::Offered {
            same: true,
            cancelled,
        };
        let (then, row) = apply_request_event(self.transaction, &id, event, self.now_ms)?;
        Ok(known.readmit_request(id, then, row.as_ref(), cancelled))
    }

    fn admit_cancellation(&self, id: RequestId) -> Result<Option<OfferOutcome>, JournalError> {
        if self
            .find_known_offer(&id)?
            .is_some_and(|known| known.backend != self.backend)
        {
            return Ok(None);
        }
        let (then, _) =
            apply_request_event(self.transaction, &id, RequestEvent::TakenBack, self.now_ms)?;
        Ok((then == TransitionResult::Stop).then_some(OfferOutcome::Cancel(id)))
    }

    /// Inserts a new request, or decides about the offer of a known one.
    fn insert_unless_known(
        &self,
        request: &ToolRequest,
        effect: ToolEffect,
        title: Option<&str>,
    ) -> Result<Option<OfferOutcome>, JournalError> {
        let hash = hash_request(request);
        let known = self.admit_known(request, &hash)?;
        if known.is_none() {
            self.insert_request(request, effect, &hash, title)?;
        }
        Ok(known)
    }

    /// Decides about an offer of a known request; `None` for a new one.
    fn admit_known(
        &self,
        request: &ToolRequest,
        hash: &[u8],
    ) -> Result<Option<OfferOutcome>, JournalError> {
        let id = &request.id;
        let Some(known) = self.find_known_offer(id)? else {
            return Ok(None);
        };
        // Another backend's request under this id is neither run for this one nor answered to it.
        let is_own = known.backend == self.backend;
        let event = RequestEvent::Offered {
            same: is_own && known.hash == hash,
            cancelled: request.cancelled,
        };
        let (then, row) = apply_request_event(self.transaction, id, event, self.now_ms)?;
        if then == TransitionResult::Conflict {
            let difference = if is_own {
                "with other arguments"
            } else {
                "by another backend"
            };
            let detail = format!("{} {difference}", request.tool);
            insert_incident(self.transaction, id, "conflict", Some(&detail), self.now_ms)?;
            return Ok(Some(OfferOutcome::Conflict(IdConflict {
                id: id.clone(),
                request: request.clone(),
            })));
        }
        Ok(Some(known.readmit_request(
            id.clone(),
            then,
            row.as_ref(),
            request.cancelled,
        )))
    }

    fn find_known_offer(&self, id: &RequestId) -> rusqlite::Result<Option<KnownOffer>> {
        self.transaction
            .prepare_cached("select args_hash, backend, conversation from request where id = ?")?
            .query_row([id.as_str()], |row| {
                Ok(KnownOffer {
                    hash: row.get(0)?,
                    backend: row.get(1)?,
                    conversation: parse_column(row, 2, ConversationId::from_key)?,
                })
            })
            .optional()
    }

    fn insert_request(
        &self,
        request: &ToolRequest,
        effect: ToolEffect,
        hash: &[u8],
        title: Option<&str>,
    ) -> Result<(), JournalError> {
        execute_cached(
            self.transaction,
            "insert into request (id, origin, tool, args, args_hash, conversation, agent_type, effect, \
                 created_at_ms, deadline_ms, received_at_ms, state, lease_id, cancel_requested, cancel_requested_at_ms, \
                 signature, backend, title, caller, session) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            params![
                request.id.as_str(),
                self.origin.as_str(),
                request.tool.as_str(),
                request.args,
                hash,
                request.conversation.key(),
                request.agent_type,
                effect.as_str(),
                request.created_at_ms,
                request.deadline_ms,
                self.now_ms,
                RequestState::Accepted.as_str(),
                self.lease.as_str(),
                request.cancelled,
                request.cancelled.then_some(self.now_ms),
                request.signature,
                self.backend,
                title,
                request.caller,
                request.session.as_ref().map(|session| session.to_json()),
            ],
        )?;
        Ok(())
    }
}

/// The recorded state of a request whose id is offered.
struct KnownOffer {
    hash: Vec<u8>,
    backend: i64,
    conversation: ConversationId,
}

impl KnownOffer {
    /// The admission of the same request, offered again.
    fn readmit_request(
        self,
        id: RequestId,
        then: TransitionResult,
        row: Option<&KnownRequest>,
        cancelled: bool,
    ) -> OfferOutcome {
        match then {
            TransitionResult::Post => OfferOutcome::Answered(id),
            TransitionResult::Nothing => OfferOutcome::Closed(id),
            _ => OfferOutcome::InFlight(RepeatedRequest {
                id,
                conversation: self.conversation,
                state: row.map_or(RequestState::Accepted, |row| row.state),
                cancelled: cancelled || row.is_some_and(|row| row.cancelled),
            }),
        }
    }
}

/// Hashes the parts that make two requests of one id the same: the tool and its arguments.
fn hash_request(request: &ToolRequest) -> Vec<u8> {
    let mut hash = Sha256::new();
    hash.update(request.tool.as_str());
    hash.update([0]);
    hash.update(&request.args);
    hash.finalize().to_vec()
}
