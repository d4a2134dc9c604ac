//! The order in which calls start. Within a conversation they start in order: effects alone, reads at the same time.
//! Conversations run at the same time and take turns. Each kind of call has its own places, so that slow commands
//! block no reads. This file uses no clocks and no I/O.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use crate::ids::ConversationId;

/// Control calls and questions to people that run at the same time.
const CONTROL: usize = 32;
/// Answers to calls cancelled before they began, at the same time.
const TAKEN_BACK: usize = 16;
/// Long-running reads that hold no place.
const LONG_READS: usize = 16;
/// Long-running control calls that hold no place: most of them wait for something.
const LONG_CONTROL: usize = 96;

/// The limit for the argument bytes of all running effects, if any of them is [`LARGE`]. One always runs.
const RUNNING_BYTES: usize = 4 << 20;
/// Arguments of fewer bytes do not count.
const LARGE: usize = 64 << 10;

/// The way in which a call shares its conversation with others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::runner) enum Share {
    /// At the same time as other reads of the conversation, never before an earlier effect of it.
    Read,
    /// Alone in its conversation.
    Effect,
    /// Independent of everything: control tools, questions to a person.
    Free,
    /// Independent of every conversation, a few at once, because long work must not take the places of short calls.
    Task,
    /// Cancelled before it began: it is only answered, independent of everything.
    TakenBack,
}

impl Share {
    /// Returns the time after which a call gives up its place and runs on without one: a hanging read of a network
    /// disk must not block the other reads.
    pub(in crate::runner) fn gives_back_after(self) -> Option<Duration> {
        match self {
            Self::Read => Some(Duration::from_secs(5)),
            Self::Free => Some(Duration::from_secs(1)),
            Self::Effect | Self::Task | Self::TakenBack => None,
        }
    }

    fn is_ordered(self) -> bool {
        matches!(self, Self::Read | Self::Effect)
    }
}

/// A number of calls and the bytes of their arguments.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::runner) struct Load {
    pub calls: usize,
    pub bytes: usize,
}

impl Load {
    fn add(&mut self, bytes: usize) {
        self.calls += 1;
        self.bytes += bytes;
    }

