//! Large backlogs: hundreds of requests at the start of a runner, and thousands of results that wait for days.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use punie_engine::journal::RequestState;
use serde_json::json;

use crate::harness::caller::ToolCall;
use crate::harness::relay::{CallFate, Relay};
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::wait_until;

/// Appends the number of commands that run now to a file.
const COUNTED: &str = "mkdir running/$$ && ls running | wc -l >> width && rmdir running/$$";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: `.ci/run` runs it"]
async fn f68_a_backlog_at_the_start_is_worked_off_in_bounds_in_turn_and_with_a_heartbeat() {
    let setup = RunnerFixture::with_config(
        "[limits]\nreads = 4\ntotal = 4\n[backend]\nheartbeat_ms = 100\n",
    )
    .await;
    std::fs::create_dir(setup.file("running")).expect("made");
    let relay = Relay::before(&setup.setting.url).await;
    assert_eq!(setup.command(&["pause"]).await.code, Some(0));
    let runner = setup.run_at(&relay.url);
    let mut asked = Vec::new();
    for n in 0..256 {
        // One conversation has most of the requests, and sent them first.
        let talk = if n < 200 {
            "long".to_owned()
        } else {
            format!("short-{}", n % 7)
        };
        asked.push(
            setup
                .ask(
                    ToolCall::bash(&format!("{COUNTED}; echo {talk} >> order"))
                        .in_conversation(&talk),
                )
                .await,
        );
    }
    let accepted = || {
        setup
            .journal()
            .and_then(|journal| journal.count_open_requests().ok())
            .map_or(0, |counts| counts.accepted)
    };
    wait_until("all to be accepted", || accepted() == 256).await;
    runner.kill();
    assert_eq!(setup.read("order"), "", "paused, nothing began");

    assert_eq!(setup.command(&["resume"]).await.code, Some(0));
    // The backend names no time for the next heartbeat.
    let beats = Arc::new(AtomicUsize::new(0));
    let heard = Arc::clone(&beats);
    relay.rule(move |path, args| {
        if path != "devices:heartbeat" {
            return CallFate::Pass;
        }
        heard.fetch_add(1, Ordering::SeqCst);
        let now = json!({ "serverNowMs": args["signedAtMs"] });
        CallFate::say(
            "200 OK",
            "",
            &json!({ "status": "success", "value": now }).to_string(),
        )
    });
    let _runner = setup.run_at(&relay.url);
    for id in &asked {
        setup.answer(id).await.expect_ok();
    }
    let widest = setup
        .read("width")
        .lines()
        .filter_map(|n| n.trim().parse().ok())
        .max();
    assert!(
        widest.is_some_and(|widest: usize| widest <= 4),
        "{widest:?} at once"
    );
    let order = setup.read("order");
    let first: HashSet<&str> = order.lines().take(100).collect();
    assert_eq!(
        first.len(),
        8,
        "the others do not wait for the long one: {first:?}"
    );
    assert_eq!(order.lines().count(), 256, "each ran once");
    assert!(
        beats.load(Ordering::SeqCst) >= 3,
        "the heartbeat went on meanwhile"
    );
}

