//! Calls that no turn shows. The person at an attached editor would be asked about them. Without an editor they wait
//! for that person's approval, over restarts of the runner too, and never run without it.

use serde_json::json;

use crate::harness::caller::ToolCall;
use crate::harness::editor::{EditorProcess, choose_option};
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::wait_until;

fn touch_call(name: &str) -> ToolCall {
    ToolCall::bash(&format!("touch {name}")).in_conversation("talk")
}

async fn await_answer(setup: &RunnerFixture, words: &[&str]) {
    let id = setup.listed_question().await["id"]
        .as_str()
        .expect("an id")
        .to_owned();
    let (verb, rest) = words.split_first().expect("a verb");
    let answered = setup
        .command(&[&["approvals", verb, id.as_str()], rest].concat())
        .await;
    assert_eq!(answered.code, Some(0), "{answered:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_editor_asked_about_waits_for_an_approval_once_it_is_closed_over_restarts_too() {
    let setup = RunnerFixture::new().await;
    setup.write("a.txt", "read me\n");
    let runner = setup.run();
    runner.wait_for_log("the runner is up").await;
    let mut editor = EditorProcess::launch(&setup.setting, choose_option("allow_once"));
    editor.attached(&json!({}), &setup.setting).await;
    setup.call(touch_call("one")).await.expect_ok();
    editor.close();
    editor.end().await;
    let waits = setup.ask(touch_call("two")).await;
    setup
        .call_tool("Read", &json!({ "file_path": "a.txt" }))
        .await
        .expect_ok();
    setup.listed_question().await;
    assert!(!setup.file("two").exists());
    // The caller is not asked a question that belongs to the person at the editor.
    assert!(setup.caller.questions().await.is_empty());
    await_answer(&setup, &["allow", "--conversation"]).await;
    setup.answer(&waits).await.expect_ok();
    assert_eq!(
        setup.call(touch_call("three")).await.outcome,
        "ok",
        "for the rest of the conversation"
    );
    let other = setup
        .ask(ToolCall::bash("touch four").in_conversation("another"))
        .await;
    await_answer(&setup, &["deny"]).await;
    setup.answer(&other).await.expect_error("policy_denied");
    runner.kill();
    let _runner = setup.run();
    let waits = setup.ask(touch_call("five")).await;
    await_answer(&setup, &["deny"]).await;
    setup.answer(&waits).await.expect_error("policy_denied");
    assert!(!setup.file("four").exists() && !setup.file("five").exists());
    // The person leaves the decisions to the device's own policy again.
    assert_eq!(
        setup.status().await["askedConversations"],
        json!({ "all": true, "conversations": [] })
    );
    let ended = setup.command(&["resume", "--without-editor"]).await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    setup.call(touch_call("six")).await.expect_ok();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conversation_that_was_attached_by_name_is_asked_about_and_no_other() {
    let setup = RunnerFixture::new().await;
    let runner = setup.run();
    runner.wait_for_log("the runner is up").await;
    let mut editor = EditorProcess::launch(&setup.setting, choose_option("allow_once"));
    editor.initialize_client(&json!({})).await;
    let session = editor.session(&setup.setting.workspace).await;
    editor.attach(&session, "attach talk").await;
    editor.close();
    editor.end().await;
    setup
        .call(ToolCall::bash("touch free").in_conversation("another"))
        .await
        .expect_ok();
    let waits = setup.ask(touch_call("new.txt")).await;
    await_answer(&setup, &["deny"]).await;
    assert_eq!(setup.answer(&waits).await.outcome, "error");
    assert!(!setup.file("new.txt").exists());
    let ended = setup
        .command(&["resume", "talk", "--without-editor", "--json"])
        .await;
    assert_eq!(ended.json()["changed"], true, "{ended:?}");
    setup.call(touch_call("new.txt")).await.expect_ok();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_that_is_open_and_not_attached_says_what_waits_and_attaching_asks_about_it() {
    let setup = RunnerFixture::new().await;
    let mut editor = EditorProcess::launch(&setup.setting, choose_option("allow_once"));
    editor.initialize_client(&json!({})).await;
    let session = editor.session(&setup.setting.workspace).await;
    let waits = setup.ask(touch_call("new.txt")).await;
    wait_until("the notice in the thread", || {
        editor.said(&session).contains("waits for your approval")
    })
    .await;
    assert_contains!(editor.said(&session), "touch new.txt");
    assert!(!setup.file("new.txt").exists());
    assert!(editor.requests("session/request_permission").is_empty());
    editor.attach(&session, "attach").await;
    setup.answer(&waits).await.expect_ok();
    assert_eq!(editor.requests("session/request_permission").len(), 1);
    editor.shows(&session, &waits, "completed").await;
    assert_eq!(
        editor.shown_stages(&session, &waits),
        ["pending", "in_progress", "completed"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runner_whose_editor_went_away_ends_however_often_it_is_asked() {
    let setup = RunnerFixture::with_config("[editor]\nlinger_ms = 1500\n").await;
    let mut editor = EditorProcess::launch(&setup.setting, choose_option("allow_once"));
    editor.attached(&json!({}), &setup.setting).await;
    editor.close();
    let asking = async {
        loop {
            setup
                .ask(ToolCall::new("Glob", &json!({ "pattern": "*" })))
                .await;
        }
    };
    tokio::select! {
        () = asking => {}
        ended = editor.end() => assert_eq!(ended.code(), Some(0)),
    }
}
