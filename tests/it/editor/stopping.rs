//! A person who stops the turn or closes the editor during a question: the call is refused for good, and its
//! conversation writes and runs nothing until that person resumes it.

use serde_json::json;

use crate::harness::caller::{CallAnswer, ToolCall};
use crate::harness::editor::{EditorProcess, EditorReaction, choose_option};
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::{wait_for_some, wait_until};

fn touch_call(name: &str) -> ToolCall {
    ToolCall::bash(&format!("touch {name}")).in_conversation("talk")
}

/// Checks that the answer tells the model to stop and not to ask again.
fn assert_refused_for_good(answer: &CallAnswer, reason: &str) {
    answer.expect_error("policy_denied");
    let text = answer.text();
    assert_contains!(
        text,
        reason,
        "Do not ask again",
        "`punie-runner resume talk`"
    );
}

/// Attaches an editor that answers nothing and waits until it is asked about a call. Returns the session, the turn and
/// the call.
async fn start_turn(setup: &RunnerFixture, editor: &mut EditorProcess) -> (String, u64, String) {
    let (session, turn) = editor.attached(&json!({}), &setup.setting).await;
    let id = setup.ask(touch_call("new.txt")).await;
    wait_until("the question", || {
        editor.requests("session/request_permission").len() == 1
    })
    .await;
    (session, turn, id)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_over_a_question_refuses_the_call_and_all_that_the_conversation_would_change() {
    let setup = RunnerFixture::new().await;
    setup.write("a.txt", "read me\n");
    let mut editor = EditorProcess::launch(&setup.setting, |_, _| EditorReaction::Silence);
    let (session, turn, id) = start_turn(&setup, &mut editor).await;
    editor.notify("session/cancel", &json!({ "sessionId": session }));
    assert_refused_for_good(
        &setup.answer(&id).await,
        "the person at Testedit 1.0 stopped the turn",
    );
    editor.answer(turn).await;
    // The model makes the call again all the same, and then tries another tool.
    assert_refused_for_good(&setup.call(touch_call("new.txt")).await, "stopped the turn");
    let write = ToolCall::new("Write", &json!({ "file_path": "new.txt", "content": "" }))
        .in_conversation("talk");
    assert_refused_for_good(&setup.call(write).await, "stopped the turn");
    let read = ToolCall::new("Read", &json!({ "file_path": "a.txt" })).in_conversation("talk");
    assert_eq!(setup.call(read).await.outcome, "ok", "reading goes on");
    assert!(!setup.file("new.txt").exists());
    let stopped = &setup.status().await["stoppedConversations"];
    assert_eq!(stopped[0]["conversationId"], "talk");
    assert_eq!(stopped.as_array().map(Vec::len), Some(1));
    let text = setup.command(&["status"]).await.out;
    assert_contains!(text, "`punie-runner resume talk`");
    // A new turn resumes the conversation: the person is asked again.
    editor.serves(choose_option("allow_once"));
    editor.attach(&session, "attach talk").await;
    setup.call(touch_call("new.txt")).await.expect_ok();
    assert_eq!(editor.requests("session/request_permission").len(), 2);
    assert_eq!(setup.status().await["stoppedConversations"], json!([]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_between_calls_stops_the_conversation_too_and_no_other() {
    let setup = RunnerFixture::new().await;
    let mut editor = EditorProcess::launch(&setup.setting, choose_option("allow_once"));
    let (session, turn) = editor.attached(&json!({}), &setup.setting).await;
    setup.call(touch_call("one")).await.expect_ok();
    editor.notify("session/cancel", &json!({ "sessionId": session }));
    editor.answer(turn).await;
    assert_refused_for_good(&setup.call(touch_call("two")).await, "stopped the turn");
    let stopped = &setup.status().await["stoppedConversations"];
    assert_eq!(stopped.as_array().map(Vec::len), Some(1), "{stopped}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_question_that_is_put_away_with_the_turn_is_a_stop_whichever_message_comes_first() {
    let setup = RunnerFixture::new().await;
    let mut editor = EditorProcess::launch(&setup.setting, |_, _| {
        EditorReaction::AnswerAndCancel(json!({ "outcome": { "outcome": "cancelled" } }))
    });
    editor.attached(&json!({}), &setup.setting).await;
    let id = setup.ask(touch_call("new.txt")).await;
    assert_refused_for_good(&setup.answer(&id).await, "stopped the turn");
    assert!(!setup.file("new.txt").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_editor_that_closes_over_a_question_stops_the_conversation_over_restarts_of_the_runner()
{
    let setup = RunnerFixture::new().await;
    let runner = setup.run();
    runner.wait_for_log("the runner is up").await;
    let mut editor = EditorProcess::launch(&setup.setting, |_, _| EditorReaction::Silence);
    let (_, _, id) = start_turn(&setup, &mut editor).await;
    // The editor is killed with its agent, as by a crash, so neither announces its end.
    editor.kill();
    assert_refused_for_good(
        &setup.answer(&id).await,
        "Testedit 1.0 was closed before anybody answered",
    );
    assert_refused_for_good(&setup.call(touch_call("new.txt")).await, "was closed");
    runner.kill();
    let runner = setup.run();
    assert_refused_for_good(&setup.call(touch_call("new.txt")).await, "was closed");
    assert!(!setup.file("new.txt").exists());
    let listed = setup.command(&["resume"]).await;
    assert_contains!(listed.out, "`punie-runner resume talk`");
    let resumed = setup.command(&["resume", "talk", "--json"]).await;
    assert_eq!(
        resumed.json(),
        json!({ "conversationId": "talk", "changed": true })
    );
    assert_eq!(
        setup.command(&["resume", "talk", "--json"]).await.json()["changed"],
        json!(false)
    );
    assert_eq!(
        setup.command(&["resume", "no conversation"]).await.code,
        Some(2)
    );
    assert_eq!(setup.status().await["stoppedConversations"], json!([]));
    drop(runner);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_the_person_allows_at_the_device_lets_its_conversation_go_on() {
    let setup = RunnerFixture::with_config("[policy]\nask = [\"WriteShell\"]\n").await;
    let runner = setup.run();
    runner.wait_for_log("the runner is up").await;
    let shell = json!({ "command": "sh", "tty": true, "run_in_background": true });
    setup
        .call(ToolCall::new("Bash", &shell).in_conversation("talk"))
        .await
        .expect_ok();
    // This call waits beside the conversation's other calls, and its question is on the device's list.
    let typed = json!({ "shell_id": "sh_1", "text": "echo typed > typed\n" });
    let typed = setup
        .ask(ToolCall::new("WriteShell", &typed).in_conversation("talk"))
        .await;
    let open = async || setup.command(&["approvals", "--json"]).await.out;
    wait_for_some("the question on the list", async || {
        open().await.contains("typed").then_some(())
    })
    .await;
    let mut editor = EditorProcess::launch(&setup.setting, |_, _| EditorReaction::Silence);
    let (session, _, id) = start_turn(&setup, &mut editor).await;
    editor.notify("session/cancel", &json!({ "sessionId": session }));
    assert_refused_for_good(&setup.answer(&id).await, "stopped the turn");
    assert_refused_for_good(&setup.call(touch_call("new.txt")).await, "stopped the turn");
    let listed = setup.listed_question().await;
    let allowed = setup
        .command(&["approvals", "allow", listed["id"].as_str().expect("an id")])
        .await;
    assert_eq!(allowed.code, Some(0), "{allowed:?}");
    setup.answer(&typed).await.expect_ok();
    assert_eq!(setup.wait_for_line_in("typed").await, "typed");
    assert_eq!(setup.status().await["stoppedConversations"], json!([]));
    assert!(!setup.file("new.txt").exists());
    // The test must end the shell, which outlives the runner.
    let args = json!({ "shell_id": "sh_1", "signal": "KILL" });
    let ended = ToolCall::new("KillShell", &args);
    setup.call(ended.in_conversation("talk")).await.expect_ok();
}
