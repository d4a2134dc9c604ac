//! The world of the model: a backend that stores the first result, a journal whose last commits a power cut may take,
//! effects that are counted.

use std::collections::BTreeMap;

use crate::journal::entry::{RequestOrigin, RequestState};
use crate::journal::transition_rules::{
    EffectComparison, KnownRequest, RequestEvent, RulesReply, TransitionResult, TransitionWrite,
    apply_event, next_cursor,
};

/// Requests in play; what each may do follows from its number.
pub(super) const REQUESTS: u8 = 3;

/// A read, a tool with effects, one that declares them.
fn at_most_once(n: u8) -> bool {
    !n.is_multiple_of(3)
}
fn declares(n: u8) -> bool {
    n % 3 == 2
}

/// What the journal holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Disk {
    pub(super) rows: BTreeMap<u8, KnownRequest>,
    replies: BTreeMap<u8, Told>,
    cursor: Option<String>,
}

/// One reply among all that were ever made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Told(u32);

/// A call of this life.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Running {
    begun: bool,
    made: bool,
}

/// The outside world and the device.
#[derive(Debug, Default)]
pub(super) struct World {
    /// The backend: what it offers, and the results that it stored.
    pub(super) offered: BTreeMap<u8, bool>,
    pub(super) stored: BTreeMap<u8, Vec<Told>>,
    /// Effects made, and those that somebody else changed since.
    pub(super) made: BTreeMap<u8, u32>,
    pub(super) meddled: BTreeMap<u8, bool>,
    /// The journal as this process sees it, and its commits since the last sync; the first of them is synced.
    pub(super) now: Disk,
    commits: Vec<Disk>,
    running: BTreeMap<u8, Running>,
    told: u32,
}

impl World {
    pub(super) fn commit(&mut self, sync: bool) {
        if sync {
            self.commits.clear();
        }
        self.commits.push(self.now.clone());
    }

    /// A step of the rules; None where it does not fit.
    pub(super) fn step(&mut self, n: u8, event: RequestEvent) -> Option<TransitionResult> {
        let known = self.now.rows.get(&n).copied();
        let taken = apply_event(known.as_ref(), event).ok()?;
        let sync = match event {
            RequestEvent::Begins { declares } => at_most_once(n) && !declares,
            RequestEvent::Offered { .. } | RequestEvent::Answered => at_most_once(n),
            RequestEvent::Declares => true,
            _ => false,
        };
        self.write(n, known, taken.write);
        if taken.write != TransitionWrite::Nothing {
            self.commit(sync);
        }
        Some(taken.then)
    }

    pub(super) fn write(&mut self, n: u8, known: Option<KnownRequest>, write: TransitionWrite) {
        let mut row = known.unwrap_or(KnownRequest {
            state: RequestState::Accepted,
            at_most_once: at_most_once(n),
            declares: false,
            declared: false,
            attempt: 0,
            cancelled: false,
            origin: RequestOrigin::Backend,
            kept: false,
        });
        let before = row.state;
        match write {
            TransitionWrite::Nothing => return,
            TransitionWrite::Unclose => row.state = RequestState::Finished,
            TransitionWrite::Insert { cancelled } | TransitionWrite::CountOffer { cancelled } => {
                row.cancelled |= cancelled;
            }
            TransitionWrite::Cancel => row.cancelled = true,
            TransitionWrite::Start { declares } => {
                (row.state, row.declares, row.attempt) =
                    (RequestState::Started, declares, row.attempt + 1);
            }
            TransitionWrite::Declare => row.declared = true,
            TransitionWrite::Finish { read_here } => {
                assert!(!read_here, "nobody reads here");
                row.state = RequestState::Finished;
                self.told += 1;
                let told = Told(self.told);
                assert_eq!(
                    self.now.replies.insert(n, told),
                    None,
                    "request {n} has a second reply"
                );
            }
            TransitionWrite::Requeue => {
                assert!(
                    !at_most_once(n) || declares(n),
                    "an effect that may have been made is put back"
                );
                (row.state, row.declared) = (RequestState::Accepted, false);
            }
            TransitionWrite::Close { delivered, kept } => {
                row.kept = kept;
                row.state = if delivered {
                    RequestState::Delivered
                } else {
                    RequestState::Undeliverable
                };
            }
        }
        if write != TransitionWrite::Requeue {
            assert!(
                rank(row.state) >= rank(before),
                "request {n} went back from {before:?} to {:?}",
                row.state
            );
        }
        self.now.rows.insert(n, row);
    }

    pub(super) fn page(&mut self, from: u8) {
        let events: Vec<(u8, bool)> = self
            .offered
            .range(from..)
            .map(|(n, back)| (*n, *back))
            .collect();
        for (n, cancelled) in &events {
            if let Some(TransitionResult::Stop) = self.step(
                *n,
                RequestEvent::Offered {
                    same: true,
                    cancelled: *cancelled,
                },
            ) {
                panic!("an offer stops nothing");
            }
        }
        if let Some((last, _)) = events.last() {
            let stood = self.now.cursor.clone();
            if let Some(moved) = next_cursor(stood.as_deref(), &last.to_string()) {
                self.now.cursor = Some(moved.to_owned());
                self.commit(false);
            }
            let number =
                |text: &Option<String>| text.as_ref().and_then(|text| text.parse::<u32>().ok());
            assert!(
                number(&self.now.cursor) >= number(&stood),
                "the cursor went back"
            );
        }
    }

