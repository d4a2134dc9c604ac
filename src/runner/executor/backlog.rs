//! Calls that wait in the journal only, because enough wait in memory already. A backlog of any size costs only the
//! names of its conversations. Within a conversation, no call overtakes one in the backlog.

use std::collections::{HashSet, VecDeque};

use super::Executor;
use super::lanes::{Load, Share};
use crate::ids::{ConversationId, RequestId};
use crate::journal::{Accepted, Journal, JournalError, Room, Unfinished, Waiting};
use crate::runner::tool_threads::on_a_thread;

/// The divisor for the share of the queue that one conversation may fill, so that others are not blocked by it.
const ONE_CONVERSATION: usize = 8;
/// The most bytes of arguments that wait in memory in conversations.
const QUEUE_BYTES: usize = 4 << 20;
/// The calls that may wait in memory outside conversations: control calls, tasks.
const BESIDE: Load = Load { calls: 64, bytes: 2 << 20 };
/// The cancelled calls of the backlog that may wait in memory to be answered.
const TAKEN_BACK: usize = 8;

/// The calls that wait in the journal only.
#[derive(Debug, Default)]
pub(in crate::runner) struct Backlog {
    /// The conversations with calls in the backlog, in the order in which they were added.
    order: VecDeque<ConversationId>,
    known: HashSet<ConversationId>,
    /// Calls that wait for no other: control calls, tasks.
    beside: VecDeque<RequestId>,
    /// Calls that were cancelled meanwhile and are to be answered.
    taken_back: VecDeque<RequestId>,
}

impl Backlog {
    /// Creates the backlog from the calls that an earlier process left.
    pub(in crate::runner) fn left(conversations: Vec<ConversationId>, beside: Vec<RequestId>) -> Self {
        let known = conversations.iter().cloned().collect();
        Self { order: conversations.into(), known, beside: beside.into(), taken_back: VecDeque::new() }
    }

    pub(in crate::runner) fn is_empty(&self) -> bool {
        self.order.is_empty() && self.beside.is_empty() && self.taken_back.is_empty()
    }

    /// Returns whether a cancelled call is still to be answered.
    pub(in crate::runner) fn has_taken_back(&self) -> bool {
        !self.taken_back.is_empty()
    }

    /// Returns whether this call will be read from the journal.
    pub(in crate::runner) fn holds(&self, id: &RequestId, conversation: &ConversationId) -> bool {
        self.known.contains(conversation) || self.beside.contains(id)
    }

    pub(in crate::runner) fn add(&mut self, conversation: &ConversationId) {
        if self.known.insert(conversation.clone()) {
            self.order.push_back(conversation.clone());
        }
    }
}

/// The calls to read from the journal.
struct Wanted {
    taken_back: Vec<RequestId>,
    beside: Vec<RequestId>,
    conversations: Vec<(ConversationId, usize)>,
    room: Room,
    busy: HashSet<RequestId>,
}

/// The calls that were read from the journal.
struct Found {
    taken_back: Vec<Unfinished>,
    beside: Vec<Unfinished>,
    /// `None` where no capacity was left to read them.
    conversations: Vec<(ConversationId, Option<Waiting>)>,
}

impl Executor {
    /// Decides whether a call of a conversation is left in the journal for now; adds the conversation if so.
    pub(in crate::runner) fn park(&mut self, conversation: &ConversationId, bytes: usize) -> bool {
        let waiting = self.lanes.ordered();
        let full = waiting.calls >= self.runner.settings.calls.queue
            || waiting.calls > 0 && waiting.bytes + bytes > QUEUE_BYTES
            || self.lanes.waiting_in(conversation) >= self.share_of_one();
        if full || self.backlog.known.contains(conversation) {
            self.backlog.add(conversation);
        }
        self.backlog.known.contains(conversation)
    }

    /// Does the same for a call that waits for no other.
    pub(in crate::runner) fn park_beside(&mut self, id: &RequestId, bytes: usize) -> bool {
        let waiting = self.lanes.beside();
        let full = waiting.calls >= BESIDE.calls || waiting.calls > 0 && waiting.bytes + bytes > BESIDE.bytes;
        if full {
            self.backlog.beside.push_back(id.clone());
        }
        full
    }

    /// Marks a cancelled call of the backlog to be answered soon, before its turn.
    pub(in crate::runner) fn cancel_parked(&mut self, id: &RequestId) {
        self.backlog.taken_back.push_back(id.clone());
    }

    fn share_of_one(&self) -> usize {
        (self.runner.settings.calls.queue / ONE_CONVERSATION).max(1)
    }

