//! The order in which calls start, and the limits on how many run at once.

use proptest::prelude::*;

use super::*;

const NEW: LanePlaces = LanePlaces {
    reads: 8,
    effects: 16,
    tasks: 2,
};

fn conversation(name: &str) -> ConversationId {
    ConversationId::parse(name).expect("a name")
}

fn start_all(lanes: &mut Lanes<u32>) -> Vec<u32> {
    std::iter::from_fn(|| lanes.next()).collect()
}

#[test]
fn an_effect_runs_alone_and_in_order() {
    let mut lanes = Lanes::new(NEW);
    let a = conversation("a");
    for (share, call) in [
        (LaneShare::Read, 1),
        (LaneShare::Read, 2),
        (LaneShare::Effect, 3),
        (LaneShare::Read, 4),
    ] {
        lanes.enqueue_call(&a, share, 0, call);
    }
    assert_eq!(start_all(&mut lanes), [1, 2]);
    lanes.finish_call(&a, LaneShare::Read, 0);
    assert_eq!(start_all(&mut lanes), [] as [u32; 0]);
    lanes.finish_call(&a, LaneShare::Read, 0);
    assert_eq!(start_all(&mut lanes), [3]);
    lanes.finish_call(&a, LaneShare::Effect, 0);
    assert_eq!(start_all(&mut lanes), [4]);
    assert_eq!(lanes.waiting_count(), 0);
}

#[test]
fn one_conversation_does_not_hold_up_another() {
    let mut lanes = Lanes::new(NEW);
    let a = conversation("a");
    let b = conversation("b");
    lanes.enqueue_call(&a, LaneShare::Effect, 0, 1);
    lanes.enqueue_call(&a, LaneShare::Effect, 0, 2);
    lanes.enqueue_call(&b, LaneShare::Effect, 0, 3);
    assert_eq!(start_all(&mut lanes), [1, 3]);
}

#[test]
fn effects_take_no_places_of_reads() {
    let mut lanes = Lanes::new(NEW);
    for effect in 0..20 {
        lanes.enqueue_call(
            &conversation(&format!("c{effect}")),
            LaneShare::Effect,
            0,
            effect,
        );
    }
    assert_eq!(start_all(&mut lanes).len(), 16);
    lanes.enqueue_call(&conversation("other"), LaneShare::Read, 0, 100);
    assert_eq!(start_all(&mut lanes), [100]);
}

#[test]
fn reads_that_take_long_give_their_places_back_up_to_a_bound() {
    let mut lanes = Lanes::new(LanePlaces { reads: 2, ..NEW });
    let a = conversation("a");
    for read in 0..30 {
        lanes.enqueue_call(&a, LaneShare::Read, 0, read);
    }
    let mut running = start_all(&mut lanes).len();
    while lanes.try_release_place(LaneShare::Read) {
        running += start_all(&mut lanes).len();
    }
    assert_eq!(running, 2 + MAX_LONG_READS);
    // One of them ends, and so does one that holds a place.
    lanes.finish_without_place(LaneShare::Read);
    lanes.finish_call(&a, LaneShare::Read, 0);
    assert_eq!(start_all(&mut lanes).len(), 0, "its place was given away");
    assert!(
        lanes.try_release_place(LaneShare::Read),
        "there is room for another one that takes long"
    );
    assert_eq!(start_all(&mut lanes).len(), 1);
    lanes.finish_call(&a, LaneShare::Read, 0);
    assert_eq!(start_all(&mut lanes).len(), 1);
}

#[test]
fn control_calls_start_whatever_else_runs_a_bounded_number_at_once() {
    let mut lanes = Lanes::new(LanePlaces {
        reads: 1,
        effects: 1,
        tasks: 1,
    });
    let a = conversation("a");
    lanes.enqueue_call(&a, LaneShare::Effect, 0, 1);
    lanes.enqueue_call(&a, LaneShare::Effect, 0, 2);
    lanes.enqueue_call(&a, LaneShare::Free, 0, 3);
    assert_eq!(start_all(&mut lanes), [3, 1]);
    for call in 10..100 {
        lanes.enqueue_call(&a, LaneShare::Free, 0, call);
    }
    assert_eq!(start_all(&mut lanes).len(), MAX_CONTROL_CALLS - 1);
    lanes.finish_call(&a, LaneShare::Free, 0);
    assert_eq!(start_all(&mut lanes).len(), 1);
    // A cancelled call waits for none of them.
    assert_eq!(lanes.remove_waiting(&a, |call| *call == 99), Some(99));
    lanes.enqueue_call(&a, LaneShare::Cancelled, 0, 99);
    assert_eq!(lanes.next_cancelled(), Some(99));
}

