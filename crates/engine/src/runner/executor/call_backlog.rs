//! Calls that wait in the journal only, because enough wait in memory already. A backlog of any size costs only the
//! names of its conversations. Within a conversation, no call overtakes one in the backlog.

use std::collections::{HashSet, VecDeque};

use super::Executor;
use super::lanes::{LaneLoad, LaneShare};
use crate::journal::{
    AcceptedRequest, BacklogLimit, Journal, JournalError, UnfinishedRequest, WaitingRequests,
};
use crate::runner::tool_threads::run_on_blocking_thread;
use punie_core::ids::{ConversationId, RequestId};

/// The divisor for the share of the queue that one conversation may fill, so that others are not blocked by it.
const CONVERSATION_SHARE_DIVISOR: usize = 8;
/// The most bytes of arguments that wait in memory in conversations.
const MAX_QUEUED_BYTES: usize = 4 << 20;
/// The calls that may wait in memory outside conversations: control calls, tasks.
const UNORDERED_LIMIT: LaneLoad = LaneLoad {
    calls: 64,
    bytes: 2 << 20,
};
/// The cancelled calls of the backlog that may wait in memory to be answered.
const MAX_LOADED_CANCELLED: usize = 8;

/// The calls that wait in the journal only.
#[derive(Debug, Default)]
pub(in crate::runner) struct Backlog {
    /// The conversations with calls in the backlog, in the order in which they were added.
    order: VecDeque<ConversationId>,
    known: HashSet<ConversationId>,
    /// Calls that wait for no other: control calls, tasks.
    unordered: VecDeque<RequestId>,
    /// Calls that were cancelled meanwhile and are to be answered.
    cancelled: VecDeque<RequestId>,
}

