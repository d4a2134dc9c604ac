//! Which call may start when: in order within a conversation, effects alone, reads side by side; conversations side
//! by side and in turn. Pure: no clocks, no I/O.

use std::collections::{HashMap, VecDeque};

use crate::ids::ConversationId;

/// How a call shares its conversation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Share {
    /// Beside other reads of the conversation, never before an earlier effect of it.
    Read,
    /// Alone in its conversation.
    Effect,
    /// Beside everything: control tools, questions to a person.
    Free,
    /// Beside every conversation, a few at once: long work must not take the places of short calls.
    Task,
}

/// The calls that wait and the count of those that run.
#[derive(Debug)]
pub(super) struct Lanes<T> {
    max_reads: usize,
    max_total: usize,
    conversations: HashMap<ConversationId, Lane<T>>,
    /// Conversations with something waiting, in turn.
    turns: VecDeque<ConversationId>,
    free: VecDeque<T>,
    tasks: VecDeque<T>,
    max_tasks: usize,
    running_tasks: usize,
    reads: usize,
    total: usize,
    waiting: usize,
}

#[derive(Debug)]
struct Lane<T> {
    waiting: VecDeque<(Share, T)>,
    reads: usize,
    effects: usize,
}

impl<T> Lane<T> {
    fn admits(&self, share: Share) -> bool {
        match share {
            Share::Read => self.effects == 0,
            Share::Effect => self.effects == 0 && self.reads == 0,
            Share::Free | Share::Task => true,
        }
    }
}

impl<T> Lanes<T> {
    pub(super) fn new(max_reads: usize, max_total: usize, max_tasks: usize) -> Self {
        Self {
            max_reads,
            max_total,
            conversations: HashMap::new(),
            turns: VecDeque::new(),
            free: VecDeque::new(),
            tasks: VecDeque::new(),
            max_tasks,
            running_tasks: 0,
            reads: 0,
            total: 0,
            waiting: 0,
        }
    }

