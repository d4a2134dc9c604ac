//! Which call may start when: in order within a conversation, effects alone, reads side by side; conversations side
//! by side and in turn. Each kind of call has places of its own, so that slow commands keep no read waiting. Pure: no
//! clocks, no I/O.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use crate::ids::ConversationId;

/// Control calls and questions to people that run side by side.
const CONTROL: usize = 32;
/// Answers to calls that were taken back before they began, side by side.
const TAKEN_BACK: usize = 16;
/// Reads that have run for long, beside those that hold a place.
const LONG_READS: usize = 16;
/// The same of control calls: most of them wait for something.
const LONG_CONTROL: usize = 96;

/// The bytes of arguments of all effects that run, where any of them is [`LARGE`]. One always runs.
const RUNNING_BYTES: usize = 4 << 20;
/// Arguments of fewer bytes are not counted among those.
const LARGE: usize = 64 << 10;

/// How a call shares its conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::runner) enum Share {
    /// Beside other reads of the conversation, never before an earlier effect of it.
    Read,
    /// Alone in its conversation.
    Effect,
    /// Beside everything: control tools, questions to a person.
    Free,
    /// Beside every conversation, a few at once: long work must not take the places of short calls.
    Task,
    /// Taken back before it began: it is only answered, beside everything.
    TakenBack,
}

impl Share {
    /// The time after which a call gives its place to others and goes on without one: a read of a network disk that
    /// hangs must not keep the other reads waiting.
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

/// Calls and the bytes of their arguments.
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

/// How many calls of each kind may run at once.
#[derive(Debug, Clone, Copy)]
pub(in crate::runner) struct Places {
    pub reads: usize,
    pub effects: usize,
    pub tasks: usize,
}

/// The calls that wait and the count of those that run.
#[derive(Debug)]
pub(in crate::runner) struct Lanes<T> {
    places: Places,
    conversations: HashMap<ConversationId, Lane<T>>,
    /// Conversations with something waiting, in turn.
    turns: VecDeque<ConversationId>,
    free: VecDeque<Waiting<T>>,
    tasks: VecDeque<Waiting<T>>,
    taken_back: VecDeque<Waiting<T>>,
    reads: usize,
    effects: usize,
    running_free: usize,
    running_tasks: usize,
    running_taken_back: usize,
    /// Of effects with large arguments.
    running_bytes: usize,
    long_reads: usize,
    long_free: usize,
    /// What waits in conversations.
    ordered: Load,
    /// What waits beside them.
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

    /// Puts a call with so many bytes of arguments at the end of its conversation.
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

    /// The next call to answer that was taken back before it began; it counts as running from here on.
    pub(in crate::runner) fn next_taken_back(&mut self) -> Option<T> {
        if self.running_taken_back >= TAKEN_BACK {
            return None;
        }
        let waiting = self.taken_back.pop_front()?;
        self.running_taken_back += 1;
        Some(self.begin_beside(waiting))
    }

    /// The next call that may start, if there is one; it counts as running from here on.
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
        // Those that cannot start keep their turn.
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

    /// A call that was started waits for a person: it keeps its turn in its conversation and gives back its place among
    /// all.
    pub(in crate::runner) fn step_aside(&mut self, share: Share) {
        if let Some(running) = self.running(share) {
            *running = running.saturating_sub(1);
        }
    }

    /// It goes on, at once: there may be more for a while than there are places.
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

    /// A call that was started has run for long, and goes on without a place where not too many do. Whether it gave
    /// its place back.
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

    /// A call that had given its place back has ended: to be said before [`Self::finished`].
    pub(in crate::runner) fn end_without_place(&mut self, share: Share) {
        match share {
            Share::Read => self.long_reads = self.long_reads.saturating_sub(1),
            Share::Free => self.long_free = self.long_free.saturating_sub(1),
            Share::Effect | Share::Task | Share::TakenBack => return,
        }
        self.step_back(share);
    }

    /// A call that was started has ended.
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

    /// Takes a waiting call out of its conversation.
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

    /// How many calls of a conversation wait.
    pub(in crate::runner) fn waiting_in(&self, conversation: &ConversationId) -> usize {
        self.conversations.get(conversation).map_or(0, |lane| lane.waiting.len())
    }

    /// What waits in conversations.
    pub(in crate::runner) fn ordered(&self) -> Load {
        self.ordered
    }

    /// What waits beside them.
    pub(in crate::runner) fn beside(&self) -> Load {
        self.beside
    }

    /// How many calls wait that were taken back.
    pub(in crate::runner) fn waiting_taken_back(&self) -> usize {
        self.taken_back.len()
    }

    /// How many calls wait.
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
