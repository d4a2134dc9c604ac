//! The rules played as a whole: a backend that repeats itself, a device that crashes and loses power, calls that end
//! or do not. After every step each promise holds; in the end each request has exactly one result.

use std::collections::BTreeMap;

use proptest::prelude::*;
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest, prop_state_machine};

use super::entry::{Origin, State};
use super::rules::{Comparison, Event, Known, Then, Verdict, Write, cursor, step};

/// Requests in play; what each may do follows from its number.
const REQUESTS: u8 = 6;

/// A read, a tool with effects, one that declares them.
fn at_most_once(n: u8) -> bool {
    !n.is_multiple_of(3)
}
fn declares(n: u8) -> bool {
    n % 3 == 2
}

/// What can happen.
#[derive(Debug, Clone)]
enum Deed {
    /// The caller asks; the backend offers this from now on.
    Ask(u8),
    /// The backend offers what it has from this number on, with its cursor.
    Page(u8),
    /// The same id with other arguments.
    Other(u8),
    TakeBack(u8),
    Begin(u8),
    Declare(u8),
    /// The effect itself.
    Make(u8),
    Answer(u8),
    /// The reply is posted; the backend stores it, and the device hears of that or does not.
    Post(u8, bool),
    /// Somebody else touched what a call declared.
    Meddle(u8),
    Crash,
    /// Everything since the last sync may be lost: this many of the commits behind it are kept.
    PowerCut(u8),
}

/// What was asked and taken back: all that the caller knows.
#[derive(Debug, Clone, Default)]
struct Asked {
    asked: Vec<u8>,
}

impl ReferenceStateMachine for Asked {
    type State = Self;
    type Transition = Deed;

    fn init_state() -> BoxedStrategy<Self> {
        Just(Self::default()).boxed()
    }

    fn transitions(_state: &Self) -> BoxedStrategy<Deed> {
        let one = 0..REQUESTS;
        prop_oneof![
            3 => one.clone().prop_map(Deed::Ask),
            3 => one.clone().prop_map(Deed::Page),
            1 => one.clone().prop_map(Deed::Other),
            1 => one.clone().prop_map(Deed::TakeBack),
            4 => one.clone().prop_map(Deed::Begin),
            3 => one.clone().prop_map(Deed::Declare),
            4 => one.clone().prop_map(Deed::Make),
            3 => one.clone().prop_map(Deed::Answer),
            3 => (one.clone(), any::<bool>()).prop_map(|(n, heard)| Deed::Post(n, heard)),
            1 => one.prop_map(Deed::Meddle),
            1 => Just(Deed::Crash),
            1 => (0..4_u8).prop_map(Deed::PowerCut),
        ]
        .boxed()
    }

    fn apply(mut state: Self, deed: &Deed) -> Self {
        if let Deed::Ask(n) = deed
            && !state.asked.contains(n)
        {
            state.asked.push(*n);
        }
        state
    }
}

/// What the journal holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Disk {
    rows: BTreeMap<u8, Known>,
    replies: BTreeMap<u8, Told>,
    cursor: Option<String>,
}

/// One reply among all that were ever made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Told(u32);

/// A call of this life.
#[derive(Debug, Clone, Copy, Default)]
struct Running {
    begun: bool,
    made: bool,
}

/// The outside world and the device.
#[derive(Debug, Default)]
struct World {
    /// The backend: what it offers, and the results that it stored.
    offered: BTreeMap<u8, bool>,
    stored: BTreeMap<u8, Vec<Told>>,
    /// Effects made, and those that somebody else changed since.
    made: BTreeMap<u8, u32>,
    meddled: BTreeMap<u8, bool>,
    /// The journal as this process sees it, and its commits since the last sync; the first of them is synced.
    now: Disk,
    commits: Vec<Disk>,
    running: BTreeMap<u8, Running>,
    told: u32,
}

impl World {
    fn commit(&mut self, sync: bool) {
        if sync {
            self.commits.clear();
        }
        self.commits.push(self.now.clone());
    }

