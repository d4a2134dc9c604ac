//! Taking a page of offers: one transaction for all of its requests, cancels and the cursor.

use std::sync::Arc;

use rusqlite::{OptionalExtension, Transaction, params};
use sha2::{Digest, Sha256};

use super::entry::{Origin, RecordedReply, State};
use super::rules::{self, Event, Then};
use super::writer::Durability;
use super::{Journal, JournalError, steps};
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
    /// What its tool may do.
    pub fn effect(&self) -> Effect {
        self.effect
    }
    /// Where it came from.
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
}

/// The answer to a request that cannot be read beyond its id.
#[derive(Debug, Clone)]
pub struct Refusal {
    /// The request with what could be read of it.
    pub request: ToolRequest,
    /// The answer.
    pub reply: CleanReply,
}

/// What became of an offer.
#[derive(Debug, Clone)]
pub enum Admission {
    /// New, and now promised.
    Fresh(Accepted),
    /// New and refused at the door: post the answer.
    Refused(RecordedReply),
    /// Answered before, not yet acknowledged: post it again.
    Answered(RequestId),
    /// Promised before and not answered yet: being worked on, or to be begun where nobody does.
    InFlight(InFlight),
    /// Answered and acknowledged.
    Closed(RequestId),
    /// Known with other arguments: neither run nor answered.
    Conflict(Conflict),
    /// Known, not finished: to be cancelled.
    Cancel(RequestId),
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
    /// Whether the caller took it back.
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
        let lease = lease.clone();
        self.writer
            .write(durability, move |transaction| {
                let page = Page { transaction, origin, lease, now_ms };
                let mut admissions = Vec::with_capacity(offers.len());
                for offer in offers {
                    admissions.extend(page.take(offer)?);
                }
                if let Some(cursor) = cursor {
                    move_cursor(transaction, &cursor)?;
                }
                Ok(admissions)
            })
            .await
    }
}

/// Moves the cursor on, never back.
fn move_cursor(transaction: &Transaction<'_>, offered: &str) -> rusqlite::Result<()> {
    let stands: Option<String> = transaction
        .prepare_cached("select value from kv where key = 'cursor'")?
        .query_row([], |row| row.get(0))
        .optional()?;
    match rules::cursor(stands.as_deref(), offered) {
        Some(cursor) => super::transitions::set_kv(transaction, "cursor", cursor),
        None => Ok(()),
    }
}

struct Page<'a> {
    transaction: &'a Transaction<'a>,
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

    fn cancel(&self, id: RequestId) -> Result<Option<Admission>, JournalError> {
        let (then, _) = steps::take(self.transaction, &id, Event::TakenBack, self.now_ms)?;
        Ok((then == Then::Stop).then_some(Admission::Cancel(id)))
    }

    /// What an offer of a known request comes to; none of one that is new.
    fn offered(&self, request: &ToolRequest, hash: &[u8]) -> Result<Option<Admission>, JournalError> {
        let id = &request.id;
        let known_hash: Option<Vec<u8>> = self
            .transaction
            .prepare_cached("select args_hash from request where id = ?")?
            .query_row([id.as_str()], |row| row.get(0))
            .optional()?;
        let Some(known_hash) = known_hash else { return Ok(None) };
        let event = Event::Offered { same: known_hash == hash, cancelled: request.cancelled };
        let (then, known) = steps::take(self.transaction, id, event, self.now_ms)?;
        Ok(Some(match then {
            Then::Conflict => {
                let said = format!("{} with other arguments", request.tool);
                steps::incident(self.transaction, id, "conflict", Some(&said), self.now_ms)?;
                Admission::Conflict(Conflict { id: id.clone(), request: request.clone() })
            }
            Then::Post => Admission::Answered(id.clone()),
            Then::Nothing => Admission::Closed(id.clone()),
            _ => Admission::InFlight(InFlight {
                id: id.clone(),
                conversation: request.conversation.clone(),
                state: known.map_or(State::Accepted, |known| known.state),
                cancelled: request.cancelled || known.is_some_and(|known| known.cancelled),
            }),
        }))
    }

    fn insert(&self, request: &ToolRequest, effect: Effect, hash: &[u8]) -> Result<(), JournalError> {
        self.transaction
            .prepare_cached(
                "insert into request (id, origin, tool, args, args_hash, conversation, agent_type, effect, \
                 created_at_ms, deadline_ms, received_at_ms, state, lease_id, cancel_requested, cancel_requested_at_ms, \
                 signature) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
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
            ])?;
        Ok(())
    }
}

/// What makes two requests of one id the same request: the tool and its arguments.
fn hash_of(request: &ToolRequest) -> Vec<u8> {
    let mut hash = Sha256::new();
    hash.update(request.tool.as_str());
    hash.update([0]);
    hash.update(&request.args);
    hash.finalize().to_vec()
}
