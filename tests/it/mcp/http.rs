//! The server over HTTP: the clients that it admits, and a session.

use std::process::Stdio;

use rmcp::model::ProtocolVersion;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use super::McpUser;
use crate::harness::caller::http_client;

#[tokio::test]
async fn only_a_client_with_the_token_and_no_web_page_is_served() {
    let user = McpUser::new();
    let mut command = user.command(&["--json", "mcp", "--http", "0"]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut server = command.spawn().expect("started");
    let mut lines = BufReader::new(server.stdout.take().expect("a pipe")).lines();
    let ready = lines.next_line().await.expect("read").expect("a line");
    let ready: Value = serde_json::from_str(&ready).expect("JSON");
    let url = ready["url"].as_str().expect("an address");
    assert_starts_with!(url, "http://127.0.0.1:");
    let token_file = ready["tokenFile"].as_str().expect("a file");
    let token = std::fs::read_to_string(token_file).expect("the token");

    let version = ProtocolVersion::V_2025_06_18;
    let post = |method: &str, params: Value| {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        http_client()
            .post(url)
            .header("Content-Type", "application/json")
            .header("Accept", "application/json, text/event-stream")
            .header("MCP-Protocol-Version", version.as_str())
            .body(body.to_string())
    };
    let who = json!({"name": "test", "version": "1"});
    let hello = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": who});
    let initialize = || post("initialize", hello.clone());
    let status = async |request: reqwest::RequestBuilder| {
        request.send().await.expect("an answer").status().as_u16()
    };
    assert_eq!(status(initialize()).await, 401, "a request without a token");
    assert_eq!(status(initialize().bearer_auth("wrong")).await, 401);
    let from_page = initialize()
        .bearer_auth(&token)
        .header("Origin", "https://example.com");
    assert_eq!(status(from_page).await, 403, "a request from a web page");
    let rebound = initialize()
        .bearer_auth(&token)
        .header("Host", "example.com");
    assert_eq!(
        status(rebound).await,
        403,
        "a request to another name of this machine"
    );

    let opened = initialize()
        .bearer_auth(&token)
        .send()
        .await
        .expect("an answer");
    assert_eq!(opened.status().as_u16(), 200);
    let session = opened.headers()["mcp-session-id"].clone();
    let listed = post("tools/list", json!({}))
        .bearer_auth(&token)
        .header("Mcp-Session-Id", session);
    let mut listed = listed.send().await.expect("an answer");
    let mut text = String::new();
    while !text.contains("\"ReadOutput\"") {
        let chunk = listed
            .chunk()
            .await
            .expect("read")
            .expect("the list of tools");
        text.push_str(&String::from_utf8_lossy(&chunk));
    }
}
