//! Editors that send invalid messages: the connection and the calls go on.

use serde_json::{Value, json};

use crate::harness::caller::ToolCall;
use crate::harness::editor::{EditorProcess, choose_option};
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::wait_until;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_that_are_no_messages_are_answered_and_spoil_no_other() {
    let setup = RunnerFixture::new().await;
    let mut editor = EditorProcess::launch(&setup.setting, choose_option("allow_once"));
    let (session, _) = editor.attached(&json!({}), &setup.setting).await;
    let errors = |editor: &EditorProcess| -> Vec<Value> {
        let told = editor
            .heard()
            .into_iter()
            .filter(|m| m["id"].is_null() && m.get("error").is_some());
        told.map(|m| m["error"]["code"].clone()).collect()
    };
    editor.write(b"{ this is no json\n");
    editor.write(b"\xFF\xFE\x80\n");
    editor.write(b"\n\n");
    editor.write(b"[1]\n");
    wait_until("three answers", || errors(&editor).len() == 3).await;
    assert_eq!(errors(&editor), [-32700, -32700, -32600]);
    // A line over the size limit.
    let long = vec![b'x'; 1 << 20];
    for _ in 0..40 {
        editor.write(&long);
    }
    editor.write(b"\n");
    wait_until("an answer to the long line", || errors(&editor).len() == 4).await;
    // A request over the limit is refused under its id, wherever the id is in the line.
    let text = "x".repeat(40 << 20);
    let prompt = format!(
        r#""method":"session/prompt","params":{{"sessionId":"{session}","prompt":"{text}"}}"#
    );
    editor.write(format!("{{\"jsonrpc\":\"2.0\",\"id\":1001,{prompt}}}\n").as_bytes());
    assert_eq!(editor.answer(1001).await["error"]["code"], -31_003);
    editor.write(format!("{{\"jsonrpc\":\"2.0\",{prompt},\"id\":1002}}\n").as_bytes());
    assert_eq!(editor.answer(1002).await["error"]["code"], -31_003);
    editor.notify("session/unheard_of", &json!({ "x": 1 }));
    let id = setup.ask_bash("echo still here").await;
    assert_eq!(setup.answer(&id).await.text(), "still here");
    editor.shows(&session, &id, "completed").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_that_cannot_be_served_are_refused_by_their_codes() {
    let setup = RunnerFixture::new().await;
    let mut editor = EditorProcess::launch(&setup.setting, choose_option("allow_once"));
    let code = async |editor: &mut EditorProcess, method: &str, params: Value| {
        let id = editor.send(method, &params);
        editor.answer(id).await["error"]["code"].clone()
    };
    let work = &setup.setting.workspace;
    let new = |cwd: Value| json!({ "cwd": cwd, "mcpServers": [] });
    assert_eq!(
        code(&mut editor, "session/new", new(json!(work))).await,
        -32600,
        "before initialize"
    );
    editor.initialize_client(&json!({})).await;
    assert_eq!(
        code(&mut editor, "session/new", new(json!("relative/path"))).await,
        -32602
    );
    assert_eq!(
        code(&mut editor, "session/new", new(json!("/no/such/folder"))).await,
        -32602
    );
    assert_eq!(code(&mut editor, "session/load", json!({})).await, -32602);
    let unknown = json!({ "sessionId": "none", "cwd": work, "mcpServers": [] });
    assert_eq!(code(&mut editor, "session/load", unknown).await, -32002);
    assert_eq!(code(&mut editor, "_anything/else", json!({})).await, -32601);
    let prompt = json!({ "sessionId": "none", "prompt": [{ "type": "text", "text": "attach" }] });
    assert_eq!(code(&mut editor, "session/prompt", prompt).await, -32002);
    editor.notify("session/cancel", &json!({ "sessionId": "none" }));
    // After another `initialize`, the editor gets a session all the same.
    editor
        .initialize_client(&json!({ "fs": "yes please" }))
        .await;
    editor.session(work).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_editor_that_does_not_read_holds_up_no_call() {
    let setup = RunnerFixture::new().await;
    let mut editor = EditorProcess::launch(&setup.setting, choose_option("allow_once"));
    let (session, _) = editor.attached(&json!({}), &setup.setting).await;
    let gate = editor.stop_reading();
    for n in 0..40 {
        setup
            .call_tool("Glob", &json!({ "pattern": format!("{n}*") }))
            .await
            .expect_ok();
    }
    drop(gate);
    let id = setup
        .ask(ToolCall::new("Glob", &json!({ "pattern": "*" })))
        .await;
    editor.shows(&session, &id, "completed").await;
}
