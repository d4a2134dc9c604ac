//! get_git_status.

use punie_tool::request::ErrorCode;
use serde_json::json;

use super::bench::{Bench, bench_tools, system_path};
use crate::harness::tools::{call_tool, reply_text};

#[tokio::test]
async fn it_is_git_status_of_the_first_workspace() {
    let bench = Bench::new();
    bench.write("a.txt", "one\nzwei\n");
    let (tools, _) = bench_tools(&bench.repo(), bench.outside.path(), &system_path());
    let reply = call_tool(&tools, "get_git_status", json!({}))
        .await
        .expect("a status");
    assert_eq!(reply_text(&reply), " M a.txt");
    assert_eq!(
        bench
            .answer("get_git_status", json!({"path": "repo"}))
            .await,
        " M a.txt"
    );
    let args = json!({"count": 3});
    bench
        .refused_as("get_git_status", args, ErrorCode::InvalidArgs)
        .await;
    bench
        .cancelled("get_git_status", json!({"path": "repo"}))
        .await;
}
