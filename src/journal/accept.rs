//! Taking a page of offers: one transaction for all of its requests, cancels and the cursor.

use rusqlite::{OptionalExtension, Transaction, params};
use sha2::{Digest, Sha256};

use super::entry::{Origin, RecordedReply, State, Stored, Unfinished};
use super::writer::Durability;
use super::{Journal, JournalError};
use crate::ids::{LeaseId, RequestId};
use crate::request::{CleanReply, Effect, ToolRequest};

/// A request that is promised: it will be answered whatever happens. Only the journal makes one.
#[derive(Debug, Clone)]
pub struct Accepted {
    request: ToolRequest,
    effect: Effect,
    origin: Origin,
    lease: LeaseId,
}

impl Accepted {
    pub(super) fn new(request: ToolRequest, effect: Effect, origin: Origin, lease: LeaseId) -> Self {
        Self { request, effect, origin, lease }
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
    /// Answered before, not yet acknowledged: post it again.
    Answered(RecordedReply),
    /// Promised before and not answered yet: being worked on, or to be begun where nobody does.
    InFlight(Unfinished),
    /// Answered and acknowledged.
    Closed(RequestId),
    /// Known with other arguments: neither run nor answered.
    Conflict(Conflict),
    /// Known, not finished: to be cancelled.
    Cancel(RequestId),
}

/// Two different requests under one id.
#[derive(Debug, Clone)]
pub struct Conflict {
    /// The id they share.
    pub id: RequestId,
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
                    super::transitions::set_kv(transaction, "cursor", &cursor)?;
                }
                Ok(admissions)
            })
            .await
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
        if let Some(mut known) = self.known(&request.id, &hash)? {
            if let Admission::InFlight(left) = &mut known
                && request.cancelled
            {
                self.cancel(request.id)?;
                left.request.cancelled = true;
            }
            return Ok(known);
        }
        self.insert(&request, effect, &hash, State::Accepted)?;
        Ok(Admission::Fresh(Accepted::new(request, effect, self.origin, self.lease.clone())))
    }

    fn refusal(&self, refusal: &Refusal) -> Result<Admission, JournalError> {
        let hash = hash_of(&refusal.request);
        if let Some(known) = self.known(&refusal.request.id, &hash)? {
            return Ok(known);
        }
        self.insert(&refusal.request, Effect::Reads, &hash, State::Accepted)?;
        let recorded =
            super::transitions::finish(self.transaction, &refusal.request.id, &refusal.reply, self.now_ms)?;
        Ok(Admission::Answered(recorded))
    }

    fn cancel(&self, id: RequestId) -> Result<Option<Admission>, JournalError> {
        let changed = self
            .transaction
            .prepare_cached(
                "update request set cancel_requested = 1 where id = ? and state in ('accepted', 'started')",
            )?
            .execute([id.as_str()])?;
        Ok((changed == 1).then_some(Admission::Cancel(id)))
    }

    /// What is already known of this id, if anything.
    fn known(&self, id: &RequestId, hash: &[u8]) -> Result<Option<Admission>, JournalError> {
        let row = self
            .transaction
            .prepare_cached("select args_hash, state from request where id = ?")?
            .query_row([id.as_str()], |row| {
                Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, Stored<State>>(1)?.0))
            })
            .optional()?;
        let Some((known_hash, state)) = row else { return Ok(None) };
        if known_hash != hash {
            return Ok(Some(Admission::Conflict(Conflict { id: id.clone() })));
        }
        Ok(Some(match state {
            State::Accepted | State::Started => {
                Admission::InFlight(super::read::unfinished(self.transaction, id)?)
            }
            State::Finished => Admission::Answered(super::read::recorded(self.transaction, id)?),
            State::Delivered | State::Undeliverable => Admission::Closed(id.clone()),
        }))
    }

    fn insert(
        &self,
        request: &ToolRequest,
        effect: Effect,
        hash: &[u8],
        state: State,
    ) -> Result<(), JournalError> {
        self.transaction
            .prepare_cached(
                "insert into request (id, origin, tool, args, args_hash, conversation, agent_type, effect, \
                 created_at_ms, deadline_ms, received_at_ms, state, lease_id, cancel_requested) \
                 values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
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
                state.as_str(),
                self.lease.as_str(),
                request.cancelled,
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
