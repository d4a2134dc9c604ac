//! Taking a page of offers: one transaction for all of its requests, cancels and the cursor.

use std::sync::Arc;

use rusqlite::{OptionalExtension, Transaction, params};
use sha2::{Digest, Sha256};

use super::entry::{Origin, RecordedReply, State, parsed};
use super::rules::{self, Event, Then};
use super::writer::Durability;
use super::{Journal, JournalError, backends, steps};
use crate::ids::{ConversationId, LeaseId, RequestId};
use crate::request::{CleanReply, Effect, ToolRequest};

/// A request that is promised: it will be answered whatever happens. Only the journal makes one. Clones share its
/// arguments, which may be long.
#[derive(Debug, Clone)]
pub struct Accepted {
    request: Arc<ToolRequest>,
    effect: Effect,
    origin: Origin,
    lease: LeaseId,
}

impl Accepted {
    pub(super) fn new(request: ToolRequest, effect: Effect, origin: Origin, lease: LeaseId) -> Self {
        Self { request: Arc::new(request), effect, origin, lease }
    }

    /// The request.
    pub fn request(&self) -> &ToolRequest {
        &self.request
    }
    /// The most that its tool may do.
    pub fn effect(&self) -> Effect {
        self.effect
    }
    /// Its origin.
    pub fn origin(&self) -> Origin {
        self.origin
    }
    /// The lease under which it is claimed and posted.
    pub fn lease(&self) -> &LeaseId {
        &self.lease
    }
}

/// One thing that a page offers.
#[derive(Debug, Clone)]
pub enum Offer {
    /// A request, with the effect of its tool ([`Effect::Reads`] where there is no such tool).
    Request(ToolRequest, Effect),
    /// The caller took this request back.
    Cancel(RequestId),
    /// A request that cannot be read; its answer is ready.
    Unreadable(Refusal),
    /// A request that has no result yet, by its id alone, and whether the caller took it back.
    Open(RequestId, bool),
}

/// The answer to a request that cannot be read beyond its id.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// The request, as far as it could be read.
    pub request: ToolRequest,
    /// The answer.
    pub reply: CleanReply,
}

/// The outcome of an offer.
#[derive(Debug, Clone)]
pub enum Admission {
    /// New, and now promised.
    Fresh(Accepted),
    /// New and refused at the door: post the answer.
    Refused(RecordedReply),
    /// Answered before, not yet acknowledged: post it again.
    Answered(RequestId),
    /// Promised before and not answered yet: being worked on, or to be started.
    InFlight(InFlight),
    /// Answered and acknowledged.
    Closed(RequestId),
    /// Known with other arguments: neither run nor answered.
    Conflict(Conflict),
    /// Known, not finished: to be cancelled.
    Cancel(RequestId),
    /// Offered by its id alone, and not known: its body is needed.
    Unknown(RequestId),
}

/// A request that was promised before and is not answered yet; its arguments stay in the journal.
#[derive(Debug, Clone)]
pub struct InFlight {
    /// Its id.
    pub id: RequestId,
    /// Its conversation.
    pub conversation: ConversationId,
    /// [`State::Accepted`] or [`State::Started`].
    pub state: State,
    /// True if the caller took it back.
    pub cancelled: bool,
}

/// Two different requests under one id.
#[derive(Debug, Clone)]
pub struct Conflict {
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
    pub async fn accept(
        &self,
        offers: Vec<Offer>,
        origin: Origin,
        lease: &LeaseId,
        cursor: Option<String>,
        now_ms: i64,
    ) -> Result<Vec<Admission>, JournalError> {
        let promises_effects =
            offers.iter().any(|offer| matches!(offer, Offer::Request(_, effect) if effect.at_most_once()));
        let durability = if promises_effects { Durability::Power } else { Durability::Process };
        let (lease, backend) = (lease.clone(), self.current.number());
        self.writer
            .write(durability, move |transaction| {
                let page = Page { transaction, backend, origin, lease, now_ms };
                let mut admissions = Vec::with_capacity(offers.len());
                for offer in offers {
                    admissions.extend(page.take(offer)?);
                }
                if let Some(cursor) = cursor {
                    move_cursor(transaction, backend, &cursor)?;
                }
                Ok(admissions)
            })
            .await
    }
}

/// Moves the cursor on, never back.
fn move_cursor(transaction: &Transaction<'_>, backend: i64, offered: &str) -> rusqlite::Result<()> {
    let stands = backends::fact(transaction, backend, "cursor")?;
    match rules::cursor(stands.as_deref(), offered) {
        Some(cursor) => backends::set_fact(transaction, backend, "cursor", cursor),
        None => Ok(()),
    }
}

struct Page<'a> {
    transaction: &'a Transaction<'a>,
    /// Whose page it is.
    backend: i64,
    origin: Origin,
    lease: LeaseId,
    now_ms: i64,
}