    pub(super) fn begin(&mut self, n: u8) {
        if self.running.contains_key(&n) {
            return;
        }
        match self.step(
            n,
            RequestEvent::Begins {
                declares: declares(n),
            },
        ) {
            Some(TransitionResult::Begin) => {
                assert!(
                    !self.now.rows[&n].cancelled,
                    "request {n} begins though it was taken back"
                );
                self.running.insert(
                    n,
                    Running {
                        begun: true,
                        made: false,
                    },
                );
            }
            Some(TransitionResult::Answer(RulesReply::NeverRan)) => {
                let _ = self.step(n, RequestEvent::Answered);
            }
            Some(other) => panic!("{other:?}"),
            None => {}
        }
    }

    pub(super) fn make(&mut self, n: u8) {
        let Some(running) = self
            .running
            .get_mut(&n)
            .filter(|running| running.begun && !running.made)
        else {
            return;
        };
        if declares(n) && !self.now.rows[&n].declared {
            return;
        }
        running.made = true;
        *self.made.entry(n).or_default() += 1;
    }

    /// The next step on a call's way.
    pub(super) fn go(&mut self, n: u8) {
        let declared = !declares(n) || self.now.rows.get(&n).is_some_and(|row| row.declared);
        match self.running.get(&n) {
            None if self
                .now
                .rows
                .get(&n)
                .is_some_and(|row| row.state == RequestState::Finished) =>
            {
                self.post(n, true);
            }
            None => self.begin(n),
            Some(_) if !declared => assert_eq!(
                self.step(n, RequestEvent::Declares),
                Some(TransitionResult::Begin)
            ),
            Some(running) if !running.made => self.make(n),
            Some(_) => self.answer(n),
        }
    }

    pub(super) fn answer(&mut self, n: u8) {
        if self.running.remove(&n).is_some() {
            self.step(n, RequestEvent::Answered)
                .expect("a call that runs can be answered");
        }
    }

    pub(super) fn post(&mut self, n: u8, heard: bool) {
        if self
            .now
            .rows
            .get(&n)
            .is_none_or(|row| row.state != RequestState::Finished)
        {
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
            self.step(
                n,
                RequestEvent::Closed {
                    delivered,
                    kept: false,
                },
            );
        }
    }

    /// The next life of the runner.
    pub(super) fn recover(&mut self) {
        self.running.clear();
        let open: Vec<u8> = self
            .now
            .rows
            .iter()
            .filter(|(_, row)| row.state.is_unanswered())
            .map(|(n, _)| *n)
            .collect();
        for n in open {
            let mut then = self
                .step(n, RequestEvent::Found)
                .expect("what is open can be found");
            if then == TransitionResult::Compare {
                let found = self.compare(n);
                then = self
                    .step(n, RequestEvent::Compared(found))
                    .expect("what was declared can be compared");
            }
            if let TransitionResult::Answer(_) = then {
                self.step(n, RequestEvent::Answered)
                    .expect("what is open can be answered");
            }
        }
    }

    pub(super) fn compare(&self, n: u8) -> EffectComparison {
        if self.meddled.contains_key(&n) {
            EffectComparison::Unclear
        } else if self.made.contains_key(&n) {
            EffectComparison::Done
        } else {
            EffectComparison::Untouched
        }
    }

    pub(super) fn power_cut(&mut self, kept: u8) {
        let last = self.commits.len().saturating_sub(1).min(usize::from(kept));
        self.now = self.commits.get(last).cloned().unwrap_or_default();
        self.commits = vec![self.now.clone()];
        self.recover();
    }

    pub(super) fn check(&self) {
        for (n, made) in &self.made {
            assert!(
                *made <= 1 || !at_most_once(*n),
                "the effect of request {n} was made {made} times"
            );
        }
        for (n, stored) in &self.stored {
            assert!(
                stored.len() <= 1,
                "request {n} has {} results",
                stored.len()
            );
        }
        for (n, row) in &self.now.rows {
            let answered = !row.state.is_unanswered();
            assert_eq!(
                answered,
                self.now.replies.contains_key(n),
                "request {n} is {:?}",
                row.state
            );
            assert!(
                row.state != RequestState::Delivered || self.stored.contains_key(n),
                "request {n} counts as delivered and is not"
            );
        }
    }

    /// Everything goes well from here on.
    pub(super) fn settle(&mut self) {
        for _ in 0..2 {
            self.page(0);
            for n in 0..REQUESTS {
                for _ in 0..5 {
                    self.go(n);
                }
            }
        }
        self.check();
    }
}

fn rank(state: RequestState) -> u8 {
    match state {
        RequestState::Accepted => 0,
        RequestState::Started => 1,
        RequestState::Finished => 2,
        RequestState::Delivered | RequestState::Undeliverable => 3,
    }
}