    /// Puts a call at the end of its conversation.
    pub(super) fn place(&mut self, conversation: &ConversationId, share: Share, call: T) {
        self.waiting += 1;
        match share {
            Share::Free => return self.free.push_back(call),
            Share::Task => return self.tasks.push_back(call),
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
        lane.waiting.push_back((share, call));
    }

    /// The next call that may start, if there is one; it counts as running from here on.
    pub(super) fn next(&mut self) -> Option<T> {
        if let Some(call) = self.free.pop_front() {
            self.waiting -= 1;
            return Some(call);
        }
        if self.running_tasks < self.max_tasks
            && let Some(task) = self.tasks.pop_front()
        {
            self.waiting -= 1;
            self.running_tasks += 1;
            return Some(task);
        }
        for _ in 0..self.turns.len() {
            if self.total >= self.max_total {
                return None;
            }
            let conversation = self.turns.pop_front()?;
            let started = self.start_first(&conversation);
            let lane = self.conversations.get(&conversation);
            if lane.is_some_and(|lane| !lane.waiting.is_empty()) {
                self.turns.push_back(conversation);
            }
            if started.is_some() {
                return started;
            }
        }
        None
    }

    fn start_first(&mut self, conversation: &ConversationId) -> Option<T> {
        let lane = self.conversations.get_mut(conversation)?;
        let share = lane.waiting.front()?.0;
        if !lane.admits(share) || (share == Share::Read && self.reads >= self.max_reads) {
            return None;
        }
        let (_, call) = lane.waiting.pop_front()?;
        if share == Share::Read {
            lane.reads += 1;
            self.reads += 1;
        } else {
            lane.effects += 1;
        }
        self.total += 1;
        self.waiting -= 1;
        Some(call)
    }

    /// A call that was started waits for a person: it keeps its turn in its conversation and gives back its place among
    /// all.
    pub(super) fn step_aside(&mut self, share: Share) {
        if share == Share::Read {
            self.reads = self.reads.saturating_sub(1);
        }
        if matches!(share, Share::Read | Share::Effect) {
            self.total = self.total.saturating_sub(1);
        }
    }

    /// It goes on, at once: there may be more for a while than there are places.
    pub(super) fn step_back(&mut self, share: Share) {
        if share == Share::Read {
            self.reads += 1;
        }
        if matches!(share, Share::Read | Share::Effect) {
            self.total += 1;
        }
    }

    /// A call that was started has ended.
    pub(super) fn finished(&mut self, conversation: &ConversationId, share: Share) {
        match share {
            Share::Free => return,
            Share::Task => {
                self.running_tasks = self.running_tasks.saturating_sub(1);
                return;
            }
            Share::Read | Share::Effect => {}
        }
        let Some(lane) = self.conversations.get_mut(conversation) else { return };
        if share == Share::Read {
            lane.reads = lane.reads.saturating_sub(1);
            self.reads = self.reads.saturating_sub(1);
        } else {
            lane.effects = lane.effects.saturating_sub(1);
        }
        self.total = self.total.saturating_sub(1);
        if lane.waiting.is_empty() && lane.reads == 0 && lane.effects == 0 {
            self.conversations.remove(conversation);
        }
    }

    /// Takes a waiting call out of its conversation.
    pub(super) fn remove(&mut self, conversation: &ConversationId, is_it: impl Fn(&T) -> bool) -> Option<T> {
        let lane = self.conversations.get_mut(conversation)?;
        let at = lane.waiting.iter().position(|(_, call)| is_it(call))?;
        let (_, call) = lane.waiting.remove(at)?;
        self.waiting -= 1;
        if lane.waiting.is_empty() {
            self.turns.retain(|turn| turn != conversation);
            if lane.reads == 0 && lane.effects == 0 {
                self.conversations.remove(conversation);
            }
        }
        Some(call)
    }

    /// How many calls of a conversation wait.
    pub(super) fn waiting_in(&self, conversation: &ConversationId) -> usize {
        self.conversations.get(conversation).map_or(0, |lane| lane.waiting.len())
    }

    /// How many calls wait.
    pub(super) fn waiting(&self) -> usize {
        self.waiting
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn conversation(name: &str) -> ConversationId {
        ConversationId::parse(name).expect("a name")
    }

    fn start_all(lanes: &mut Lanes<u32>) -> Vec<u32> {
        std::iter::from_fn(|| lanes.next()).collect()
    }

    #[test]
    fn an_effect_runs_alone_and_in_order() {
        let (mut lanes, a) = (Lanes::new(8, 16, 2), conversation("a"));
        for (share, call) in [(Share::Read, 1), (Share::Read, 2), (Share::Effect, 3), (Share::Read, 4)] {
            lanes.place(&a, share, call);
        }
        assert_eq!(start_all(&mut lanes), [1, 2]);
        lanes.finished(&a, Share::Read);
        assert_eq!(start_all(&mut lanes), [] as [u32; 0]);
        lanes.finished(&a, Share::Read);
        assert_eq!(start_all(&mut lanes), [3]);
        lanes.finished(&a, Share::Effect);
        assert_eq!(start_all(&mut lanes), [4]);
        assert_eq!(lanes.waiting(), 0);
    }

    #[test]
    fn one_conversation_does_not_hold_up_another() {
        let (mut lanes, a, b) = (Lanes::new(8, 16, 2), conversation("a"), conversation("b"));
        lanes.place(&a, Share::Effect, 1);
        lanes.place(&a, Share::Effect, 2);
        lanes.place(&b, Share::Effect, 3);
        assert_eq!(start_all(&mut lanes), [1, 3]);
    }

    #[test]
    fn control_calls_start_whatever_else_runs() {
        let (mut lanes, a) = (Lanes::new(1, 1, 2), conversation("a"));
        lanes.place(&a, Share::Effect, 1);
        lanes.place(&a, Share::Effect, 2);
        lanes.place(&a, Share::Free, 3);
        assert_eq!(start_all(&mut lanes), [3, 1]);
    }

    #[test]
    fn tasks_take_no_places_of_other_calls() {
        let (mut lanes, a) = (Lanes::new(8, 1, 2), conversation("a"));
        for task in 1..=3 {
            lanes.place(&conversation(&format!("t{task}")), Share::Task, task);
        }
        lanes.place(&a, Share::Effect, 4);
        assert_eq!(start_all(&mut lanes), [1, 2, 4]);
        lanes.finished(&conversation("t1"), Share::Task);
        assert_eq!(start_all(&mut lanes), [3]);
    }

    #[test]
    fn a_waiting_call_can_be_taken_out() {
        let (mut lanes, a) = (Lanes::new(8, 16, 2), conversation("a"));
        lanes.place(&a, Share::Effect, 1);
        lanes.place(&a, Share::Effect, 2);
        lanes.place(&a, Share::Effect, 3);
        assert_eq!(start_all(&mut lanes), [1]);
        assert_eq!(lanes.remove(&a, |call| *call == 2), Some(2));
        assert_eq!(lanes.remove(&a, |call| *call == 2), None);
        lanes.finished(&a, Share::Effect);
        assert_eq!(start_all(&mut lanes), [3]);
    }

    proptest! {
        /// Every call starts once, effects of a conversation start in order and alone, limits hold.
        #[test]
        fn every_call_starts_once_and_effects_alone(
            calls in proptest::collection::vec((0_u8..4, 0_u8..2), 0..60),
            order in proptest::collection::vec(any::<proptest::sample::Index>(), 60),
        ) {
            let mut lanes = Lanes::new(3, 5, 2);
            for (number, (name, kind)) in calls.iter().enumerate() {
                let share = if *kind == 0 { Share::Read } else { Share::Effect };
                lanes.place(&conversation(&format!("c{name}")), share, (*name, share, number));
            }
            let (mut running, mut started): (Vec<(u8, Share, usize)>, Vec<usize>) = (Vec::new(), Vec::new());
            for pick in order.iter().cycle().take(200) {
                while let Some(call) = lanes.next() {
                    let beside: Vec<_> = running.iter().filter(|other| other.0 == call.0).collect();
                    if call.1 == Share::Effect {
                        prop_assert!(beside.is_empty());
                    }
                    prop_assert!(beside.iter().all(|other| other.1 == Share::Read));
                    running.push(call);
                    started.push(call.2);
                }
                prop_assert!(running.len() <= 5 && running.iter().filter(|call| call.1 == Share::Read).count() <= 3);
                if running.is_empty() {
                    break;
                }
                let ended = running.swap_remove(pick.index(running.len()));
                lanes.finished(&conversation(&format!("c{}", ended.0)), ended.1);
            }
            let mut all = started.clone();
            all.sort_unstable();
            prop_assert_eq!(all, (0..calls.len()).collect::<Vec<_>>());
            for name in 0..4 {
                let of_one: Vec<_> = started.iter().filter(|number| calls[**number].0 == name).collect();
                prop_assert!(of_one.windows(2).all(|pair| pair[0] < pair[1]));
            }
        }
    }
}
