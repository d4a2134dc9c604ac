//! git_log.

use punie_tool::request::ErrorCode;
use serde_json::json;

use super::bench::Bench;

#[tokio::test]
async fn the_last_ten_commits_are_listed() {
    let bench = Bench::new();
    for n in 2..15 {
        bench.commit_all(&format!("number {n}"));
    }
    let answer = bench.answer("git_log", json!({"path": "repo"})).await;
    assert_eq!(answer.lines().count(), 11, "{answer}");
    assert_ends_with!(
        answer,
        "[10 commits shown; older ones follow. GitLog goes on with skip=10.]"
    );
    let answer = bench
        .answer("git_log", json!({"path": "repo/a.txt", "count": "3"}))
        .await;
    assert_contains!(answer, "Ada: first");
    assert_ends_with!(answer, "[1 commit; there are no more.]");
}

#[tokio::test]
async fn refusals_and_the_cancel() {
    let bench = Bench::new();
    bench.write("new.txt", "x");
    let args = json!({"path": "repo/new.txt"});
    bench.refused_as("git_log", args, ErrorCode::NotFound).await;
    let args = json!({"path": "repo", "count": "many"});
    bench
        .refused_as("git_log", args, ErrorCode::InvalidArgs)
        .await;
    bench.cancelled("git_log", json!({"path": "repo"})).await;
    bench.git(&["checkout", "-q", "--orphan", "fresh"]);
    let answer = bench.answer("git_log", json!({"path": "repo"})).await;
    assert_starts_with!(answer, "There are no commits yet");
}