    /// A step of the rules; None where it does not fit.
    fn step(&mut self, n: u8, event: Event) -> Option<Then> {
        let known = self.now.rows.get(&n).copied();
        let taken = step(known.as_ref(), event).ok()?;
        let sync = match event {
            Event::Begins { declares } => at_most_once(n) && !declares,
            Event::Offered { .. } | Event::Answered => at_most_once(n),
            Event::Declares => true,
            _ => false,
        };
        self.write(n, known, taken.write);
        if taken.write != Write::Nothing {
            self.commit(sync);
        }
        Some(taken.then)
    }

    fn write(&mut self, n: u8, known: Option<Known>, write: Write) {
        let mut row = known.unwrap_or(Known {
            state: State::Accepted,
            at_most_once: at_most_once(n),
            declares: false,
            declared: false,
            attempt: 0,
            cancelled: false,
            origin: Origin::Backend,
        });
        let before = row.state;
        match write {
            Write::Nothing => return,
            Write::Insert { cancelled } | Write::CountOffer { cancelled } => row.cancelled |= cancelled,
            Write::Cancel => row.cancelled = true,
            Write::Start { declares } => {
                (row.state, row.declares, row.attempt) = (State::Started, declares, row.attempt + 1);
            }
            Write::Declare => row.declared = true,
            Write::Finish { read_here } => {
                assert!(!read_here, "nobody reads here");
                row.state = State::Finished;
                self.told += 1;
                let told = Told(self.told);
                assert_eq!(self.now.replies.insert(n, told), None, "request {n} has a second reply");
            }
            Write::PutBack => {
                assert!(!at_most_once(n) || declares(n), "an effect that may have been made is put back");
                (row.state, row.declared) = (State::Accepted, false);
            }
            Write::Close { delivered } => {
                row.state = if delivered { State::Delivered } else { State::Undeliverable };
            }
        }
        if write != Write::PutBack {
            assert!(
                rank(row.state) >= rank(before),
                "request {n} went back from {before:?} to {:?}",
                row.state
            );
        }
        self.now.rows.insert(n, row);
    }

    fn page(&mut self, from: u8) {
        let events: Vec<(u8, bool)> = self.offered.range(from..).map(|(n, back)| (*n, *back)).collect();
        for (n, cancelled) in &events {
            if let Some(Then::Stop) = self.step(*n, Event::Offered { same: true, cancelled: *cancelled }) {
                panic!("an offer stops nothing");
            }
        }
        if let Some((last, _)) = events.last() {
            let stood = self.now.cursor.clone();
            if let Some(moved) = cursor(stood.as_deref(), &last.to_string()) {
                self.now.cursor = Some(moved.to_owned());
                self.commit(false);
            }
            let number = |text: &Option<String>| text.as_ref().and_then(|text| text.parse::<u32>().ok());
            assert!(number(&self.now.cursor) >= number(&stood), "the cursor went back");
        }
    }

    fn begin(&mut self, n: u8) {
        if self.running.contains_key(&n) {
            return;
        }
        match self.step(n, Event::Begins { declares: declares(n) }) {
            Some(Then::Begin) => {
                assert!(!self.now.rows[&n].cancelled, "request {n} begins though it was taken back");
                self.running.insert(n, Running { begun: true, made: false });
            }
            Some(Then::Answer(Verdict::NeverRan)) => drop(self.step(n, Event::Answered)),
            Some(other) => panic!("{other:?}"),
            None => {}
        }
    }

    fn make(&mut self, n: u8) {
        let Some(running) = self.running.get_mut(&n).filter(|running| running.begun && !running.made) else {
            return;
        };
        if declares(n) && !self.now.rows[&n].declared {
            return;
        }
        running.made = true;
        *self.made.entry(n).or_default() += 1;
    }

    fn answer(&mut self, n: u8) {
        if self.running.remove(&n).is_some() {
            self.step(n, Event::Answered).expect("a call that runs can be answered");
        }
    }

    fn post(&mut self, n: u8, heard: bool) {
        if self.now.rows.get(&n).is_none_or(|row| row.state != State::Finished) {
            return;
        }
        let reply = self.now.replies[&n];
        let stored = self.stored.entry(n).or_default();
        // First stored wins; the same again is a duplicate, another one is refused.
        let delivered = stored.is_empty() || stored[0] == reply;
        if stored.is_empty() {
            stored.push(reply);
        }
        if heard {
            self.step(n, Event::Closed { delivered });
        }
    }

