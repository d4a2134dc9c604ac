//! The rules played as a whole: a backend that repeats itself, a device that crashes and loses power, calls that end
//! or do not. After every step each promise holds; in the end each request has exactly one result.

mod world;

use proptest::prelude::*;
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest, prop_state_machine};

use super::transition_rules::{RequestEvent, TransitionResult};
use world::{REQUESTS, World};

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
    /// A call takes its next step: it begins, declares, makes its effect, is answered, its reply is posted.
    Go(u8),
    /// It is answered before it has made its effect: it failed.
    Answer(u8),
    /// The reply is posted and stored, and the device does not hear of that.
    PostUnheard(u8),
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
            4 => one.clone().prop_map(Deed::Ask),
            4 => one.clone().prop_map(Deed::Page),
            1 => one.clone().prop_map(Deed::Other),
            1 => one.clone().prop_map(Deed::TakeBack),
            20 => one.clone().prop_map(Deed::Go),
            1 => one.clone().prop_map(Deed::Answer),
            2 => one.clone().prop_map(Deed::PostUnheard),
            1 => one.prop_map(Deed::Meddle),
            1 => Just(Deed::Crash),
            2 => (0..4_u8).prop_map(Deed::PowerCut),
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
                    let then = world.step(
                        n,
                        RequestEvent::Offered {
                            same: false,
                            cancelled: false,
                        },
                    );
                    assert_eq!(then, Some(TransitionResult::Conflict));
                }
            }
            Deed::TakeBack(n) => {
                if let Some(back) = world.offered.get_mut(&n) {
                    *back = true;
                    world.step(n, RequestEvent::TakenBack);
                }
            }
            Deed::Go(n) => world.go(n),
            Deed::Answer(n) => world.answer(n),
            Deed::PostUnheard(n) => world.post(n, false),
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
        assert!(
            world.now.rows.keys().all(|n| asked.asked.contains(n)),
            "a request that nobody asked"
        );
    }

    fn teardown(mut world: World, asked: Asked) {
        world.settle();
        for n in &asked.asked {
            assert_eq!(
                world.stored.get(n).map(Vec::len),
                Some(1),
                "request {n} was lost"
            );
        }
    }
}

prop_state_machine! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn every_promise_holds_through_every_crash(sequential 1..80 => Rules);
}