    fn remove(&mut self, bytes: usize) {
        self.calls = self.calls.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

/// The most calls of each kind that run at once.
#[derive(Debug, Clone, Copy)]
pub(in crate::runner) struct Places {
    pub reads: usize,
    pub effects: usize,
    pub tasks: usize,
}

/// The waiting calls and the counts of the running ones.
#[derive(Debug)]
pub(in crate::runner) struct Lanes<T> {
    places: Places,
    conversations: HashMap<ConversationId, Lane<T>>,
    /// The conversations with waiting calls, in turn.
    turns: VecDeque<ConversationId>,
    free: VecDeque<Waiting<T>>,
    tasks: VecDeque<Waiting<T>>,
    taken_back: VecDeque<Waiting<T>>,
    reads: usize,
    effects: usize,
    running_free: usize,
    running_tasks: usize,
    running_taken_back: usize,
    /// The argument bytes of running effects with large arguments.
    running_bytes: usize,
    long_reads: usize,
    long_free: usize,
    /// The calls that wait in conversations.
    ordered: Load,
    /// The calls that wait outside conversations.
    beside: Load,
}

#[derive(Debug)]
struct Waiting<T> {
    bytes: usize,
    call: T,
}

#[derive(Debug)]
struct Lane<T> {
    waiting: VecDeque<(Share, Waiting<T>)>,
    reads: usize,
    effects: usize,
}

impl<T> Lane<T> {
    fn admits(&self, share: Share) -> bool {
        self.effects == 0 && (share == Share::Read || self.reads == 0)
    }

    fn is_over(&self) -> bool {
        self.waiting.is_empty() && self.reads == 0 && self.effects == 0
    }
}

impl<T> Lanes<T> {
    pub(in crate::runner) fn new(places: Places) -> Self {
        Self {
            places,
            conversations: HashMap::new(),
            turns: VecDeque::new(),
            free: VecDeque::new(),
            tasks: VecDeque::new(),
            taken_back: VecDeque::new(),
            reads: 0,
            effects: 0,
            running_free: 0,
            running_tasks: 0,
            running_taken_back: 0,
            running_bytes: 0,
            long_reads: 0,
            long_free: 0,
            ordered: Load::default(),
            beside: Load::default(),
        }
    }

    /// Adds a call with this many argument bytes at the end of its conversation.
    pub(in crate::runner) fn place(
        &mut self,
        conversation: &ConversationId,
        share: Share,
        bytes: usize,
        call: T,
    ) {
        let waiting = Waiting { bytes, call };
        if share.is_ordered() {
            self.ordered.add(bytes);
        } else {
            self.beside.add(bytes);
        }
        match share {
            Share::Free => return self.free.push_back(waiting),
            Share::Task => return self.tasks.push_back(waiting),
            Share::TakenBack => return self.taken_back.push_back(waiting),
            Share::Read | Share::Effect => {}
        }
        let lane = self.conversations.entry(conversation.clone()).or_insert_with(|| Lane {
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
    pub(in crate::runner) fn next_taken_back(&mut self) -> Option<T> {
        if self.running_taken_back >= TAKEN_BACK {
            return None;
        }
        let waiting = self.taken_back.pop_front()?;
        self.running_taken_back += 1;
        Some(self.begin_beside(waiting))
    }

    /// Returns the next call that may start, if any; it counts as running from now on.
    pub(in crate::runner) fn next(&mut self) -> Option<T> {
        if self.running_free < CONTROL
            && let Some(control) = self.free.pop_front()
        {
            self.running_free += 1;
            return Some(self.begin_beside(control));
        }
        if self.running_tasks < self.places.tasks
            && let Some(task) = self.tasks.pop_front()
        {
            self.running_tasks += 1;
            return Some(self.begin_beside(task));
        }
        if self.reads >= self.places.reads && self.effects >= self.places.effects {
            return None;
        }
        // Conversations that cannot start a call keep their turn.
        let at = self.turns.iter().position(|conversation| self.can_start(conversation))?;
        let conversation = self.turns.remove(at)?;
        self.start_first(conversation)
    }

    fn begin_beside(&mut self, waiting: Waiting<T>) -> T {
        self.beside.remove(waiting.bytes);
        waiting.call
    }

    fn can_start(&self, conversation: &ConversationId) -> bool {
        let Some(lane) = self.conversations.get(conversation) else { return false };
        let Some((share, first)) = lane.waiting.front() else { return false };
        let has_place = if *share == Share::Read {
            self.reads < self.places.reads
        } else {
            let large = counted(first.bytes);
            let fits = self.running_bytes == 0 || self.running_bytes + large <= RUNNING_BYTES;
            self.effects < self.places.effects && (large == 0 || fits)
        };
        has_place && lane.admits(*share)
    }

    fn start_first(&mut self, conversation: ConversationId) -> Option<T> {
        let lane = self.conversations.get_mut(&conversation)?;
        let (share, first) = lane.waiting.pop_front()?;
        if share == Share::Read {
            lane.reads += 1;
            self.reads += 1;
        } else {
            lane.effects += 1;
            self.effects += 1;
            self.running_bytes += counted(first.bytes);
        }
        if !lane.waiting.is_empty() {
            self.turns.push_back(conversation);
        }
        self.ordered.remove(first.bytes);
        Some(first.call)
    }

    /// Frees the place of a started call that waits for a person; it keeps its turn in its conversation.
    pub(in crate::runner) fn step_aside(&mut self, share: Share) {
        if let Some(running) = self.running(share) {
            *running = running.saturating_sub(1);
        }
    }

    /// Takes the place again at once: for a while more calls may run than there are places.
    pub(in crate::runner) fn step_back(&mut self, share: Share) {
        if let Some(running) = self.running(share) {
            *running += 1;
        }
    }

    fn running(&mut self, share: Share) -> Option<&mut usize> {
        match share {
            Share::Read => Some(&mut self.reads),
            Share::Effect => Some(&mut self.effects),
            Share::Free => Some(&mut self.running_free),
            Share::Task | Share::TakenBack => None,
        }
    }

    /// Frees the place of a started call that has run for long, unless too many calls run without one. Returns
    /// whether it did.
    pub(in crate::runner) fn release_place(&mut self, share: Share) -> bool {
        let (long, most) = match share {
            Share::Read => (&mut self.long_reads, LONG_READS),
            Share::Free => (&mut self.long_free, LONG_CONTROL),
            Share::Effect | Share::Task | Share::TakenBack => return false,
        };
        if *long >= most {
            return false;
        }
        *long += 1;
        self.step_aside(share);
        true
    }

    /// Records that a call without its place ends. To be called before [`Self::finished`].
    pub(in crate::runner) fn end_without_place(&mut self, share: Share) {
        match share {
            Share::Read => self.long_reads = self.long_reads.saturating_sub(1),
            Share::Free => self.long_free = self.long_free.saturating_sub(1),
            Share::Effect | Share::Task | Share::TakenBack => return,
        }
        self.step_back(share);
    }

    /// Records that a started call ended.
    pub(in crate::runner) fn finished(&mut self, conversation: &ConversationId, share: Share, bytes: usize) {
        match share {
            Share::Free => self.running_free = self.running_free.saturating_sub(1),
            Share::Task => self.running_tasks = self.running_tasks.saturating_sub(1),
            Share::TakenBack => self.running_taken_back = self.running_taken_back.saturating_sub(1),
            Share::Read => self.reads = self.reads.saturating_sub(1),
            Share::Effect => {
                self.effects = self.effects.saturating_sub(1);
                self.running_bytes = self.running_bytes.saturating_sub(counted(bytes));
            }
        }
        if !share.is_ordered() {
            return;
        }
        let Some(lane) = self.conversations.get_mut(conversation) else { return };
        if share == Share::Read {
            lane.reads = lane.reads.saturating_sub(1);
        } else {
            lane.effects = lane.effects.saturating_sub(1);
        }
        if lane.is_over() {
            self.conversations.remove(conversation);
        }
    }

    /// Removes a waiting call from its conversation.
    pub(in crate::runner) fn remove(
        &mut self,
        conversation: &ConversationId,
        is_it: impl Fn(&T) -> bool,
    ) -> Option<T> {
        let beside = take_out(&mut self.free, &is_it).or_else(|| take_out(&mut self.tasks, &is_it));
        if let Some(waiting) = beside {
            return Some(self.begin_beside(waiting));
        }
        let lane = self.conversations.get_mut(conversation)?;
        let at = lane.waiting.iter().position(|(_, waiting)| is_it(&waiting.call))?;
        let (_, waiting) = lane.waiting.remove(at)?;
        self.ordered.remove(waiting.bytes);
        if lane.waiting.is_empty() {
            self.turns.retain(|turn| turn != conversation);
            if lane.is_over() {
                self.conversations.remove(conversation);
            }
        }
        Some(waiting.call)
    }

    /// Returns how many calls of a conversation wait.
    pub(in crate::runner) fn waiting_in(&self, conversation: &ConversationId) -> usize {
        self.conversations.get(conversation).map_or(0, |lane| lane.waiting.len())
    }

    /// Returns the load that waits in conversations.
    pub(in crate::runner) fn ordered(&self) -> Load {
        self.ordered
    }

    /// Returns the load that waits outside conversations.
    pub(in crate::runner) fn beside(&self) -> Load {
        self.beside
    }

    /// Returns how many cancelled calls wait.
    pub(in crate::runner) fn waiting_taken_back(&self) -> usize {
        self.taken_back.len()
    }

    /// Returns how many calls wait.
    pub(in crate::runner) fn waiting(&self) -> usize {
        self.ordered.calls + self.beside.calls
    }
}

fn take_out<T>(from: &mut VecDeque<Waiting<T>>, is_it: impl Fn(&T) -> bool) -> Option<Waiting<T>> {
    let at = from.iter().position(|waiting| is_it(&waiting.call))?;
    from.remove(at)
}

fn counted(bytes: usize) -> usize {
    if bytes < LARGE { 0 } else { bytes }
}

#[cfg(test)]
mod tests;
