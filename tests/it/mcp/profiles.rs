//! The parts of the catalog that a client or a model gets.

use serde_json::Value;

use super::{McpUser, TestClient, result_text};

#[tokio::test]
async fn the_minimal_profile_costs_less_than_12000_bytes() {
    let user = McpUser::new();
    for format in ["anthropic", "openai", "openai-chat", "gemini", "mcp"] {
        let shown = user
            .run_cli(&["tools", "--profile", "minimal", "--format", format])
            .await;
        let tools: Vec<Value> = serde_json::from_str(&shown).expect("an array");
        assert_eq!(tools.len(), 7, "{format}");
        assert!(shown.len() < 12_000, "{format}: {} bytes", shown.len());
    }
    let minimal = user
        .connects(TestClient::default(), &["--profile", "minimal"])
        .await;
    let listed = minimal.service.list_all_tools().await.expect("tools");
    assert_eq!(listed.len(), 7);
    let size = serde_json::to_string(&listed).expect("JSON").len();
    assert!(size < 12_000, "{size} bytes");
    minimal.close().await;
}

#[tokio::test]
async fn a_client_has_no_tool_outside_of_the_devices_profile() {
    let user = McpUser::new();
    user.configure("[tools]\nprofile = \"minimal\"\n");
    let client = user
        .connects(TestClient::default(), &["--profile", "all"])
        .await;
    let listed = client.service.list_all_tools().await.expect("tools");
    assert_eq!(listed.len(), 7);
    let refused = client.call("GitStatus", serde_json::json!({})).await;
    assert_eq!(refused.is_error, Some(true));
    let text = result_text(&refused);
    assert_contains!(text, "[tools] in its config.toml");
    client.close().await;
}

#[tokio::test]
async fn a_profile_that_does_not_exist_is_named() {
    let user = McpUser::new();
    let refused = user
        .command(&["tools", "--profile", "tiny"])
        .output()
        .await
        .expect("started");
    assert_eq!(refused.status.code(), Some(2));
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_contains!(text, "none of minimal, coding, all");
}