impl Page<'_> {
    fn take(&self, offer: Offer) -> Result<Option<Admission>, JournalError> {
        match offer {
            Offer::Request(request, effect) => self.request(request, effect).map(Some),
            Offer::Cancel(id) => self.cancel(id),
            Offer::Unreadable(refusal) => self.refusal(&refusal).map(Some),
            Offer::Open(id, cancelled) => self.open(id, cancelled).map(Some),
        }
    }

    fn request(&self, request: ToolRequest, effect: Effect) -> Result<Admission, JournalError> {
        let hash = hash_of(&request);
        if let Some(known) = self.offered(&request, &hash)? {
            return Ok(known);
        }
        self.insert(&request, effect, &hash)?;
        Ok(Admission::Fresh(Accepted::new(request, effect, self.origin, self.lease.clone())))
    }

    fn refusal(&self, refusal: &Refusal) -> Result<Admission, JournalError> {
        let hash = hash_of(&refusal.request);
        if let Some(known) = self.offered(&refusal.request, &hash)? {
            return Ok(known);
        }
        self.insert(&refusal.request, Effect::Reads, &hash)?;
        let recorded =
            super::transitions::finish(self.transaction, &refusal.request.id, &refusal.reply, self.now_ms)?;
        Ok(Admission::Refused(recorded))
    }

    /// Admits an offer by id: a known id is the same request, whatever its arguments.
    fn open(&self, id: RequestId, cancelled: bool) -> Result<Admission, JournalError> {
        let Some(known) = self.known(&id)?.filter(|known| known.backend == self.backend) else {
            return Ok(Admission::Unknown(id));
        };
        let event = Event::Offered { same: true, cancelled };
        let (then, row) = steps::take(self.transaction, &id, event, self.now_ms)?;
        Ok(known.admit_again(id, then, row.as_ref(), cancelled))
    }

    fn cancel(&self, id: RequestId) -> Result<Option<Admission>, JournalError> {
        if self.known(&id)?.is_some_and(|known| known.backend != self.backend) {
            return Ok(None);
        }
        let (then, _) = steps::take(self.transaction, &id, Event::TakenBack, self.now_ms)?;
        Ok((then == Then::Stop).then_some(Admission::Cancel(id)))
    }

    /// Decides about an offer of a known request; `None` for a new one.
    fn offered(&self, request: &ToolRequest, hash: &[u8]) -> Result<Option<Admission>, JournalError> {
        let id = &request.id;
        let Some(known) = self.known(id)? else { return Ok(None) };
        // Another backend's request under this id is neither run for this one nor answered to it.
        let is_own = known.backend == self.backend;
        let event = Event::Offered { same: is_own && known.hash == hash, cancelled: request.cancelled };
        let (then, row) = steps::take(self.transaction, id, event, self.now_ms)?;
        if then == Then::Conflict {
            let said = if is_own {
                format!("{} with other arguments", request.tool)
            } else {
                format!("{} by another backend", request.tool)
            };
            steps::incident(self.transaction, id, "conflict", Some(&said), self.now_ms)?;
            return Ok(Some(Admission::Conflict(Conflict { id: id.clone(), request: request.clone() })));
        }
        Ok(Some(known.admit_again(id.clone(), then, row.as_ref(), request.cancelled)))
    }

    fn known(&self, id: &RequestId) -> rusqlite::Result<Option<KnownOffer>> {
        self.transaction
            .prepare_cached("select args_hash, backend, conversation from request where id = ?")?
            .query_row([id.as_str()], |row| {
                Ok(KnownOffer {
                    hash: row.get(0)?,
                    backend: row.get(1)?,
                    conversation: parsed(row, 2, ConversationId::parse)?,
                })
            })
            .optional()
    }

    fn insert(&self, request: &ToolRequest, effect: Effect, hash: &[u8]) -> Result<(), JournalError> {
        self.transaction
            .prepare_cached(
                "insert into request (id, origin, tool, args, args_hash, conversation, agent_type, effect, \
                 created_at_ms, deadline_ms, received_at_ms, state, lease_id, cancel_requested, cancel_requested_at_ms, \
                 signature, backend) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            )?
            .execute(params![
                request.id.as_str(),
                self.origin.as_str(),
                request.tool.as_str(),
                request.args,
                hash,
                request.conversation.as_str(),
                request.agent_type,
                effect.as_str(),
                request.created_at_ms,
                request.deadline_ms,
                self.now_ms,
                State::Accepted.as_str(),
                self.lease.as_str(),
                request.cancelled,
                request.cancelled.then_some(self.now_ms),
                request.signature,
                self.backend,
            ])?;
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
    fn admit_again(
        self,
        id: RequestId,
        then: Then,
        row: Option<&rules::Known>,
        cancelled: bool,
    ) -> Admission {
        match then {
            Then::Post => Admission::Answered(id),
            Then::Nothing => Admission::Closed(id),
            _ => Admission::InFlight(InFlight {
                id,
                conversation: self.conversation,
                state: row.map_or(State::Accepted, |row| row.state),
                cancelled: cancelled || row.is_some_and(|row| row.cancelled),
            }),
        }
    }
}

/// Hashes the parts that make two requests of one id the same: the tool and its arguments.
fn hash_of(request: &ToolRequest) -> Vec<u8> {
    let mut hash = Sha256::new();
    hash.update(request.tool.as_str());
    hash.update([0]);
    hash.update(&request.args);
    hash.finalize().to_vec()
}
