//! Cancels that race the start of their call.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::task::{JoinSet, LocalSet};

use crate::harness::caller::ToolCall;
use crate::harness::inside::{RunnerInProcess, settings_with};
use crate::harness::stage::RunnerFixture;
use crate::harness::whole::all_tools;

const SEEDS: u64 = 1_000;
const AT_ONCE: usize = 8;

/// Returns the number of scheduler turns between a request and its cancel. Small numbers are more frequent.
fn random_turns(seed: u64) -> u64 {
    let mut x = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0x5bd1_e995;
    x ^= x >> 31;
    x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^= x >> 27;
    let most = 1 << (x % 13);
    (x >> 32) % most
}

#[derive(Default)]
struct CancelTally {
    never_ran: AtomicU64,
    killed: AtomicU64,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: `.ci/run` runs it"]
async fn f42_a_cancel_that_races_the_start_leaves_a_call_that_never_ran_or_was_killed() {
    let setup = Arc::new(RunnerFixture::new().await);
    let whole = all_tools();
    let settings = settings_with(|settings| {
        settings.calls.replace(punie_engine::runner::CallSettings {
            reads: 8,
            total: 2 * AT_ONCE,
            ..settings.calls.current()
        });
    });
    let runner = RunnerInProcess::start(&setup, whole.registry, settings);
    let next = Arc::new(AtomicU64::new(0));
    let tally = Arc::new(CancelTally::default());
    let mut work = JoinSet::new();
    let callers = LocalSet::new();
    for _ in 0..AT_ONCE {
        let setup = Arc::clone(&setup);
        let next = Arc::clone(&next);
        let tally = Arc::clone(&tally);
        let caller = async move {
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= SEEDS {
                    return;
                }
                race_cancel(&setup, seed, &tally).await;
            }
        };
        work.spawn_local_on(caller, &callers);
    }
    callers.run_until(work.join_all()).await;
    assert_eq!(
        count_processes(&setup),
        0,
        "a command lives on that was answered as cancelled"
    );
    let never = tally.never_ran.load(Ordering::Relaxed);
    let killed = tally.killed.load(Ordering::Relaxed);
    assert_eq!(never + killed, SEEDS);
    assert!(
        never > 0 && killed > 0,
        "there was no race: {never} never ran, {killed} were killed"
    );
    runner.stop().await;
}

async fn race_cancel(setup: &RunnerFixture, seed: u64, tally: &CancelTally) {
    let began = setup.file(&format!("began.{seed}"));
    // `tail` has the file among its arguments while it runs, so `count_processes` finds it.
    let command = format!(
        ": > '{}'; exec tail -f '{}'",
        began.display(),
        began.display()
    );
    let id = setup
        .ask(ToolCall::bash(&command).in_conversation(&format!("talk-{seed}")))
        .await;
    for _ in 0..random_turns(seed) {
        tokio::task::yield_now().await;
    }
    setup.caller.cancel(&id).await;
    let answer = setup.answer(&id).await;
    assert_eq!(
        answer.verdict(),
        ("cancelled", "cancelled"),
        "seed {seed}: {answer:?}"
    );
    if answer.payload["meta"]["mayHaveRun"] == true {
        assert_contains!(answer.text(), "Cancelled: "; "seed {seed}");
        tally.killed.fetch_add(1, Ordering::Relaxed);
    } else {
        assert!(
            !began.exists(),
            "seed {seed}: it ran, and the answer says that it did not: {answer:?}"
        );
        tally.never_ran.fetch_add(1, Ordering::Relaxed);
    }
}

/// Counts the processes that have a file of this workspace among their arguments.
fn count_processes(setup: &RunnerFixture) -> usize {
    let folder = setup.setting.workspace.display().to_string().into_bytes();
    let entries = std::fs::read_dir("/proc")
        .expect("the processes")
        .filter_map(Result::ok);
    let lines = entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines
        .filter(|line| line.windows(folder.len()).any(|part| part == folder))
        .count()
}
