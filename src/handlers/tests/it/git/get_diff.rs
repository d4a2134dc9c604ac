//! get_diff.

use punie_tool::request::{ErrorCode, ReplyBody};
use serde_json::json;

use super::bench::{Bench, bench_tools, system_path};
use crate::harness::tools::{call_tool, reply_text};

#[tokio::test]
async fn both_diffs_are_there_each_under_its_title() {
    let bench = Bench::new();
    bench.write("a.txt", "one\nstaged\n");
    bench.git(&["add", "a.txt"]);
    bench.write("a.txt", "one\nnow\n");
    let (tools, _) = bench_tools(&bench.repo(), bench.outside.path(), &system_path());
    let reply = call_tool(&tools, "get_diff", json!({}))
        .await
        .expect("a diff");
    let (first, second) = reply_text(&reply)
        .split_once("Staged (git diff --cached): 1 file")
        .expect("two halves");
    assert_starts_with!(
        first,
        "Not committed (git diff HEAD): 1 file changed, +1 -1"
    );
    assert_contains!(first, "-two\n+now");
    assert_contains!(second, "-two\n+staged");
    bench.git(&["reset", "-q", "--hard"]);
    let answer = bench.answer("get_diff", json!({"path": "repo"})).await;
    assert_eq!(
        answer,
        "Not committed (git diff HEAD): nothing.\n\nStaged (git diff --cached): nothing."
    );
}

#[tokio::test]
async fn two_long_halves_have_a_handle_each() {
    let bench = Bench::new();
    bench.write("a.txt", &"staged line\n".repeat(10_000));
    bench.git(&["add", "a.txt"]);
    let reply = bench
        .ask("get_diff", json!({"path": "repo"}))
        .await
        .expect("a diff");
    let ReplyBody::Fitted(text) = &reply.body else {
        panic!("{:?}", reply.body)
    };
    assert!(text.chars().count() <= 30_000, "{}", text.chars().count());
    let handles: std::collections::BTreeSet<&str> = text
        .match_indices("handle=\"")
        .map(|(at, found)| &text[at + found.len()..at + found.len() + 16])
        .collect();
    assert_eq!(handles.len(), 2, "{handles:?}");
    for handle in handles {
        bench.outputs.find(handle).expect("it is kept");
    }
}

#[tokio::test]
async fn before_the_first_commit_there_is_what_is_staged() {
    let bench = Bench::new();
    bench.git(&["checkout", "-q", "--orphan", "fresh"]);
    let answer = bench.answer("get_diff", json!({"path": "repo"})).await;
    assert_contains!(answer, "+one\n+two");
    bench
        .refused_as("get_diff", json!({"staged": true}), ErrorCode::InvalidArgs)
        .await;
    bench.cancelled("get_diff", json!({"path": "repo"})).await;
}
