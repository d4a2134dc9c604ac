//! A thread that is loaded again: its earlier calls are shown, and it is attached as before.

use serde_json::{Value, json};

use crate::harness::caller::ToolCall;
use crate::harness::editor::{EditorProcess, choose_option};
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::wait_until;

fn write_call(name: &str) -> ToolCall {
    ToolCall::new(
        "Write",
        &json!({ "file_path": name, "content": "written\n" }),
    )
    .in_conversation("talk")
}

fn load_arguments(setup: &RunnerFixture, session: &str) -> Value {
    json!({ "sessionId": session, "cwd": setup.setting.workspace, "mcpServers": [] })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thread_that_is_loaded_shows_its_calls_and_is_attached_as_before() {
    let setup = RunnerFixture::new().await;
    let runner = setup.run();
    runner.wait_for_log("the runner is up").await;
    let mut first = EditorProcess::launch(&setup.setting, choose_option("allow_once"));
    let (session, _) = first.attached(&json!({}), &setup.setting).await;
    let done = setup.ask(write_call("a.txt")).await;
    setup.answer(&done).await.expect_ok();
    first.shows(&session, &done, "completed").await;
    first.kill();
    runner.kill();
    let _runner = setup.run();
    let mut editor = EditorProcess::launch(&setup.setting, choose_option("allow_once"));
    let params = json!({ "protocolVersion": 1, "clientCapabilities": {} });
    let agent = editor.ask("initialize", &params).await;
    assert_eq!(agent["agentCapabilities"]["loadSession"], true, "{agent}");
    let unknown = editor.send("session/load", &load_arguments(&setup, "punie-unknown"));
    assert_eq!(editor.answer(unknown).await["error"]["code"], -32_002);
    editor
        .ask("session/load", &load_arguments(&setup, &session))
        .await;
    let shown = editor.updates(&session);
    let earlier = shown
        .iter()
        .find(|update| update["toolCallId"] == done)
        .expect("the earlier call");
    assert_fields!(earlier, {"title": "Write a.txt", "status": "completed"});
    // The thread is attached without a prompt, and the person is asked in it.
    wait_until("the turn to be open", || {
        editor.said(&session).contains("Attached")
    })
    .await;
    let next = setup.ask(write_call("b.txt")).await;
    setup.answer(&next).await.expect_ok();
    assert_eq!(editor.requests("session/request_permission").len(), 1);
    // A prompt to attach takes over the turn, and a stop ends both.
    let turn = editor.attach(&session, "attach").await;
    editor.notify("session/cancel", &json!({ "sessionId": session }));
    assert_eq!(
        editor.answer(turn).await["result"]["stopReason"],
        "cancelled"
    );
    // A thread that the person stopped is not attached again.
    editor.close();
    editor.end().await;
    let mut editor = EditorProcess::launch(&setup.setting, choose_option("allow_once"));
    editor.initialize_client(&json!({})).await;
    editor
        .ask("session/load", &load_arguments(&setup, &session))
        .await;
    let status = editor.prompt(&session, "status");
    editor.answer(status).await;
    assert_contains!(editor.said(&session), "attached: no");
    setup
        .call(write_call("c.txt"))
        .await
        .expect_error("policy_denied");
}