impl Backlog {
    /// Creates the backlog from the calls that an earlier process left.
    pub fn from_leftovers(conversations: Vec<ConversationId>, beside: Vec<RequestId>) -> Self {
        let known = conversations.iter().cloned().collect();
        Self {
            order: conversations.into(),
            known,
            unordered: beside.into(),
            cancelled: VecDeque::new(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.order.is_empty() && self.unordered.is_empty() && self.cancelled.is_empty()
    }

    /// Returns whether a cancelled call is still to be answered.
    pub fn has_cancelled(&self) -> bool {
        !self.cancelled.is_empty()
    }

    /// Returns whether this call will be read from the journal.
    pub fn contains_call(&self, id: &RequestId, conversation: &ConversationId) -> bool {
        self.known.contains(conversation) || self.unordered.contains(id)
    }

    pub fn add_conversation(&mut self, conversation: &ConversationId) {
        if self.known.insert(conversation.clone()) {
            self.order.push_back(conversation.clone());
        }
    }
}

/// The calls to read from the journal.
struct BacklogQuery {
    taken_back: Vec<RequestId>,
    beside: Vec<RequestId>,
    conversations: Vec<(ConversationId, usize)>,
    room: BacklogLimit,
    busy: HashSet<RequestId>,
}

/// The calls that were read from the journal.
struct BacklogPage {
    taken_back: Vec<UnfinishedRequest>,
    beside: Vec<UnfinishedRequest>,
    /// `None` where no capacity was left to read them.
    conversations: Vec<(ConversationId, Option<WaitingRequests>)>,
}

impl Executor {
    /// Decides whether a call of a conversation is left in the journal for now; adds the conversation if so.
    pub fn park_ordered(&mut self, conversation: &ConversationId, bytes: usize) -> bool {
        let waiting = self.lanes.ordered_load();
        let full = waiting.calls >= self.handles.settings.calls.current().queue
            || waiting.calls > 0 && waiting.bytes + bytes > MAX_QUEUED_BYTES
            || self.lanes.waiting_count_in(conversation) >= self.conversation_quota();
        if full || self.backlog.known.contains(conversation) {
            self.backlog.add_conversation(conversation);
        }
        self.backlog.known.contains(conversation)
    }

    /// Does the same for a call that waits for no other.
    pub fn park_unordered(&mut self, id: &RequestId, bytes: usize) -> bool {
        let waiting = self.lanes.unordered_load();
        let full = waiting.calls >= UNORDERED_LIMIT.calls
            || waiting.calls > 0 && waiting.bytes + bytes > UNORDERED_LIMIT.bytes;
        if full {
            self.backlog.unordered.push_back(id.clone());
        }
        full
    }

    /// Marks a cancelled call of the backlog to be answered soon, before its turn.
    pub fn cancel_parked(&mut self, id: &RequestId) {
        self.backlog.cancelled.push_back(id.clone());
    }

    fn conversation_quota(&self) -> usize {
        (self.handles.settings.calls.current().queue / CONVERSATION_SHARE_DIVISOR).max(1)
    }

    /// Reads calls of the backlog into memory while there is capacity, each conversation in its order. Returns
    /// whether the backlog shrank.
    pub async fn load_parked(&mut self) -> bool {
        if self.backlog.is_empty() {
            return false;
        }
        let (wanted, passed_over) = self.next_query();
        self.backlog.order.extend(passed_over);
        if wanted.taken_back.is_empty()
            && wanted.beside.is_empty()
            && wanted.conversations.is_empty()
        {
            return false;
        }
        let journal = self.handles.journal.clone();
        let (found, wanted) =
            run_on_blocking_thread(move || (read_backlog(&journal, &wanted), wanted)).await;
        match found {
            Ok(found) => {
                self.place_loaded(found);
                true
            }
            Err(error) => {
                tracing::error!(%error, "waiting calls could not be read from the journal now");
                self.restore_query(wanted);
                false
            }
        }
    }

    /// Takes from the backlog the calls that there is capacity for now; also returns the conversations with enough
    /// calls in memory.
    fn next_query(&mut self) -> (BacklogQuery, Vec<ConversationId>) {
        let parked = &mut self.backlog;
        let room = MAX_LOADED_CANCELLED.saturating_sub(self.lanes.waiting_cancelled());
        let some = parked.cancelled.len().min(room);
        let taken_back = parked.cancelled.drain(..some).collect();
        let load = self.lanes.unordered_load();
        let room = if load.bytes < UNORDERED_LIMIT.bytes {
            UNORDERED_LIMIT.calls.saturating_sub(load.calls)
        } else {
            0
        };
        let beside = parked
            .unordered
            .drain(..parked.unordered.len().min(room))
            .collect();
        let load = self.lanes.ordered_load();
        let mut room = BacklogLimit {
            calls: self
                .handles
                .settings
                .calls
                .current()
                .queue
                .saturating_sub(load.calls),
            bytes: MAX_QUEUED_BYTES.saturating_sub(load.bytes),
        };
        // A quarter at a time: reading the journal for each single call would cost more than it saves.
        if load.calls > 0 && room.bytes < MAX_QUEUED_BYTES / 4 {
            room.calls = 0;
        }
        let mut conversations = Vec::new();
        let mut passed_over = Vec::new();
        for _ in 0..self.backlog.order.len() {
            if conversations.len() >= room.calls {
                break;
            }
            let Some(conversation) = self.backlog.order.pop_front() else {
                break;
            };
            let free = self
                .conversation_quota()
                .saturating_sub(self.lanes.waiting_count_in(&conversation));
            if free < self.conversation_quota().div_ceil(2) {
                passed_over.push(conversation);
            } else {
                conversations.push((conversation, free));
            }
        }
        let busy = self.calls.keys().cloned().collect();
        (
            BacklogQuery {
                taken_back,
                beside,
                conversations,
                room,
                busy,
            },
            passed_over,
        )
    }

    fn place_loaded(&mut self, found: BacklogPage) {
        for left in found.taken_back {
            self.answer_cancelled(left.into());
        }
        for left in found.beside {
            self.place_if_absent(left.into());
        }
        let mut unread = Vec::new();
        for (conversation, waiting) in found.conversations {
            let Some(waiting) = waiting else {
                unread.push(conversation);
                continue;
            };
            for left in waiting.requests {
                self.place_if_absent(left.into());
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
    fn place_if_absent(&mut self, accepted: AcceptedRequest) {
        if !self.calls.contains_key(&accepted.tool_request().id) {
            self.put_in_lane(accepted);
        }
    }

    fn answer_cancelled(&mut self, accepted: AcceptedRequest) {
        let id = accepted.tool_request().id.clone();
        if self.calls.contains_key(&id) {
            self.cancel_call(&id);
        } else {
            self.put_in_share(LaneShare::Cancelled, accepted);
        }
    }

    fn restore_query(&mut self, wanted: BacklogQuery) {
        for id in wanted.taken_back.into_iter().rev() {
            self.backlog.cancelled.push_front(id);
        }
        for id in wanted.beside.into_iter().rev() {
            self.backlog.unordered.push_front(id);
        }
        for (conversation, _) in wanted.conversations.into_iter().rev() {
            self.backlog.order.push_front(conversation);
        }
    }
}

fn read_backlog(journal: &Journal, wanted: &BacklogQuery) -> Result<BacklogPage, JournalError> {
    let reader = journal.open_reader()?;
    let all = |ids: &[RequestId]| {
        ids.iter()
            .filter_map(|id| reader.waiting_request(id).transpose())
            .collect::<Result<Vec<_>, _>>()
    };
    let taken_back = all(&wanted.taken_back)?;
    let beside = all(&wanted.beside)?;
    let mut left = wanted.room;
    let mut conversations = Vec::with_capacity(wanted.conversations.len());
    for (conversation, free) in &wanted.conversations {
        if left.calls == 0 || left.bytes == 0 {
            conversations.push((conversation.clone(), None));
            continue;
        }
        let room = BacklogLimit {
            calls: left.calls.min(*free),
            ..left
        };
        let waiting = reader.waiting_requests_in(conversation, room, &wanted.busy)?;
        let bytes: usize = waiting
            .requests
            .iter()
            .map(|left| left.request.args.len())
            .sum();
        left = BacklogLimit {
            calls: left.calls.saturating_sub(waiting.requests.len()),
            bytes: left.bytes.saturating_sub(bytes),
        };
        conversations.push((conversation.clone(), Some(waiting)));
    }
    Ok(BacklogPage {
        taken_back,
        beside,
        conversations,
    })
}
