//! git_status.

use std::fs;

use punie_tool::request::ErrorCode;
use serde_json::json;

use super::bench::Bench;

#[tokio::test]
async fn status_lists_what_changed() {
    let bench = Bench::new();
    assert_eq!(
        bench.answer("git_status", json!({"path": "repo"})).await,
        "nothing to commit, working tree clean"
    );
    bench.write("a.txt", "one\nzwei\n");
    bench.write("sub/neu ä.txt", "x");
    bench.write("staged.txt", "x");
    bench.git(&["add", "staged.txt"]);
    let answer = bench.answer("git_status", json!({"path": "repo"})).await;
    assert_eq!(answer, " M a.txt\nA  staged.txt\n?? sub/");
    let answer = bench
        .answer("git_status", json!({"path": "repo/sub"}))
        .await;
    assert_contains!(answer, " M a.txt");
    assert_eq!(
        bench
            .answer("git_status", json!({"path": "repo/a.txt"}))
            .await,
        " M a.txt"
    );
    let answer = bench
        .answer("git_status", json!({"path": "repo/sub/neu ä.txt"}))
        .await;
    assert_contains!(answer, "neu ä.txt");
}

#[tokio::test]
async fn names_that_are_no_lines_stay_on_one_line() {
    let bench = Bench::new();
    bench.write("evil\n\u{1b}[31m.txt", "x");
    let answer = bench.answer("git_status", json!({"path": "repo"})).await;
    assert_eq!(answer, "?? \"evil\\n\\033[31m.txt\"");
    bench.git(&["mv", "a.txt", "b -> c.txt"]);
    let answer = bench.answer("git_status", json!({"path": "repo"})).await;
    assert_starts_with!(answer, "R  a.txt -> b -> c.txt\n");
}

#[tokio::test]
async fn what_was_deleted_can_be_asked_for_by_its_path() {
    let bench = Bench::new();
    fs::remove_file(bench.repo().join("a.txt")).expect("removed");
    assert_eq!(
        bench
            .answer("git_status", json!({"path": "repo/a.txt"}))
            .await,
        " D a.txt"
    );
    let args = json!({"path": "repo/never/was.txt"});
    let text = bench
        .refused_as("git_status", args, ErrorCode::NotFound)
        .await;
    assert_contains!(text, "never/was.txt");
}

#[tokio::test]
async fn a_cancelled_call_says_so() {
    Bench::new()
        .cancelled("git_status", json!({"path": "repo"}))
        .await;
}
