//! The order in which calls start. Within a conversation they start in order: effects alone, reads at the same time.
//! Conversations run at the same time and take turns. Each kind of call has its own places, so that slow commands
//! block no reads. This file uses no clocks and no I/O.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use punie_core::ids::ConversationId;

/// Control calls and questions to people that run at the same time.
const MAX_CONTROL_CALLS: usize = 32;
/// Answers to calls cancelled before they began, at the same time.
const MAX_CANCELLED_CALLS: usize = 16;
/// Long-running reads that hold no place.
const MAX_LONG_READS: usize = 16;
/// Long-running control calls that hold no place: most of them wait for something.
const MAX_LONG_CONTROL_CALLS: usize = 96;

/// The limit for the argument bytes of all running effects, if any of them is [`LARGE_ARGS_BYTES`]. One always runs.
const MAX_RUNNING_BYTES: usize = 4 << 20;
/// Arguments of fewer bytes do not count.
const LARGE_ARGS_BYTES: usize = 64 << 10;

/// The way in which a call shares its conversation with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::runner) enum LaneShare {
    /// At the same time as other reads of the conversation, never before an earlier effect of it.
    Read,
    /// Alone in its conversation.
    Effect,
    /// Independent of everything: control tools, questions to a person.
    Free,
    /// Independent of every conversation, a few at once, because long work must not take the places of short calls.
    Task,
    /// Cancelled before it began: it is only answered, independent of everything.
    Cancelled,
}

impl LaneShare {
    /// Returns the time after which a call gives up its place and runs on without one: a hanging read of a network
    /// disk must not block the other reads.
    pub fn place_limit(self) -> Option<Duration> {
        match self {
            Self::Read => Some(Duration::from_secs(5)),
            Self::Free => Some(Duration::from_secs(1)),
            Self::Effect | Self::Task | Self::Cancelled => None,
        }
    }

    fn is_ordered(self) -> bool {
        matches!(self, Self::Read | Self::Effect)
    }

    /// Returns whether a call that waits for a person lends its place to others.
    fn lends_place(self) -> bool {
        matches!(self, Self::Read | Self::Effect | Self::Free)
    }

    /// Returns how many long-running calls of this kind may hold no place.
    fn most_without_place(self) -> usize {
        match self {
            Self::Read => MAX_LONG_READS,
            Self::Free => MAX_LONG_CONTROL_CALLS,
            Self::Effect | Self::Task | Self::Cancelled => 0,
        }
    }
}

/// The number of kinds of [`LaneShare`].
const SHARES: usize = LaneShare::Cancelled as usize + 1;

/// A number of calls and the bytes of their arguments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::runner) struct LaneLoad {
    pub calls: usize,
    pub bytes: usize,
}

impl LaneLoad {
    fn add_call(&mut self, bytes: usize) {
        self.calls += 1;
        self.bytes += bytes;
    }

