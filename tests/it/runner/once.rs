//! Requests that were sent while no runner ran, and the single pass (`--once`) that handles them.

use serde_json::json;

use crate::harness::caller::ToolCall;
use crate::harness::stage::RunnerFixture;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_sent_while_the_runner_was_stopped_runs_in_order_when_it_starts() {
    let setup = RunnerFixture::new().await;
    // The first command would finish last if the others did not wait for it.
    let first = setup
        .ask(ToolCall::bash("sleep 0.3; echo 1 >> order").in_conversation("talk"))
        .await;
    for n in 2..=4 {
        setup
            .ask(ToolCall::bash(&format!("echo {n} >> order")).in_conversation("talk"))
            .await;
    }
    let read = setup
        .ask(ToolCall::new("Read", &json!({ "file_path": "order" })).in_conversation("talk"))
        .await;
    let _runner = setup.run();
    let answer = setup.answer(&read).await;
    assert_eq!(setup.read("order"), "1\n2\n3\n4\n");
    assert_contains!(answer.text(), "4"; "the read must see the effects before it");
    setup.answer(&first).await.expect_ok();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_pass_answers_fifty_requests_and_the_next_finds_none() {
    let setup = RunnerFixture::new().await;
    let mut asked = Vec::new();
    for n in 0..10 {
        let talk = format!("talk-{n}");
        let file = format!("note-{n}.txt");
        let args = json!({ "file_path": file, "content": format!("note {n}\n") });
        let asks = cases! {
            (ToolCall::new("Write", &args), "ok"),
            (ToolCall::new("Read", &json!({ "file_path": file })), "ok"),
            (ToolCall::bash(&format!("echo {n} >> ran")), "ok"),
            (ToolCall::new("Glob", &json!({ "pattern": "note-*.txt" })), "ok"),
            (ToolCall::new("NoSuchTool", &json!({})), "error"),
        };
        for (ask, outcome) in asks {
            asked.push((setup.ask(ask.in_conversation(&talk)).await, outcome));
        }
    }
    let mut pass = setup.once().await;
    assert!(pass["elapsedMs"].is_u64(), "{pass}");
    pass.as_object_mut().expect("an object").remove("elapsedMs");
    assert_eq!(
        pass,
        json!({ "polled": 50, "executed": 50, "delivered": 50, "pending": 0, "failed": 0 })
    );
    for (id, outcome) in asked {
        let answer = setup.caller.result(&id).await.expect("delivered by then");
        assert_eq!(answer.outcome, outcome, "{answer:?}");
    }
    assert_eq!(setup.read("ran").lines().count(), 10);
    let again = setup.once().await;
    assert_fields!(again, {"polled": 0, "executed": 0});
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_pass_takes_more_than_its_queue_holds() {
    let setup = RunnerFixture::with_config("[limits]\nqueue = 2\n").await;
    for n in 0..80 {
        let args = json!({ "file_path": format!("f{n}"), "content": "x" });
        setup
            .ask(ToolCall::new("Write", &args).in_conversation("talk"))
            .await;
    }
    let pass = setup.once().await;
    assert_fields!(pass, {"polled": 80, "delivered": 80});
}
