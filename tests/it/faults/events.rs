//! Pages of events that repeat, reorder, change or go back, and cancels of finished requests: no request is lost or run
//! twice.

use punie_dev_backend::InjectedFault;
use punie_engine::journal::RequestState;
use serde_json::json;

use crate::harness::caller::ToolCall;
use crate::harness::process::RunningProgram;
use crate::harness::relay::{CallFate, Relay};
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::wait_until;

/// Makes the backend offer all events again: its next page sends the runner back to the start. Uses up two requests.
async fn redeliver_events(setup: &RunnerFixture) {
    setup
        .faults
        .plan("events:listForDevice", 1, InjectedFault::Rewind);
    for _ in 0..2 {
        setup.bash("true").await.expect_ok();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f02_a_kill_after_the_page_is_taken_runs_what_is_offered_again_once() {
    let setup = RunnerFixture::new().await;
    let relay = Relay::before(&setup.setting.url).await;
    // Accepted but not started: without a claim, no call with effects starts.
    relay.rule(|path, _| {
        if path == "events:claim" {
            CallFate::Unheard
        } else {
            CallFate::Pass
        }
    });
    let runner = setup.run_at(&relay.url);
    let mut asked = Vec::new();
    for n in 0..3 {
        asked.push(
            setup
                .ask(ToolCall::bash(&format!("echo {n} >> effects")).in_conversation("talk"))
                .await,
        );
    }
    setup
        .wait_for_state(&asked[2], RequestState::Accepted)
        .await;
    runner.kill();
    // As if the backend had not received the new cursor: it offers all requests again, each of them twice.
    let journal = rusqlite::Connection::open(setup.setting.home.join("state/journal.sqlite3"))
        .expect("opens");
    journal
        .execute("delete from backend_fact where key = 'cursor'", [])
        .expect("forgotten");
    setup
        .faults
        .plan("events:listForDevice", 2, InjectedFault::Duplicate);
    relay.rule(|_, _| CallFate::Pass);
    let _runner = setup.run_at(&relay.url);
    for id in &asked {
        setup.wait_for_state(id, RequestState::Delivered).await;
        assert_eq!(relay.posts(id), (1, 1));
    }
    assert_eq!(setup.read("effects"), "0\n1\n2\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f38_the_same_request_twice_in_a_page_runs_once() {
    let setup = RunnerFixture::new().await;
    setup
        .faults
        .plan("events:listForDevice", None, InjectedFault::Duplicate);
    let relay = Relay::before(&setup.setting.url).await;
    let mut asked = Vec::new();
    for n in 0..5 {
        asked.push(
            setup
                .ask(ToolCall::bash(&format!("echo {n} >> effects")).in_conversation("talk"))
                .await,
        );
    }
    let _runner = setup.run_at(&relay.url);
    for id in &asked {
        setup.wait_for_state(id, RequestState::Delivered).await;
        assert_eq!(relay.posts(id), (1, 1));
    }
    // The same while the runner runs.
    let id = setup
        .ask(ToolCall::bash("echo 5 >> effects").in_conversation("talk"))
        .await;
    setup.wait_for_state(&id, RequestState::Delivered).await;
    assert_eq!(setup.read("effects"), "0\n1\n2\n3\n4\n5\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f40_a_known_id_with_other_arguments_is_noted_not_run_and_not_answered() {
    let setup = RunnerFixture::new().await;
    let relay = Relay::before(&setup.setting.url).await;
    let runner = setup.run_at(&relay.url);
    let id = setup.ask_bash("echo first >> effects").await;
    setup.wait_for_state(&id, RequestState::Delivered).await;
    let before = setup.answer(&id).await;
    setup
        .faults
        .plan("events:listForDevice", 1, InjectedFault::Rewind);
    let changed = json!({ "command": "echo other >> effects" }).to_string();
    setup
        .faults
        .plan("events:listForDevice", 1, InjectedFault::Args(changed));
    for _ in 0..2 {
        setup.bash("true").await;
    }
    runner
        .wait_for_log("a second request under a known id was not run")
        .await;
    assert_contains!(runner.log(), &id; "the log names it");
    expect_audit_row(&setup, &id, "conflict").await;
    setup.bash("true").await;
    assert_eq!(setup.read("effects"), "first\n");
    assert_eq!(setup.answer(&id).await.raw, before.raw);
    assert_eq!(relay.posts(&id), (1, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f41_pages_out_of_order_and_a_cursor_that_goes_back_lose_and_repeat_nothing() {
    let setup = RunnerFixture::new().await;
    let relay = Relay::before(&setup.setting.url).await;
    // The listing of open requests must not find a request that the pages lose.
    relay.rule(|path, _| {
        if path == "events:listOpenIds" {
            CallFate::Unheard
        } else {
            CallFate::Pass
        }
    });
    setup
        .faults
        .plan("events:listForDevice", 2, InjectedFault::Reorder);
    setup
        .faults
        .plan("events:listForDevice", 3, InjectedFault::Rewind);
    setup
        .faults
        .plan("events:listForDevice", 2, InjectedFault::Reorder);
    let mut asked = Vec::new();
    for n in 0..100 {
        asked.push(setup.ask_bash(&format!("echo {n} >> effects")).await);
    }
    let _runner = setup.run_at(&relay.url);
    for n in 100..110 {
        asked.push(setup.ask_bash(&format!("echo {n} >> effects")).await);
    }
    for id in &asked {
        setup.wait_for_state(id, RequestState::Delivered).await;
        assert_eq!(relay.posts(id), (1, 1));
    }
    let mut ran: Vec<u32> = setup
        .read("effects")
        .lines()
        .map(|line| line.parse().expect("a number"))
        .collect();
    ran.sort_unstable();
    assert_eq!(ran, (0..110).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f41_a_backend_whose_cursor_never_moves_is_not_asked_in_a_hot_loop() {
    let setup = RunnerFixture::new().await;
    setup
        .faults
        .plan("events:listForDevice", None, InjectedFault::Rewind);
    let _runner = setup.run();
    for n in 0..5 {
        setup
            .call(ToolCall::bash(&format!("echo {n} >> effects")).in_conversation("talk"))
            .await
            .expect_ok();
    }
    assert_eq!(setup.read("effects"), "0\n1\n2\n3\n4\n");
    // Five answers, the first page, and one poll a second besides: not thousands.
    assert!(setup.faults.calls("events:listForDevice") < 300);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f43_a_cancel_of_what_is_over_or_never_was_changes_nothing_and_is_noted() {
    let mut setup = RunnerFixture::new().await;
    let runner = setup.run();
    let id = setup.ask_bash("echo done >> effects").await;
    let before = setup.answer(&id).await;
    setup.wait_for_state(&id, RequestState::Delivered).await;
    assert_eq!(setup.caller.cancel(&id).await, "finished");
    assert_eq!(setup.caller.cancel("never-was").await, "unknown");
    runner.kill();
    // Redelivery may bring a cancel of a request that this device never received, and a cancel of a finished one.
    setup.stop_backend().await;
    let db = setup.database();
    for strange in ["never-was", id.as_str()] {
        db.execute(
            "insert into inbox (device_id, seq, place, type, request_id) \
             select device_id, (select max(seq) + 1 from inbox), 0, 'tool_cancel', ?1 from devices",
            [strange],
        )
        .expect("inserted");
    }
    db.execute(
        "update clock set last_seq = (select max(seq) from inbox)",
        [],
    )
    .expect("moved on");
    setup.start_backend().await;
    let runner = setup.run();
    setup.bash("echo still there").await.expect_ok();
    expect_log_lines(&runner, &["never-was", &id]).await;
    for id in ["never-was", &id] {
        expect_audit_row(&setup, id, "idle_cancel").await;
    }
    redeliver_events(&setup).await;
    let after = setup.answer(&id).await;
    assert_eq!(before.outcome, after.outcome);
    assert_eq!(before.raw, after.raw);
    assert_eq!(setup.read("effects"), "done\n");
}

/// Waits until the audit has a row with this event about this request.
async fn expect_audit_row(setup: &RunnerFixture, id: &str, event: &str) {
    let rows = setup.setting.home.join("state/audit.jsonl");
    let says_so = |line: &str| {
        line.contains(&format!("\"event\":\"{event}\""))
            && line.contains(&format!("\"requestId\":\"{id}\""))
    };
    let told = || {
        std::fs::read_to_string(&rows)
            .unwrap_or_default()
            .lines()
            .any(says_so)
    };
    wait_until(&format!("{event} of {id} in the audit"), told).await;
}

/// Waits until the log reports for each of these requests that its cancel changed nothing.
async fn expect_log_lines(runner: &RunningProgram, ids: &[&str]) {
    for id in ids {
        let says_so = |line: &str| line.contains("a cancel changes nothing") && line.contains(id);
        wait_until("the log line", || runner.log().lines().any(says_so)).await;
    }
}
