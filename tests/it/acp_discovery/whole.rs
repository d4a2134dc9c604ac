//! Discovery through the program itself: a caller finds an editor's tool in the backend's catalog and calls it, and the
//! person at the editor can refuse.

use std::path::Path;

use serde_json::{Value, json};

use super::editor::{DISCOVER, discovery_capability, tool_description};
use crate::harness::caller::ToolCall;
use crate::harness::editor::{EditorProcess, EditorReaction};
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::{wait_for_some, wait_until};

/// Offers a read-only tool and one that requires permission, and answers every question with this option.
fn serve_tools(
    option: &'static str,
) -> impl FnMut(&str, &Value) -> EditorReaction + Send + 'static {
    let mut renames = tool_description("ide_rename", "edit");
    renames["requires_permission"] = json!(true);
    move |method, params| match method {
        DISCOVER => EditorReaction::Answer(
            json!({ "tools": [tool_description("ide_find", "search"), renames, json!("odd")] }),
        ),
        "session/request_permission" => EditorReaction::Answer(
            json!({ "outcome": { "outcome": "selected", "optionId": option } }),
        ),
        "_ide_find" => EditorReaction::Answer(json!({ "found": params["args"]["symbol"] })),
        "_ide_rename" => EditorReaction::Answer(json!("3 places in 2 files")),
        _ => EditorReaction::Refuse(-32601),
    }
}

async fn published_tool(setup: &RunnerFixture, name: &str) -> Value {
    let find = async || {
        setup
            .caller
            .tools()
            .await
            .into_iter()
            .find(|(key, _)| key == name)
            .map(|(_, body)| body)
    };
    wait_for_some(&format!("{name} to be published"), find).await
}

fn tool_call(name: &str) -> ToolCall {
    ToolCall::new(name, &json!({ "symbol": "main" }))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_finds_an_editors_tool_and_calls_it_until_the_editor_goes() {
    let setup = RunnerFixture::new().await;
    let mut editor = EditorProcess::launch(&setup.setting, serve_tools("allow_once"));
    let (session, turn) = editor
        .attached(&discovery_capability(), &setup.setting)
        .await;
    assert_eq!(editor.requests(DISCOVER), [json!({ "sessionId": session })]);
    let said = editor.said(&session);
    assert_contains!(said, "Run by Testedit 1.0: ide_find, ide_rename.");
    assert_contains!(said, "Left out: tools[2]: it is not an object.");
    let body = published_tool(&setup, "ide_find").await;
    assert_fields!(body, {"origin": "editor: Testedit 1.0", "requires_permission": false});
    assert_eq!(
        published_tool(&setup, "ide_rename").await["requires_permission"],
        true
    );

    let id = setup.ask(tool_call("ide_find")).await;
    assert_eq!(setup.answer(&id).await.text(), r#"{"found":"main"}"#);
    editor.shows(&session, &id, "completed").await;
    assert_eq!(
        editor.requests("session/request_permission").len(),
        0,
        "a read-only tool needs no permission"
    );
    assert_eq!(
        editor.requests("_ide_find")[0]["_meta"]["punie"]["requestId"],
        json!(id)
    );

    let id = setup.ask(tool_call("ide_rename")).await;
    let renamed = setup.answer(&id).await;
    assert_eq!(renamed.text(), "3 places in 2 files");
    assert!(
        renamed.payload["meta"].get("confinement").is_none(),
        "the runner did not confine it: {renamed:?}"
    );
    editor.shows(&session, &id, "completed").await;
    assert_eq!(
        editor.shown_stages(&session, &id),
        ["pending", "in_progress", "completed"]
    );
    assert_eq!(editor.requests("session/request_permission").len(), 1);

    assert_contains!(
        setup
            .call_tool("ide_rename", &json!({ "name": "main" }))
            .await
            .expect_error("invalid_args"),
        "missing key `symbol`"
    );
    let questions = editor.requests("session/request_permission").len();
    assert_eq!(
        (editor.requests("_ide_rename").len(), questions),
        (1, 1),
        "invalid arguments reach neither the person nor the editor"
    );

    // After the turn the tool is still in the catalog, but its calls are not sent to the editor.
    editor.notify("session/cancel", &json!({ "sessionId": session }));
    editor.answer(turn).await;
    assert_contains!(
        setup
            .call(tool_call("ide_find"))
            .await
            .expect_error("not_found"),
        "no editor has attached itself"
    );
    assert_eq!(editor.requests("_ide_find").len(), 1);
    editor.close();
    assert!(editor.end().await.success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tool_that_the_person_refuses_does_not_reach_the_editor() {
    let setup = RunnerFixture::new().await;
    let mut editor = EditorProcess::launch(&setup.setting, serve_tools("reject_once"));
    let (session, _) = editor
        .attached(&discovery_capability(), &setup.setting)
        .await;
    let id = setup.ask(tool_call("ide_rename")).await;
    setup.answer(&id).await.expect_error("policy_denied");
    editor.shows(&session, &id, "failed").await;
    assert_eq!(editor.requests("_ide_rename").len(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_editors_tools_go_with_it_while_the_runner_stays() {
    let setup = RunnerFixture::new().await;
    let runner = setup.run();
    runner.wait_for_log("the runner is up").await;
    let mut editor = EditorProcess::launch(&setup.setting, serve_tools("allow_once"));
    editor
        .attached(&discovery_capability(), &setup.setting)
        .await;
    published_tool(&setup, "ide_find").await;
    editor.close();
    editor.end().await;
    let gone = async || {
        let tools = setup.caller.tools().await;
        (!tools.iter().any(|(name, _)| name.starts_with("ide_"))).then_some(tools.len())
    };
    assert!(
        wait_for_some("the editor's tools to be gone", gone).await > 30,
        "the device's own tools stay"
    );
    assert_contains!(
        setup
            .call(tool_call("ide_find"))
            .await
            .expect_error("unknown_tool"),
        "It was offered by editor: Testedit 1.0, which has gone."
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sessions_of_one_editor_are_asked_each_and_prompts_are_not() {
    let setup = RunnerFixture::new().await;
    let mut editor = EditorProcess::launch(&setup.setting, serve_tools("allow_once"));
    editor.initialize_client(&discovery_capability()).await;
    let work: &Path = &setup.setting.workspace;
    let first = editor.session(work).await;
    let second = editor.session(work).await;
    wait_until("two discoveries", || editor.requests(DISCOVER).len() == 2).await;
    for _ in 0..3 {
        let prompt = editor.prompt(&first, "status");
        editor.answer(prompt).await;
    }
    assert_contains!(editor.said(&first), "Tier 1");
    let asked: Vec<Value> = editor
        .requests(DISCOVER)
        .into_iter()
        .map(|params| params["sessionId"].clone())
        .collect();
    assert!(
        asked.len() == 2 && asked.contains(&json!(first)) && asked.contains(&json!(second)),
        "{asked:?}"
    );
}