#[test]
fn tasks_take_no_places_of_other_calls() {
    let mut lanes = Lanes::new(LanePlaces { effects: 1, ..NEW });
    let a = conversation("a");
    for task in 1..=3 {
        lanes.enqueue_call(&conversation(&format!("t{task}")), LaneShare::Task, 0, task);
    }
    lanes.enqueue_call(&a, LaneShare::Effect, 0, 4);
    assert_eq!(start_all(&mut lanes), [1, 2, 4]);
    lanes.finish_call(&conversation("t1"), LaneShare::Task, 0);
    assert_eq!(start_all(&mut lanes), [3]);
}

#[test]
fn a_waiting_call_can_be_taken_out() {
    let mut lanes = Lanes::new(NEW);
    let a = conversation("a");
    lanes.enqueue_call(&a, LaneShare::Effect, 0, 1);
    lanes.enqueue_call(&a, LaneShare::Effect, 0, 2);
    lanes.enqueue_call(&a, LaneShare::Effect, 0, 3);
    assert_eq!(start_all(&mut lanes), [1]);
    assert_eq!(lanes.remove_waiting(&a, |call| *call == 2), Some(2));
    assert_eq!(lanes.remove_waiting(&a, |call| *call == 2), None);
    lanes.finish_call(&a, LaneShare::Effect, 0);
    assert_eq!(start_all(&mut lanes), [3]);
}

#[test]
fn large_arguments_run_a_few_megabytes_at_once_and_hold_up_no_small_ones() {
    let mut lanes = Lanes::new(NEW);
    let name = |call: u32| conversation(&format!("c{call}"));
    for call in 0..8 {
        lanes.enqueue_call(&name(call), LaneShare::Effect, MAX_RUNNING_BYTES / 2, call);
    }
    lanes.enqueue_call(&name(8), LaneShare::Effect, 100, 8);
    lanes.enqueue_call(&name(9), LaneShare::Effect, MAX_RUNNING_BYTES * 2, 9);
    assert_eq!(
        lanes.ordered_load(),
        LaneLoad {
            calls: 10,
            bytes: MAX_RUNNING_BYTES * 6 + 100
        }
    );
    assert_eq!(start_all(&mut lanes), [0, 1, 8]);
    for pair in [[0, 2], [1, 3], [2, 4], [3, 5], [4, 6], [5, 7]] {
        lanes.finish_call(&name(pair[0]), LaneShare::Effect, MAX_RUNNING_BYTES / 2);
        assert_eq!(start_all(&mut lanes), [pair[1]]);
    }
    lanes.finish_call(&name(6), LaneShare::Effect, MAX_RUNNING_BYTES / 2);
    assert_eq!(
        start_all(&mut lanes),
        [] as [u32; 0],
        "it is too large beside another"
    );
    lanes.finish_call(&name(7), LaneShare::Effect, MAX_RUNNING_BYTES / 2);
    assert_eq!(start_all(&mut lanes), [9], "and runs by itself");
    assert_eq!(
        (lanes.ordered_load(), lanes.waiting_count()),
        (LaneLoad::default(), 0)
    );
}

proptest! {
    /// Every call starts once, effects of a conversation start in order and alone, limits hold, and a read waits for
    /// no effect of another conversation.
    #[test]
    fn every_call_starts_once_and_effects_alone(
        calls in proptest::collection::vec((0_u8..4, 0_u8..2), 0..60),
        order in proptest::collection::vec(any::<proptest::sample::Index>(), 60),
    ) {
        let mut lanes = Lanes::new(LanePlaces { reads: 3, effects: 2, tasks: 2 });
        for (number, (name, kind)) in calls.iter().enumerate() {
            let share = if *kind == 0 { LaneShare::Read } else { LaneShare::Effect };
            lanes.enqueue_call(&conversation(&format!("c{name}")), share, 0, (*name, share, number));
        }
        let (mut running, mut started): (Vec<(u8, LaneShare, usize)>, Vec<usize>) = (Vec::new(), Vec::new());
        for pick in order.iter().cycle().take(200) {
            while let Some(call) = lanes.next() {
                let beside: Vec<_> = running.iter().filter(|other| other.0 == call.0).collect();
                if call.1 == LaneShare::Effect {
                    prop_assert!(beside.is_empty());
                }
                prop_assert!(beside.iter().all(|other| other.1 == LaneShare::Read));
                running.push(call);
                started.push(call.2);
            }
            let reads = running.iter().filter(|call| call.1 == LaneShare::Read).count();
            prop_assert!(reads <= 3 && running.len() - reads <= 2);
            for name in 0..4 {
                let next = (0..calls.len()).find(|n| calls[*n].0 == name && !started.contains(n));
                let is_read = next.is_some_and(|n| calls[n].1 == 0);
                let own_effect = running.iter().any(|call| call.0 == name && call.1 == LaneShare::Effect);
                prop_assert!(!is_read || own_effect || reads == 3, "a read waits beside a free place");
            }
            if running.is_empty() {
                break;
            }
            let ended = running.swap_remove(pick.index(running.len()));
            lanes.finish_call(&conversation(&format!("c{}", ended.0)), ended.1, 0);
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
