//! A device on another machine, reached through its backend.

use std::process::Stdio;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use super::{McpUser, TestClient, connect_to, result_text};

#[tokio::test]
async fn the_tools_of_another_device_are_served_through_the_backend() {
    let owner = McpUser::new();
    let user = McpUser::new();
    owner.write("work/note", "of the owner");
    let mut dev = owner.command(&["dev", "--json"]);
    dev.stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut dev = dev.spawn().expect("started");
    let mut lines = BufReader::new(dev.stdout.take().expect("a pipe")).lines();
    let ready = lines.next_line().await.expect("read").expect("a line");
    let ready: Value = serde_json::from_str(&ready).expect("JSON");
    let word = |key: &str| ready[key].as_str().expect(key);

    // The client's folder is on another machine and says nothing about the device.
    let client = TestClient {
        roots: Some(vec![user.path("work")]),
        ..TestClient::default()
    };
    let args = [
        "--backend-url",
        word("url"),
        "--device",
        word("deviceId"),
        "mcp",
    ];
    let mut command = user.command(&args);
    command.env("PUNIE_CALLER_TOKEN", word("callerToken"));
    let client = connect_to(command, client).await;
    let mut names = Vec::new();
    while names.is_empty() {
        // The device publishes its catalog after its start.
        let tools = client.service.list_all_tools().await.expect("tools");
        names = tools.into_iter().map(|tool| tool.name).collect();
    }
    assert!(names.iter().any(|name| name == "Read"), "{names:?}");
    let read = client.call("Read", json!({"file_path": "note"})).await;
    assert_contains!(result_text(&read), "of the owner");
    client.close().await;
}
