//! A network that loses, cuts and refuses calls, and a runner that is killed at random moments. In the end each request
//! has one result, no effect happened twice, and every conversation ran in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use crate::harness::caller::ToolCall;
use crate::harness::relay::{CallFate, Relay};
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::wait_until;

/// Random numbers from a seed (xorshift64).
struct SeededNumbers(u64);

impl SeededNumbers {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }
}

const TALKS: usize = 3;
const EACH: usize = 12;
const LIVES: usize = 8;

/// Sends effects and reads in some conversations. Returns the effects with conversation and number, and the reads.
async fn ask_all(setup: &RunnerFixture) -> (Vec<(String, usize, usize)>, Vec<String>) {
    let mut effects = Vec::new();
    let mut reads = Vec::new();
    for n in 0..EACH {
        for talk in 0..TALKS {
            let name = format!("talk-{talk}");
            let effect = ToolCall::bash(&format!("echo {n} >> {name}")).in_conversation(&name);
            effects.push((setup.ask(effect).await, talk, n));
            let read =
                ToolCall::new("Glob", &json!({ "pattern": "talk-*" })).in_conversation(&name);
            reads.push(setup.ask(read).await);
        }
    }
    (effects, reads)
}

async fn run_storm(seed: u64) {
    let setup = RunnerFixture::new().await;
    let relay = Relay::before(&setup.setting.url).await;
    let (effects, reads) = ask_all(&setup).await;
    let calls = Arc::new(AtomicUsize::new(0));
    let counting = Arc::clone(&calls);
    let mut dice = SeededNumbers(seed);
    relay.rule(move |_, _| {
        counting.fetch_add(1, Ordering::SeqCst);
        match dice.below(20) {
            0 => CallFate::AnswerLost,
            1 => CallFate::Unheard,
            2 => CallFate::Cut(30),
            3 => CallFate::say("503 Service Unavailable", "", "{}"),
            _ => CallFate::Pass,
        }
    });
    let mut dice = SeededNumbers(seed.wrapping_mul(31));
    let ids: Vec<&String> = effects
        .iter()
        .map(|effect| &effect.0)
        .chain(&reads)
        .collect();
    // An idle runner makes only one call every half a minute, so the storm also moves on when all is done.
    let all_done = || ids.iter().all(|id| relay.posts(id).1 > 0);
    for _ in 0..LIVES {
        let moment =
            calls.load(Ordering::SeqCst) + 4 + usize::try_from(dice.below(40)).expect("small");
        let runner = setup.run_at(&relay.url);
        wait_until("the moment to kill", || {
            calls.load(Ordering::SeqCst) >= moment || all_done()
        })
        .await;
        runner.kill();
    }
    relay.rule(|_, _| CallFate::Pass);
    let _runner = setup.run_at(&relay.url);
    let mut verdicts = vec![Vec::new(); TALKS];
    for (id, talk, n) in &effects {
        let answer = setup.answer(id).await;
        let (outcome, code) = answer.verdict();
        assert!(
            outcome == "ok" || code == "interrupted",
            "seed {seed}: {answer:?}"
        );
        verdicts[*talk].push((*n, outcome == "ok"));
    }
    let interrupted = verdicts.iter().flatten().filter(|(_, ok)| !ok).count();
    assert!(
        interrupted <= LIVES * TALKS,
        "seed {seed}: a crash interrupts one effect a conversation at most"
    );
    for id in &reads {
        let answer = setup.answer(id).await;
        assert!(
            answer.outcome == "ok" || answer.verdict().1 == "interrupted",
            "seed {seed}: {answer:?}"
        );
    }
    for (talk, verdicts) in verdicts.iter().enumerate() {
        let done: Vec<usize> = setup
            .read(&format!("talk-{talk}"))
            .lines()
            .map(|line| line.parse().expect("a number"))
            .collect();
        assert!(
            done.windows(2).all(|pair| pair[0] < pair[1]),
            "seed {seed}, twice or out of order: {done:?}"
        );
        for (n, ok) in verdicts {
            assert!(
                !ok || done.contains(n),
                "seed {seed}: {n} of {talk} is said to be done and is not: {done:?}"
            );
        }
    }
    for id in ids {
        assert!(relay.posts(id).1 <= 1, "seed {seed}: {id} was stored twice");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: `.ci/run` runs it"]
async fn no_storm_loses_a_request_or_repeats_an_effect() {
    for seed in [3, 0x5eed, 987_654_321] {
        run_storm(seed).await;
    }
}