    /// Reads calls of the backlog into memory while there is capacity, each conversation in its order. Returns
    /// whether the backlog shrank.
    pub(in crate::runner) async fn take_up_parked(&mut self) -> bool {
        if self.backlog.is_empty() {
            return false;
        }
        let (wanted, passed_over) = self.wanted();
        self.backlog.order.extend(passed_over);
        if wanted.taken_back.is_empty() && wanted.beside.is_empty() && wanted.conversations.is_empty() {
            return false;
        }
        let journal = self.runner.journal.clone();
        let (found, wanted) = on_a_thread(move || (read(&journal, &wanted), wanted)).await;
        match found {
            Ok(found) => {
                self.place_found(found);
                true
            }
            Err(error) => {
                tracing::error!(%error, "waiting calls could not be read from the journal now");
                self.want_again(wanted);
                false
            }
        }
    }

    /// Takes from the backlog the calls that there is capacity for now; also returns the conversations with enough
    /// calls in memory.
    fn wanted(&mut self) -> (Wanted, Vec<ConversationId>) {
        let parked = &mut self.backlog;
        let room = TAKEN_BACK.saturating_sub(self.lanes.waiting_taken_back());
        let some = parked.taken_back.len().min(room);
        let taken_back = parked.taken_back.drain(..some).collect();
        let load = self.lanes.beside();
        let room = if load.bytes < BESIDE.bytes { BESIDE.calls.saturating_sub(load.calls) } else { 0 };
        let beside = parked.beside.drain(..parked.beside.len().min(room)).collect();
        let load = self.lanes.ordered();
        let mut room = Room {
            calls: self.runner.settings.calls.queue.saturating_sub(load.calls),
            bytes: QUEUE_BYTES.saturating_sub(load.bytes),
        };
        // A quarter at a time: reading the journal for each single call would cost more than it saves.
        if load.calls > 0 && room.bytes < QUEUE_BYTES / 4 {
            room.calls = 0;
        }
        let (mut conversations, mut passed_over) = (Vec::new(), Vec::new());
        for _ in 0..self.backlog.order.len() {
            if conversations.len() >= room.calls {
                break;
            }
            let Some(conversation) = self.backlog.order.pop_front() else { break };
            let free = self.share_of_one().saturating_sub(self.lanes.waiting_in(&conversation));
            if free < self.share_of_one().div_ceil(2) {
                passed_over.push(conversation);
            } else {
                conversations.push((conversation, free));
            }
        }
        let busy = self.calls.keys().cloned().collect();
        (Wanted { taken_back, beside, conversations, room, busy }, passed_over)
    }

    fn place_found(&mut self, found: Found) {
        for left in found.taken_back {
            self.answer_taken_back(left.into());
        }
        for left in found.beside {
            self.place_again(left.into());
        }
        let mut unread = Vec::new();
        for (conversation, waiting) in found.conversations {
            let Some(waiting) = waiting else {
                unread.push(conversation);
                continue;
            };
            for left in waiting.requests {
                self.place_again(left.into());
            }
            if waiting.more {
                self.backlog.order.push_back(conversation);
            } else {
                self.backlog.known.remove(&conversation);
            }
        }
        for conversation in unread.into_iter().rev() {
            self.backlog.order.push_front(conversation);
        }
    }

    /// Places a call from the journal, unless it is in memory by now.
    fn place_again(&mut self, accepted: Accepted) {
        if !self.calls.contains_key(&accepted.request().id) {
            self.put_in_lane(accepted);
        }
    }

    fn answer_taken_back(&mut self, accepted: Accepted) {
        let id = accepted.request().id.clone();
        if self.calls.contains_key(&id) {
            self.cancel(&id);
        } else {
            self.put_in(Share::TakenBack, accepted);
        }
    }

    fn want_again(&mut self, wanted: Wanted) {
        for id in wanted.taken_back.into_iter().rev() {
            self.backlog.taken_back.push_front(id);
        }
        for id in wanted.beside.into_iter().rev() {
            self.backlog.beside.push_front(id);
        }
        for (conversation, _) in wanted.conversations.into_iter().rev() {
            self.backlog.order.push_front(conversation);
        }
    }
}

fn read(journal: &Journal, wanted: &Wanted) -> Result<Found, JournalError> {
    let reader = journal.reader()?;
    let all = |ids: &[RequestId]| {
        ids.iter().filter_map(|id| reader.waiting(id).transpose()).collect::<Result<Vec<_>, _>>()
    };
    let (taken_back, beside) = (all(&wanted.taken_back)?, all(&wanted.beside)?);
    let mut left = wanted.room;
    let mut conversations = Vec::with_capacity(wanted.conversations.len());
    for (conversation, free) in &wanted.conversations {
        if left.calls == 0 || left.bytes == 0 {
            conversations.push((conversation.clone(), None));
            continue;
        }
        let room = Room { calls: left.calls.min(*free), ..left };
        let waiting = reader.waiting_in(conversation, room, &wanted.busy)?;
        let bytes: usize = waiting.requests.iter().map(|left| left.request.args.len()).sum();
        left = Room {
            calls: left.calls.saturating_sub(waiting.requests.len()),
            bytes: left.bytes.saturating_sub(bytes),
        };
        conversations.push((conversation.clone(), Some(waiting)));
    }
    Ok(Found { taken_back, beside, conversations })
}
