//! Calls that wait in the journal only, because enough wait in memory already: a backlog of any size costs the runner
//! the names of its conversations. Within a conversation nothing overtakes what is parked.

use std::collections::{HashSet, VecDeque};

use super::Runner;
use crate::ids::{ConversationId, RequestId};
use crate::journal::{Accepted, JournalError};

/// The share of the queue that one conversation may fill, so that the others are not held up by it.
const ONE_CONVERSATION: usize = 8;

/// The conversations with parked calls, in the order in which they were first parked.
#[derive(Debug, Default)]
pub(super) struct Parked {
    order: VecDeque<ConversationId>,
    known: HashSet<ConversationId>,
}

impl Parked {
    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    pub(super) fn has(&self, conversation: &ConversationId) -> bool {
        self.known.contains(conversation)
    }

    fn add(&mut self, conversation: &ConversationId) {
        if self.known.insert(conversation.clone()) {
            self.order.push_back(conversation.clone());
        }
    }
}

impl Runner {
    /// Whether a call that would wait is better left in the journal.
    pub(super) fn park(&mut self, conversation: &ConversationId) -> bool {
        let full = self.lanes.waiting() >= self.engine.settings.queue
            || self.lanes.waiting_in(conversation) >= self.share_of_one();
        if full || self.parked.has(conversation) {
            self.parked.add(conversation);
        }
        self.parked.has(conversation)
    }

    fn share_of_one(&self) -> usize {
        (self.engine.settings.queue / ONE_CONVERSATION).max(1)
    }

    /// Takes parked calls up again, as far as there is room, each conversation in its order.
    pub(super) fn take_up_parked(&mut self) {
        for _ in 0..self.parked.order.len() {
            if self.lanes.waiting() >= self.engine.settings.queue {
                return;
            }
            let Some(conversation) = self.parked.order.pop_front() else { return };
            let room = self.share_of_one().saturating_sub(self.lanes.waiting_in(&conversation));
            // Half a share at a time: a look at the journal for each single call would cost more than it saves.
            if room < self.share_of_one().div_ceil(2) {
                self.parked.order.push_back(conversation);
                continue;
            }
            match self.parked_calls(&conversation, room) {
                Ok(calls) => {
                    let more = calls.len() == room;
                    for call in calls {
                        self.put_in_lane(call);
                    }
                    if more {
                        self.parked.order.push_back(conversation);
                    } else {
                        self.parked.known.remove(&conversation);
                    }
                }
                Err(error) => {
                    tracing::error!(%error, "waiting calls could not be read from the journal now");
                    self.parked.order.push_back(conversation);
                    return;
                }
            }
        }
    }

    fn parked_calls(
        &self,
        conversation: &ConversationId,
        room: usize,
    ) -> Result<Vec<Accepted>, JournalError> {
        let reader = self.engine.journal.reader()?;
        let in_memory = |id: &RequestId| self.calls.contains_key(id);
        Ok(reader.waiting_in(conversation, room, in_memory)?.into_iter().map(Accepted::from).collect())
    }

    /// A parked call that the caller takes back is answered at once, not when its turn comes.
    pub(super) fn cancel_parked(&mut self, id: &RequestId) {
        let found = self.engine.journal.reader().and_then(|reader| reader.waiting(id));
        match found {
            Ok(Some(left)) => self.start_cancelled(left.into()),
            Ok(None) => {}
            Err(error) => {
                tracing::error!(request.id = %id, %error, "a waiting call could not be read from the journal");
            }
        }
    }
}
