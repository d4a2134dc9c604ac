//! kill -9 of the runner at critical moments. A call with effects is answered as interrupted and never run again. A
//! read is run again, and a recorded result is posted.

use punie_engine::journal::RequestState;
use serde_json::json;

use crate::harness::caller::ToolCall;
use crate::harness::relay::{CallFate, Relay};
use crate::harness::running::is_alive;
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::{wait_for_some, wait_until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f06_a_command_cut_off_by_a_crash_is_answered_as_interrupted_and_not_run_again() {
    let setup = RunnerFixture::new().await;
    let relay = Relay::before(&setup.setting.url).await;
    let runner = setup.run_at(&relay.url);
    // The shell dies with the runner, but its child does not.
    let command = "echo ran >> effects; echo half of it; sleep 600 & echo $! > child; wait";
    let id = setup.ask_bash(command).await;
    let child = setup.wait_for_line_in("child").await;
    setup.wait_for_stored_output(&id, "half of it").await;
    runner.kill();
    assert!(is_alive(&child), "the test needs an orphan");
    assert!(setup.caller.result(&id).await.is_none());

    let _runner = setup.run_at(&relay.url);
    let answer = setup.answer(&id).await;
    answer.expect_error("interrupted");
    assert_eq!(answer.payload["meta"]["mayHaveRun"], true, "{answer:?}");
    assert_contains!(answer.text(), "half of it"; "the output before the crash");
    wait_until("the orphan to end", || !is_alive(&child)).await;
    // A later request proves that the interrupted one does not run again.
    setup.bash("true").await;
    assert_eq!(setup.read("effects"), "ran\n");
    assert_eq!(relay.posts(&id).1, 1, "one result was stored");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_cut_off_by_a_crash_is_run_again_and_answered_once() {
    let setup = RunnerFixture::new().await;
    let relay = Relay::before(&setup.setting.url).await;
    let db = rusqlite::Connection::open(setup.file("numbers.db")).expect("a database");
    db.execute_batch("create table upto (n); insert into upto values (1000000000000)")
        .expect("made");
    let runner = setup.run_at(&relay.url);
    let query = "with recursive c(x) as (select 1 union all select x + 1 from c where x < (select n from upto)) \
                 select 'counted ' || count(*) from c";
    let args = json!({ "database_path": "numbers.db", "query": query, "timeout_ms": 600_000 });
    let id = setup.ask(ToolCall::new("SqliteQuery", &args)).await;
    setup.wait_for_state(&id, RequestState::Started).await;
    runner.kill();
    assert!(setup.caller.result(&id).await.is_none());

    db.execute("update upto set n = 7", []).expect("updated");
    let _runner = setup.run_at(&relay.url);
    let answer = setup.answer(&id).await;
    assert!(
        answer.outcome == "ok" && answer.text().contains("counted 7"),
        "{answer:?}"
    );
    assert_eq!(answer.payload["meta"]["attempt"], 2);
    setup.wait_for_state(&id, RequestState::Delivered).await;
    assert_eq!(relay.posts(&id).1, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_that_crashes_the_runner_again_and_again_is_given_up() {
    let setup = RunnerFixture::new().await;
    let db = rusqlite::Connection::open(setup.file("numbers.db")).expect("a database");
    db.execute_batch("create table t (n)").expect("made");
    let query =
        "with recursive c(x) as (select 1 union all select x + 1 from c) select count(*) from c";
    let args = json!({ "database_path": "numbers.db", "query": query, "timeout_ms": 600_000 });
    let id = setup.ask(ToolCall::new("SqliteQuery", &args)).await;
    for _ in 0..3 {
        let runner = setup.run();
        setup.wait_for_state(&id, RequestState::Started).await;
        // The started state may be from the previous process. Recovery sets the call back to waiting before the catalog
        // is published.
        runner.wait_for_log("the catalog is published").await;
        setup.wait_for_state(&id, RequestState::Started).await;
        runner.kill();
    }
    let _runner = setup.run();
    setup.answer(&id).await.expect_error("interrupted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_result_recorded_before_a_crash_is_posted_after_it() {
    let mut setup = RunnerFixture::new().await;
    let relay = Relay::before(&setup.setting.url).await;
    let runner = setup.run_at(&relay.url);
    let command = "echo ran >> effects; until [ -e go ]; do sleep 0.02; done; echo the end";
    let id = setup.ask_bash(command).await;
    setup.wait_for_line_in("effects").await;
    setup.stop_backend().await;
    setup.write("go", "");
    setup.wait_for_state(&id, RequestState::Finished).await;
    runner.kill();

    setup.start_backend().await;
    // Without the listing of open requests, only the recorded result can cause the post.
    relay.rule(|path, _| {
        if path == "events:listOpenIds" {
            CallFate::Unheard
        } else {
            CallFate::Pass
        }
    });
    let _runner = setup.run_at(&relay.url);
    let answer = setup.answer(&id).await;
    assert!(
        answer.outcome == "ok" && answer.text().contains("the end"),
        "{answer:?}"
    );
    setup.wait_for_state(&id, RequestState::Delivered).await;
    assert_eq!(setup.read("effects"), "ran\n");
    assert_eq!(relay.posts(&id).1, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_between_the_post_and_its_acknowledgement_stores_one_result() {
    let setup = RunnerFixture::new().await;
    let relay = Relay::before(&setup.setting.url).await;
    relay.rule(|path, _| {
        if path == "events:appendResult" {
            CallFate::AnswerLost
        } else {
            CallFate::Pass
        }
    });
    let runner = setup.run_at(&relay.url);
    let id = setup.ask_bash("echo ran >> effects").await;
    setup.answer(&id).await;
    runner.kill();
    assert_eq!(setup.state(&id), Some(RequestState::Finished));
    relay.rule(|_, _| CallFate::Pass);
    let _runner = setup.run_at(&relay.url);
    setup.wait_for_state(&id, RequestState::Delivered).await;
    assert_eq!(setup.read("effects"), "ran\n");
    assert_eq!(relay.posts(&id).1, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crash_before_anything_began_loses_nothing() {
    let setup = RunnerFixture::new().await;
    let relay = Relay::before(&setup.setting.url).await;
    // Without a claim, no call with effects starts: the requests stay accepted.
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
                .ask(ToolCall::bash(&format!("echo {n} >> order")).in_conversation("talk"))
                .await,
        );
    }
    setup
        .wait_for_state(&asked[2], RequestState::Accepted)
        .await;
    runner.kill();
    assert_eq!(setup.read("order"), "", "nothing ran unclaimed");
    relay.rule(|_, _| CallFate::Pass);
    let _runner = setup.run_at(&relay.url);
    for id in &asked {
        setup.answer(id).await.expect_ok();
    }
    assert_eq!(setup.read("order"), "0\n1\n2\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_a_lost_journal_knew_of_is_not_run_again() {
    let setup = RunnerFixture::new().await;
    let runner = setup.run();
    let id = setup.ask_bash("echo ran >> effects; sleep 600").await;
    setup.wait_for_line_in("effects").await;
    runner.kill();
    for name in [
        "journal.sqlite3",
        "journal.sqlite3-wal",
        "journal.sqlite3-shm",
    ] {
        // Some of these files may not exist.
        let _ = std::fs::remove_file(setup.setting.home.join("state").join(name));
    }
    // The lease of the killed runner has run out. The next one gets the request, and cannot know how far it had come.
    setup.advance_backend(120_000);
    let _runner = setup.run();
    let answer = setup.answer(&id).await;
    answer.expect_error("interrupted");
    assert_eq!(answer.payload["meta"]["mayHaveRun"], true, "{answer:?}");
    setup.bash("true").await;
    assert_eq!(setup.read("effects"), "ran\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_killed_runner_had_begun_is_shown_as_cut_off_and_not_as_running() {
    let setup = RunnerFixture::new().await;
    let runner = setup.run();
    let id = setup.ask_bash("echo ran >> begun; exec sleep 600").await;
    setup.wait_for_line_in("begun").await;
    let life = setup.command(&["history", &id]).await.out;
    assert_contains!(life, "running", "Process");
    runner.kill();
    // Another process has the process id of the killed runner.
    let lock = setup.setting.home.join("state/runner.lock");
    std::fs::write(lock, format!("{}\n", std::process::id())).expect("written");
    let status = wait_for_some("the runner to be seen as gone", async || {
        let status = setup.command(&["status"]).await.out;
        status.contains("is not running").then_some(status)
    })
    .await;
    assert_contains!(
        status,
        "0 waiting, 0 running, 1 cut off (the next start answers)"
    );
    let status = setup.command(&["--json", "status"]).await.json();
    assert_fields!(status, {"inFlight": 0, "cutOff": 1});
    let list = setup.command(&["history"]).await.out;
    assert_contains!(list, "cut off; the next start answers it");
    let life = setup.command(&["history", &id]).await.out;
    assert_contains!(life, "cut off; the next start answers it");
    assert_lacks!(life, "Process");
    let detail = setup.command(&["--json", "history", &id]).await.json();
    assert_fields!(detail, {"/request/cutOff": true, "processes": []});
    let pause = setup.command(&["--json", "pause"]).await.json();
    assert_eq!(pause["inFlight"], 0, "{pause}");
    setup.command(&["resume"]).await;
    let _runner = setup.run();
    setup.answer(&id).await.expect_error("interrupted");
    setup.wait_for_state(&id, RequestState::Delivered).await;
    let status = setup.command(&["--json", "status"]).await.json();
    assert_fields!(status, {"inFlight": 0, "cutOff": 0});
}