    fn remove_call(&mut self, bytes: usize) {
        self.calls = self.calls.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

/// The most calls of each kind that run at once.
#[derive(Debug, Clone, Copy)]
pub(in crate::runner) struct LanePlaces {
    pub reads: usize,
    pub effects: usize,
    pub tasks: usize,
}

/// The waiting calls and the counts of the running ones.
#[derive(Debug)]
pub(in crate::runner) struct Lanes<T> {
    places: LanePlaces,
    conversations: HashMap<ConversationId, ConversationLane<T>>,
    /// The conversations with waiting calls, in turn.
    turns: VecDeque<ConversationId>,
    /// The calls that wait outside conversations, by share.
    unordered_calls: [VecDeque<LaneEntry<T>>; SHARES],
    /// The running calls that hold a place, by share.
    running: [usize; SHARES],
    /// The long-running calls that hold no place, by share.
    long_running: [usize; SHARES],
    /// The argument bytes of running effects with large arguments.
    running_bytes: usize,
    /// The calls that wait in conversations.
    ordered: LaneLoad,
    /// The calls that wait outside conversations.
    unordered: LaneLoad,
}

#[derive(Debug)]
struct LaneEntry<T> {
    bytes: usize,
    call: T,
}

#[derive(Debug)]
struct ConversationLane<T> {
    waiting: VecDeque<(LaneShare, LaneEntry<T>)>,
    reads: usize,
    effects: usize,
}

impl<T> ConversationLane<T> {
    fn can_admit(&self, share: LaneShare) -> bool {
        self.effects == 0 && (share == LaneShare::Read || self.reads == 0)
    }

    fn is_unused(&self) -> bool {
        self.waiting.is_empty() && self.reads == 0 && self.effects == 0
    }
}

impl<T> Lanes<T> {
    pub fn new(places: LanePlaces) -> Self {
        Self {
            places,
            conversations: HashMap::new(),
            turns: VecDeque::new(),
            unordered_calls: std::array::from_fn(|_| VecDeque::new()),
            running: [0; SHARES],
            long_running: [0; SHARES],
            running_bytes: 0,
            ordered: LaneLoad::default(),
            unordered: LaneLoad::default(),
        }
    }

    /// Sets the number of places. Calls that run keep theirs.
    pub fn set_places(&mut self, places: LanePlaces) {
        self.places = places;
    }

    /// Adds a call with this many argument bytes at the end of its conversation.
    pub fn enqueue_call(
        &mut self,
        conversation: &ConversationId,
        share: LaneShare,
        bytes: usize,
        call: T,
    ) {
        let waiting = LaneEntry { bytes, call };
        if !share.is_ordered() {
            self.unordered.add_call(bytes);
            return self.unordered_calls[share as usize].push_back(waiting);
        }
        self.ordered.add_call(bytes);
        let lane = self
            .conversations
            .entry(conversation.clone())
            .or_insert_with(|| ConversationLane {
                waiting: VecDeque::new(),
                reads: 0,
                effects: 0,
            });
        if lane.waiting.is_empty() {
            self.turns.push_back(conversation.clone());
        }
        lane.waiting.push_back((share, waiting));
    }

    /// Returns the next cancelled call to answer; it counts as running from now on.
    pub fn next_cancelled(&mut self) -> Option<T> {
        self.start_unordered(LaneShare::Cancelled)
    }

    /// Returns the next call that may start, if any; it counts as running from now on.
    pub fn next(&mut self) -> Option<T> {
        if let Some(call) = self
            .start_unordered(LaneShare::Free)
            .or_else(|| self.start_unordered(LaneShare::Task))
        {
            return Some(call);
        }
        if !self.has_free_place(LaneShare::Read) && !self.has_free_place(LaneShare::Effect) {
            return None;
        }
        // Conversations that cannot start a call keep their turn.
        let at = self
            .turns
            .iter()
            .position(|conversation| self.can_start(conversation))?;
        let conversation = self.turns.remove(at)?;
        self.start_first_in(conversation)
    }

    fn has_free_place(&self, share: LaneShare) -> bool {
        let places = match share {
            LaneShare::Read => self.places.reads,
            LaneShare::Effect => self.places.effects,
            LaneShare::Free => MAX_CONTROL_CALLS,
            LaneShare::Task => self.places.tasks,
            LaneShare::Cancelled => MAX_CANCELLED_CALLS,
        };
        self.running[share as usize] < places
    }

    fn start_unordered(&mut self, share: LaneShare) -> Option<T> {
        if !self.has_free_place(share) {
            return None;
        }
        let first = self.unordered_calls[share as usize].pop_front()?;
        self.running[share as usize] += 1;
        self.unordered.remove_call(first.bytes);
        Some(first.call)
    }

    fn can_start(&self, conversation: &ConversationId) -> bool {
        let Some(lane) = self.conversations.get(conversation) else {
            return false;
        };
        let Some((share, first)) = lane.waiting.front() else {
            return false;
        };
        let large = countable_bytes(first.bytes);
        let has_room = *share == LaneShare::Read
            || large == 0
            || self.running_bytes == 0
            || self.running_bytes + large <= MAX_RUNNING_BYTES;
        has_room && self.has_free_place(*share) && lane.can_admit(*share)
    }

    fn start_first_in(&mut self, conversation: ConversationId) -> Option<T> {
        let lane = self.conversations.get_mut(&conversation)?;
        let (share, first) = lane.waiting.pop_front()?;
        self.running[share as usize] += 1;
        if share == LaneShare::Read {
            lane.reads += 1;
        } else {
            lane.effects += 1;
            self.running_bytes += countable_bytes(first.bytes);
        }
        if !lane.waiting.is_empty() {
            self.turns.push_back(conversation);
        }
        self.ordered.remove_call(first.bytes);
        Some(first.call)
    }

    /// Frees the place of a started call that waits for a person; it keeps its turn in its conversation.
    pub fn free_place(&mut self, share: LaneShare) {
        if share.lends_place() {
            self.remove_running(share);
        }
    }

    /// Takes the place again at once: for a while more calls may run than there are places.
    pub fn retake_place(&mut self, share: LaneShare) {
        if share.lends_place() {
            self.running[share as usize] += 1;
        }
    }

    fn remove_running(&mut self, share: LaneShare) {
        let running = &mut self.running[share as usize];
        *running = running.saturating_sub(1);
    }

    /// Frees the place of a started call that has run for long, unless too many calls run without one. Returns
    /// whether it did.
    pub fn try_release_place(&mut self, share: LaneShare) -> bool {
        let long = &mut self.long_running[share as usize];
        if *long >= share.most_without_place() {
            return false;
        }
        *long += 1;
        self.free_place(share);
        true
    }

    /// Records that a call without its place ends. To be called before [`Self::finish_call`].
    pub fn finish_without_place(&mut self, share: LaneShare) {
        if share.most_without_place() > 0 {
            let long = &mut self.long_running[share as usize];
            *long = long.saturating_sub(1);
            self.retake_place(share);
        }
    }

    /// Records that a started call ended.
    pub fn finish_call(&mut self, conversation: &ConversationId, share: LaneShare, bytes: usize) {
        self.remove_running(share);
        if share == LaneShare::Effect {
            self.running_bytes = self.running_bytes.saturating_sub(countable_bytes(bytes));
        }
        if !share.is_ordered() {
            return;
        }
        let Some(lane) = self.conversations.get_mut(conversation) else {
            return;
        };
        if share == LaneShare::Read {
            lane.reads = lane.reads.saturating_sub(1);
        } else {
            lane.effects = lane.effects.saturating_sub(1);
        }
        if lane.is_unused() {
            self.conversations.remove(conversation);
        }
    }

    /// Removes a waiting call from its conversation.
    pub fn remove_waiting(
        &mut self,
        conversation: &ConversationId,
        is_it: impl Fn(&T) -> bool,
    ) -> Option<T> {
        for share in [LaneShare::Free, LaneShare::Task] {
            let calls = &mut self.unordered_calls[share as usize];
            if let Some(at) = calls.iter().position(|waiting| is_it(&waiting.call)) {
                let waiting = calls.remove(at)?;
                self.unordered.remove_call(waiting.bytes);
                return Some(waiting.call);
            }
        }
        let lane = self.conversations.get_mut(conversation)?;
        let at = lane
            .waiting
            .iter()
            .position(|(_, waiting)| is_it(&waiting.call))?;
        let (_, waiting) = lane.waiting.remove(at)?;
        self.ordered.remove_call(waiting.bytes);
        if lane.waiting.is_empty() {
            self.turns.retain(|turn| turn != conversation);
            if lane.is_unused() {
                self.conversations.remove(conversation);
            }
        }
        Some(waiting.call)
    }

    /// Returns how many calls of a conversation wait.
    pub fn waiting_count_in(&self, conversation: &ConversationId) -> usize {
        self.conversations
            .get(conversation)
            .map_or(0, |lane| lane.waiting.len())
    }

    /// Returns the load that waits in conversations.
    pub fn ordered_load(&self) -> LaneLoad {
        self.ordered
    }

    /// Returns the load that waits outside conversations.
    pub fn unordered_load(&self) -> LaneLoad {
        self.unordered
    }

    /// Returns how many cancelled calls wait.
    pub fn waiting_cancelled(&self) -> usize {
        self.unordered_calls[LaneShare::Cancelled as usize].len()
    }

    /// Returns how many calls wait.
    pub fn waiting_count(&self) -> usize {
        self.ordered.calls + self.unordered.calls
    }
}

fn countable_bytes(bytes: usize) -> usize {
    if bytes < LARGE_ARGS_BYTES { 0 } else { bytes }
}

#[cfg(test)]
mod tests;
