//! Frames of calls and results, and frames that the runner cannot use.

use serde_json::json;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;

use crate::harness::worker::WorkerProcess;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_errors_of_the_plain_tools_come_to_the_letter() {
    let worker = WorkerProcess::new().await;
    std::fs::write(worker.setting.logs.join("outside"), "secret").expect("written");
    let _runner = worker.run();
    let mut line = worker.accept().await;
    assert_eq!(line.headers["path"], "/device");
    assert_starts_with!(line.headers["user-agent"], "punie-runner/");
    assert!(
        !line.headers.contains_key("authorization"),
        "there is no token"
    );
    for tool in ["git_status", "get_git_status", "get_diff", "git_diff"] {
        assert_eq!(
            line.fails(tool, tool, &json!({})).await,
            "Error: Not a git repository",
            "{tool}"
        );
    }
    let outside = worker.setting.logs.join("outside");
    for (id, path) in [
        ("s1", "../logs/outside"),
        ("s2", "/etc/passwd"),
        ("s3", outside.to_str().expect("text")),
    ] {
        let output = line.fails(id, "read_file", &json!({ "path": path })).await;
        assert_eq!(output, "Error: Security violation", "{path}");
    }
    assert_eq!(
        line.fails("n1", "read_file", &json!({"path": "none"}))
            .await,
        "Error: File not found"
    );
    line.done(
        "w1",
        "write_file",
        &json!({"path": "deep/note", "content": "one\n"}),
    )
    .await;
    assert_eq!(
        line.done("r1", "read_file", &json!({"path": "deep/note"}))
            .await,
        "one\n"
    );
    assert_contains!(
        line.done("c1", "run_command", &json!({"command": "echo $((40 + 2))"}))
            .await,
        "42"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_used_is_said_so_and_costs_nothing_else() {
    let worker = WorkerProcess::new().await;
    worker.write("note", "here\n");
    let _runner = worker.run();
    let mut line = worker.accept().await;
    for (bad, words) in cases! {
        ("hello", "not JSON"),
        ("[1]", "no JSON object"),
        ("{\"type\":\"tool_call\",\"tool\":\"read_file\",\"args\":{}}", "no id"),
        ("{\"id\":\"x\"}", "no type"),
    } {
        line.say(bad).await;
        let told = line.frame().await;
        assert_eq!(told["type"], "error", "{told}");
        assert_contains!(told["message"].as_str().expect("words"), words);
    }
    line.send(Message::binary(vec![0_u8; 10])).await;
    let told = line.frame().await;
    assert_contains!(told["message"].as_str().expect("words"), "binary");
    // Frames of unknown types are meant for others, so the runner does not answer them.
    line.say("{\"type\":\"greeting\"}").await;
    for (id, tool, args, words) in [
        ("a", "read_file", json!(["note"]), "object"),
        ("b", "read_file", json!({"path": 123}), "path"),
        ("c", "read_file", json!({"path": "note", "more": 1}), "more"),
        ("d", "no_such_tool", json!({}), "no_such_tool"),
        ("e", "not a name", json!({}), "tool name"),
    ] {
        let output = line.fails(id, tool, &args).await;
        assert_contains!(output, words; "{tool} {args}");
    }
    // Any text is a valid id, and the answer has it unchanged.
    assert_eq!(
        line.done("call:1/\u{e9}", "read_file", &json!({"path": "note"}))
            .await,
        "here\n"
    );
    line.say(
        &json!({"type": "tool_call", "tool": "read_file", "id": 7, "args": {"path": "note"}})
            .to_string(),
    )
    .await;
    let told = line.frame().await;
    assert_fields!(told, {"tool_call_id": 7, "status": "error"});
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_beyond_the_limit_closes_the_connection_with_the_reason() {
    let worker = WorkerProcess::new().await;
    let _runner = worker.run();
    let mut line = worker.accept().await;
    let content = "x".repeat(9 << 20);
    line.done(
        "fits",
        "write_file",
        &json!({"path": "large", "content": content}),
    )
    .await;
    assert_eq!(worker.read("large").len(), 9 << 20);
    let content = "x".repeat(20 << 20);
    line.call(
        "too-large",
        "write_file",
        &json!({"path": "larger", "content": content}),
    )
    .await;
    let Some(Message::Close(Some(close))) = line.message().await else {
        panic!("a close frame was expected")
    };
    assert_eq!(close.code, CloseCode::Size);
    assert_eq!(close.reason.as_str(), "the message is too large");
    let mut line = worker.accept().await;
    assert_eq!(
        line.done("after", "read_file", &json!({"path": "large"}))
            .await
            .get(..3),
        Some("xxx")
    );
    assert!(!worker.file("larger").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_is_taken_back_is_stopped() {
    let worker = WorkerProcess::new().await;
    let _runner = worker.run();
    let mut line = worker.accept().await;
    line.call(
        "long",
        "run_command",
        &json!({"command": "echo begun > begun; sleep 600"}),
    )
    .await;
    crate::harness::wait::wait_until("its beginning", || worker.file("begun").exists()).await;
    line.say("{\"type\":\"tool_cancel\",\"id\":\"long\"}").await;
    let (status, output) = line.result("long").await;
    assert_eq!(status, "error");
    assert_contains!(output.to_lowercase(), "cancel");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_calls_is_answered_call_by_call() {
    let worker = WorkerProcess::new().await;
    worker.write("note", "here\n");
    let _runner = worker.run();
    let line = worker.accept().await;
    let (mut sink, mut stream) = futures_util::StreamExt::split(line.socket);
    let sending = async {
        for n in 0..2_000 {
            let call = json!({"type": "tool_call", "tool": "read_file", "id": format!("c{n}"), "args": {"path": "note"}});
            futures_util::SinkExt::send(&mut sink, Message::text(call.to_string()))
                .await
                .expect("sent");
        }
    };
    let reading = async {
        let mut ids = std::collections::BTreeSet::new();
        while ids.len() < 2_000 {
            let message = futures_util::StreamExt::next(&mut stream)
                .await
                .expect("the connection stays open")
                .expect("a message");
            let Message::Text(text) = message else {
                continue;
            };
            let frame: serde_json::Value = serde_json::from_str(text.as_str()).expect("JSON");
            assert_eq!(frame["output"], "here\n", "{frame}");
            assert!(
                ids.insert(frame["tool_call_id"].to_string()),
                "twice: {frame}"
            );
        }
    };
    tokio::join!(sending, reading);
}