/// Returns the peak memory of a process, in kilobytes.
fn peak_kb(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .expect("a figure");
    line.trim()
        .trim_end_matches(" kB")
        .parse()
        .expect("a number")
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: `.ci/run` runs it"]
async fn a_backlog_of_large_arguments_waits_in_the_journal_and_not_in_memory() {
    const MANY: u32 = 120;
    let setup = RunnerFixture::with_config("[limits]\nttl_ms = 86400000\n").await;
    assert_eq!(setup.command(&["pause"]).await.code, Some(0));
    let accepted = || {
        setup
            .journal()
            .and_then(|journal| journal.count_open_requests().ok())
            .map_or(0, |counts| counts.accepted)
    };
    let runner = setup.run();
    // The first request is small: it shows the peak memory of this build without a backlog.
    let args = json!({ "file_path": "f", "content": "x" });
    let first = setup.ask(ToolCall::new("Write", &args)).await;
    wait_until("the first to be accepted", || accepted() == 1).await;
    let idle = peak_kb(runner.pid());
    let content = "x".repeat(860_000);
    let mut asked = vec![first];
    for n in 0..MANY {
        let write = json!({ "file_path": format!("f{n}"), "content": content });
        asked.push(
            setup
                .ask(ToolCall::new("Write", &write).in_conversation(&format!("talk-{}", n % 40)))
                .await,
        );
    }
    wait_until("all to be accepted", || accepted() == MANY + 1).await;
    // The arguments of all requests together are a hundred megabytes.
    let most = idle + 60 * 1024;
    let paused = peak_kb(runner.pid());
    assert!(paused < most, "{paused} kB, {idle} kB without a backlog");
    runner.kill();
    // The limit also holds for a process that finds the backlog at its start.
    let runner = setup.run();
    assert_eq!(setup.command(&["resume"]).await.code, Some(0));
    for id in &asked {
        setup.answer(id).await.expect_ok();
    }
    let worked_off = peak_kb(runner.pid());
    assert!(
        worked_off < most,
        "{worked_off} kB, {idle} kB without a backlog"
    );
}

/// Waits until the number is `wanted`, and fails when it stops changing before.
async fn wait_for_count(number: impl Fn() -> usize, wanted: usize) {
    let mut last = number();
    while last != wanted {
        wait_until("the number to change", || number() != last).await;
        last = number();
    }
}

/// Has this many results wait for a backend that takes none, kills the runner, and lets the next one post them. Returns
/// the seconds that the posts took.
async fn measure_drain(replies: usize) -> f64 {
    let setup = RunnerFixture::with_config("[limits]\nttl_ms = 86400000\n").await;
    let relay = Relay::before(&setup.setting.url).await;
    relay.rule(|path, _| {
        if path == "events:appendResult" {
            CallFate::Unheard
        } else {
            CallFate::Pass
        }
    });
    let runner = setup.run_at(&relay.url);
    let mut asked = Vec::new();
    for n in 0..replies {
        let ask = ToolCall::new("Glob", &json!({ "pattern": "*.none" }))
            .in_conversation(&format!("talk-{}", n % 20));
        asked.push(setup.ask(ask).await);
    }
    let outbox = || {
        setup
            .journal()
            .and_then(|journal| journal.count_open_requests().ok())
            .map_or(0, |counts| counts.outbox)
    };
    let outbox = || usize::try_from(outbox()).expect("small");
    wait_for_count(outbox, replies).await;
    runner.kill();
    // Six days later, by the backend's clock, which decides. The runner must not give up any result.
    setup.advance_backend(6 * 86_400_000);
    let _runner = setup.run();
    let begun = Instant::now();
    wait_for_count(outbox, 0).await;
    let took = begun.elapsed().as_secs_f64();
    for id in asked.iter().step_by(replies.div_ceil(50)) {
        assert_eq!(setup.state(id), Some(RequestState::Delivered));
        setup.answer(id).await.expect_ok();
    }
    assert_eq!(
        setup
            .journal()
            .expect("there")
            .count_open_requests()
            .expect("readable")
            .undeliverable,
        0
    );
    took
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replies_that_waited_for_six_days_are_all_delivered() {
    measure_drain(200).await;
}

/// Run by hand: `cargo test --release --test it ten_thousand -- --ignored --nocapture`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "takes a minute; the figure is for people"]
async fn only_by_name_ten_thousand_replies_are_delivered_at_a_hundred_a_second_or_more() {
    let took = measure_drain(10_000).await;
    eprintln!(
        "10000 replies in {took:.1} s, {:.0} a second",
        10_000.0 / took
    );
    assert!(took < 100.0);
}