    /// The next life of the runner.
    fn recover(&mut self) {
        self.running.clear();
        let open: Vec<u8> =
            self.now.rows.iter().filter(|(_, row)| row.state.is_open()).map(|(n, _)| *n).collect();
        for n in open {
            let mut then = self.step(n, Event::Found).expect("what is open can be found");
            if then == Then::Compare {
                let found = self.compare(n);
                then = self.step(n, Event::Compared(found)).expect("what was declared can be compared");
            }
            if let Then::Answer(_) = then {
                self.step(n, Event::Answered).expect("what is open can be answered");
            }
        }
    }

    fn compare(&self, n: u8) -> Comparison {
        if self.meddled.contains_key(&n) {
            Comparison::Unclear
        } else if self.made.contains_key(&n) {
            Comparison::Done
        } else {
            Comparison::Untouched
        }
    }

    fn power_cut(&mut self, kept: u8) {
        let last = self.commits.len().saturating_sub(1).min(usize::from(kept));
        self.now = self.commits.get(last).cloned().unwrap_or_default();
        self.commits = vec![self.now.clone()];
        self.recover();
    }

    fn check(&self) {
        for (n, made) in &self.made {
            assert!(*made <= 1 || !at_most_once(*n), "the effect of request {n} was made {made} times");
        }
        for (n, stored) in &self.stored {
            assert!(stored.len() <= 1, "request {n} has {} results", stored.len());
        }
        for (n, row) in &self.now.rows {
            let answered = !row.state.is_open();
            assert_eq!(answered, self.now.replies.contains_key(n), "request {n} is {:?}", row.state);
            assert!(
                row.state != State::Delivered || self.stored.contains_key(n),
                "request {n} counts as delivered and is not"
            );
        }
    }

    /// Everything goes well from here on.
    fn settle(&mut self) {
        for _ in 0..2 {
            self.page(0);
            for n in 0..REQUESTS {
                self.begin(n);
                if declares(n) && self.running.contains_key(&n) {
                    self.step(n, Event::Declares);
                }
                self.make(n);
                self.answer(n);
                self.post(n, true);
            }
        }
        self.check();
    }
}

fn rank(state: State) -> u8 {
    match state {
        State::Accepted => 0,
        State::Started => 1,
        State::Finished => 2,
        State::Delivered | State::Undeliverable => 3,
    }
}

struct Rules;

impl StateMachineTest for Rules {
    type SystemUnderTest = World;
    type Reference = Asked;

    fn init_test(_asked: &Asked) -> World {
        World::default()
    }

    fn apply(mut world: World, _asked: &Asked, deed: Deed) -> World {
        match deed {
            Deed::Ask(n) => drop(world.offered.entry(n).or_insert(false)),
            Deed::Page(from) => world.page(from),
            Deed::Other(n) => {
                if world.now.rows.contains_key(&n) {
                    let then = world.step(n, Event::Offered { same: false, cancelled: false });
                    assert_eq!(then, Some(Then::Conflict));
                }
            }
            Deed::TakeBack(n) => {
                if let Some(back) = world.offered.get_mut(&n) {
                    *back = true;
                    world.step(n, Event::TakenBack);
                }
            }
            Deed::Begin(n) => world.begin(n),
            Deed::Declare(n) => {
                if world.running.contains_key(&n) && declares(n) && !world.now.rows[&n].declared {
                    assert_eq!(world.step(n, Event::Declares), Some(Then::Begin));
                }
            }
            Deed::Make(n) => world.make(n),
            Deed::Answer(n) => world.answer(n),
            Deed::Post(n, heard) => world.post(n, heard),
            Deed::Meddle(n) => {
                if world.made.contains_key(&n) {
                    world.meddled.insert(n, true);
                }
            }
            Deed::Crash => world.recover(),
            Deed::PowerCut(kept) => world.power_cut(kept),
        }
        world
    }

    fn check_invariants(world: &World, asked: &Asked) {
        world.check();
        assert!(world.now.rows.keys().all(|n| asked.asked.contains(n)), "a request that nobody asked");
    }

    fn teardown(mut world: World, asked: Asked) {
        world.settle();
        for n in &asked.asked {
            assert_eq!(world.stored.get(n).map(Vec::len), Some(1), "request {n} was lost");
        }
    }
}

prop_state_machine! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn every_promise_holds_through_every_crash(sequential 1..60 => Rules);
}
