//! Turns: how one is opened, the calls that it shows, their form, and how it ends.

use serde_json::json;

use crate::harness::caller::ToolCall;
use crate::harness::editor::{EditorProcess, choose_option};
use crate::harness::process::RunningProgram;
use crate::harness::running::is_alive;
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::wait_until;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn words_that_are_no_command_get_help_and_end_their_turn() {
    let setup = RunnerFixture::new().await;
    let mut editor = EditorProcess::launch(&setup.setting, choose_option("allow_once"));
    editor.initialize_client(&json!({})).await;
    let session = editor.session(&setup.setting.workspace).await;
    let prompt = editor.prompt(&session, "please fix the bug");
    assert_eq!(
        editor.answer(prompt).await["result"]["stopReason"],
        "end_turn"
    );
    assert_contains!(editor.said(&session), "`attach`");
    let prompt = editor.prompt(&session, "/status");
    editor.answer(prompt).await;
    assert_contains!(editor.said(&session), "the backend answers", "attached: no");
    let names: Vec<String> = editor.updates(&session)[0]["availableCommands"]
        .as_array()
        .expect("commands")
        .iter()
        .map(|command| command["name"].as_str().expect("a name").to_owned())
        .collect();
    assert_eq!(names, ["attach", "status", "revoke"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_is_shown_with_what_it_is_and_what_came_of_it() {
    let setup = RunnerFixture::new().await;
    setup.write("a.txt", "one\ntwo\n");
    let mut editor = EditorProcess::launch(&setup.setting, choose_option("allow_once"));
    let (session, _) = editor.attached(&json!({}), &setup.setting).await;
    let id = setup
        .ask(
            ToolCall::new("Read", &json!({ "file_path": "a.txt", "offset": 2 }))
                .in_conversation("talk"),
        )
        .await;
    let answer = setup.answer(&id).await;
    editor.shows(&session, &id, "completed").await;
    let shown: Vec<_> = editor
        .updates(&session)
        .into_iter()
        .filter(|u| u["toolCallId"] == *id)
        .collect();
    let first = &shown[0];
    let last = &shown[shown.len() - 1];
    assert_fields!(first, {"kind": "read", "title": "Read a.txt"});
    let work = std::fs::canonicalize(&setup.setting.workspace).expect("there");
    assert_fields!(first, {
        "locations": [{ "path": work.join("a.txt"), "line": 2 }],
        "rawInput": { "file_path": "a.txt", "offset": 2 },
        "/_meta/punie": { "requestId": id, "conversationId": "talk" },
    });
    assert_eq!(
        last["rawOutput"]["result"].as_str(),
        Some(answer.text().as_str())
    );
    assert_contains!(
        last["content"][0]["content"]["text"]
            .as_str()
            .expect("text"),
        "two"
    );
    // A failed call is shown as failed.
    let id = setup
        .ask(ToolCall::new("Read", &json!({ "file_path": "none.txt" })))
        .await;
    assert_eq!(setup.answer(&id).await.outcome, "error");
    editor.shows(&session, &id, "failed").await;
    let id = setup
        .ask(ToolCall::new("Read", &json!({ "nothing": 1 })))
        .await;
    setup.answer(&id).await.expect_error("invalid_args");
    editor.shows(&session, &id, "failed").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_command_prints_is_shown_as_it_comes() {
    let setup = RunnerFixture::new().await;
    let mut editor = EditorProcess::launch(&setup.setting, choose_option("allow_once"));
    let (session, _) = editor.attached(&json!({}), &setup.setting).await;
    let id = setup
        .ask_bash("echo begun; until [ -e go ]; do sleep 0.05; done; echo over")
        .await;
    let shows = |words: &str| {
        let updates = editor.updates(&session);
        let ours = updates
            .iter()
            .filter(|u| u["toolCallId"] == *id && u["sessionUpdate"] == "tool_call_update");
        ours.into_iter()
            .any(|u| u["content"].to_string().contains(words))
    };
    wait_until("the first output", || shows("begun")).await;
    assert_eq!(
        editor.shown_stages(&session, &id),
        ["pending", "in_progress"]
    );
    setup.write("go", "");
    setup.answer(&id).await.expect_ok();
    editor.shows(&session, &id, "completed").await;
    assert!(shows("over"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_editor_that_shows_terminals_is_fed_one() {
    let setup = RunnerFixture::new().await;
    let mut editor = EditorProcess::launch(&setup.setting, choose_option("allow_once"));
    let capabilities = json!({ "_meta": { "terminal_output": true } });
    let (session, _) = editor.attached(&capabilities, &setup.setting).await;
    let id = setup.ask_bash("echo one; echo two; exit 3").await;
    setup.answer(&id).await;
    editor.shows(&session, &id, "completed").await;
    let shown: Vec<_> = editor
        .updates(&session)
        .into_iter()
        .filter(|u| u["toolCallId"] == *id)
        .collect();
    let terminal = &shown[0]["_meta"]["terminal_info"]["terminal_id"];
    assert_eq!(&shown[0]["content"][0]["terminalId"], terminal);
    let fed: String = shown
        .iter()
        .filter_map(|u| {
            u["_meta"]["terminal_output"]["data"]
                .as_str()
                .map(str::to_owned)
        })
        .collect();
    assert_eq!(fed, "one\r\ntwo\r\n");
    let last = &shown[shown.len() - 1]["_meta"]["terminal_exit"];
    assert_fields!(last, {"exit_code": 3, "terminal_id": terminal});
    // A call that never ran shows the reason beside its empty terminal.
    editor.serves(choose_option("reject_once"));
    let id = setup.ask_bash("echo never").await;
    setup.answer(&id).await;
    editor.shows(&session, &id, "failed").await;
    let shown: Vec<_> = editor
        .updates(&session)
        .into_iter()
        .filter(|u| u["toolCallId"] == *id)
        .collect();
    let text = shown[shown.len() - 1]["content"].to_string();
    assert_contains!(text, "rejected it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopping_the_turn_stops_its_calls_and_all_that_is_shown_comes_before_its_end() {
    let setup = RunnerFixture::new().await;
    let mut editor = EditorProcess::launch(&setup.setting, choose_option("allow_once"));
    let (session, turn) = editor.attached(&json!({}), &setup.setting).await;
    let id = setup.ask_bash("echo $$ > pid; sleep 600").await;
    let pid = setup.wait_for_line_in("pid").await;
    editor.notify("session/cancel", &json!({ "sessionId": session }));
    assert_eq!(
        editor.answer(turn).await["result"]["stopReason"],
        "cancelled"
    );
    assert_eq!(
        editor.shown_stages(&session, &id),
        ["pending", "in_progress", "failed"],
        "the call is shown as failed before the turn ends"
    );
    let answer = setup.answer(&id).await;
    assert_eq!(answer.outcome, "cancelled");
    assert_contains!(
        answer.text(),
        "the person at the editor, who ended the turn"
    );
    assert!(!is_alive(&pid));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_sessions_each_show_the_calls_of_their_own_conversation() {
    let setup = RunnerFixture::new().await;
    let mut editor = EditorProcess::launch(&setup.setting, choose_option("allow_once"));
    editor.initialize_client(&json!({})).await;
    let all = editor.session(&setup.setting.workspace).await;
    let one = editor.session(&setup.setting.workspace).await;
    editor.attach(&one, "attach talk-1").await;
    editor.attach(&all, "attach").await;
    let list = |talk: &str| ToolCall::new("Glob", &json!({ "pattern": "*" })).in_conversation(talk);
    let mine = setup.ask(list("talk-1")).await;
    let other = setup.ask(list("talk-2")).await;
    editor.shows(&one, &mine, "completed").await;
    editor.shows(&all, &other, "completed").await;
    assert!(
        editor.shown_stages(&all, &mine).is_empty() && editor.shown_stages(&one, &other).is_empty()
    );
    let again = editor.prompt(&one, "attach");
    assert_eq!(
        editor.answer(again).await["result"]["stopReason"],
        "end_turn"
    );
    assert_contains!(editor.said(&one), "attached already");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_editor_joins_the_runner_that_is_up_and_calls_go_on_when_it_closes() {
    let setup = RunnerFixture::new().await;
    let runner = setup.run();
    runner.wait_for_log("the runner is up").await;
    let mut editor = EditorProcess::launch(&setup.setting, choose_option("allow_once"));
    let (session, _) = editor.attached(&json!({}), &setup.setting).await;
    let id = setup
        .ask_bash("until [ -e go ]; do sleep 0.05; done; echo done")
        .await;
    editor.shows(&session, &id, "in_progress").await;
    editor.close();
    assert_eq!(editor.end().await.code(), Some(0));
    setup.write("go", "");
    let answer = setup.answer(&id).await;
    assert_eq!(answer.outcome, "ok");
    assert_eq!(answer.text(), "done");
    let more = ToolCall::new("Glob", &json!({ "pattern": "g*" }));
    assert_eq!(
        setup.call(more).await.outcome,
        "ok",
        "reading needs no approval"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runner_that_an_editor_launched_goes_on_without_it_for_a_while_and_ends() {
    let setup = RunnerFixture::with_config("[editor]\nlinger_ms = 1500\n").await;
    let mut editor = EditorProcess::launch(&setup.setting, choose_option("allow_once"));
    editor.attached(&json!({}), &setup.setting).await;
    let command = "echo begun > begun; until [ -e go ]; do sleep 0.05; done";
    let id = setup.ask_bash(command).await;
    setup.wait_for_line_in("begun").await;
    editor.close();
    setup.write("go", "");
    setup.answer(&id).await.expect_ok();
    assert_eq!(editor.end().await.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_whose_editor_closes_without_a_turn_ends_at_once() {
    let setup = RunnerFixture::new().await;
    let mut editor = EditorProcess::launch(&setup.setting, choose_option("allow_once"));
    editor.initialize_client(&json!({})).await;
    editor.session(&setup.setting.workspace).await;
    editor.close();
    assert_eq!(editor.end().await.code(), Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_is_told_to_stop_ends_its_turns_and_leaves_no_child() {
    let setup = RunnerFixture::new().await;
    let mut editor = EditorProcess::launch(&setup.setting, choose_option("allow_once"));
    let (session, turn) = editor.attached(&json!({}), &setup.setting).await;
    let id = setup.ask_bash("echo $$ > pid; exec sleep 600").await;
    let pid = setup.wait_for_line_in("pid").await;
    let agent =
        rustix::process::Pid::from_raw(i32::try_from(editor.pid()).expect("a pid")).expect("a pid");
    rustix::process::kill_process(agent, rustix::process::Signal::TERM)
        .expect("a process of this user");
    assert_eq!(
        editor.answer(turn).await["result"]["stopReason"],
        "end_turn"
    );
    assert_contains!(editor.said(&session), "The runner stops.");
    assert_eq!(editor.end().await.code(), Some(0));
    assert!(!is_alive(&pid));
    setup.answer(&id).await.expect_error("interrupted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_device_that_cannot_take_calls_says_so_in_the_turn() {
    let setup = RunnerFixture::with_unpaired_device("").await;
    let mut setting = setup.setting.clone();
    setting.url = String::new();
    let mut editor = EditorProcess::launch(&setting, choose_option("allow_once"));
    editor.initialize_client(&json!({})).await;
    let session = editor.session(&setup.setting.workspace).await;
    let turn = editor.prompt(&session, "attach");
    assert_eq!(
        editor.answer(turn).await["result"]["stopReason"],
        "end_turn"
    );
    assert_contains!(editor.said(&session), "no backend is set");
    let held = RunningProgram::start(&setup.setting, &["status", "--json"])
        .end()
        .await;
    assert_eq!(held.json()["running"], true);
}
