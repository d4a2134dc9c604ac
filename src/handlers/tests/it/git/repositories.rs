//! Which repository a call works on, and which ones no tool works on.

use std::fs;

use punie_tool::request::ErrorCode;
use serde_json::{Value, json};

use super::bench::Bench;

/// Every tool of the domain with arguments that work on `path`.
fn every_tool(path: &str) -> Vec<(&'static str, Value)> {
    let mut calls: Vec<(&str, Value)> = [
        "GitStatus",
        "GitDiff",
        "GitLog",
        "GitShow",
        "git_status",
        "git_diff",
        "git_log",
        "get_git_status",
        "get_diff",
    ]
    .map(|tool| (tool, json!({"path": path})))
    .to_vec();
    calls.push(("GitBlame", json!({"path": format!("{path}/a.txt")})));
    calls.push(("GitAdd", json!({"paths": [path]})));
    calls.push(("GitCommit", json!({"path": path, "message": "x"})));
    calls.push(("git_add_commit", json!({"paths": [path], "message": "x"})));
    calls
}

#[tokio::test]
async fn every_tool_of_the_domain_is_tried_here() {
    let bench = Bench::new();
    let mut tried: Vec<&str> = every_tool(".").into_iter().map(|(tool, _)| tool).collect();
    tried.sort_unstable();
    let mut all: Vec<&str> = bench
        .tools
        .device_specs()
        .filter(|spec| spec.domain == "git")
        .map(|spec| spec.name.as_ref())
        .collect();
    all.sort_unstable();
    assert_eq!(tried, all);
}

#[tokio::test]
async fn outside_a_repository_the_answer_is_an_error() {
    let bench = Bench::new();
    std::fs::write(bench.inside.path().join("a.txt"), "").expect("a file");
    for (tool, args) in every_tool(".") {
        let text = bench.refused_as(tool, args, ErrorCode::NotFound).await;
        assert_eq!(text, "Error: Not a git repository", "{tool}");
    }
    for (tool, args) in every_tool("nowhere/at/all") {
        bench.refused_as(tool, args, ErrorCode::NotFound).await;
    }
    for (tool, args) in every_tool(&bench.outside.path().display().to_string()) {
        bench
            .refused_as(tool, args, ErrorCode::OutsideWorkspace)
            .await;
    }
}

#[tokio::test]
async fn a_repository_with_broken_settings_is_told_from_none() {
    let bench = Bench::new();
    bench.write(".git/config", "[core\nnonsense");
    for (tool, args) in every_tool("repo") {
        let text = bench.refused_as(tool, args, ErrorCode::NotFound).await;
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "Error: Not a git repository", "{text}");
        assert_contains!(lines[1], "bad config line 1"; "{text}");
        assert_contains!(lines[2], "repo/.git is there, but git refuses it"; "{text}");
    }
}

#[tokio::test]
async fn a_bare_repository_is_called_that() {
    let bench = Bench::new();
    bench.git(&["clone", "-q", "--bare", ".", "../bare.git"]);
    bench.git(&["clone", "-q", "--bare", ".", "../marked/.git"]);
    for (path, git) in [("bare.git", "bare.git"), ("marked", "marked/.git")] {
        let text = bench
            .refused_as("GitLog", json!({"path": path}), ErrorCode::NotFound)
            .await;
        assert_contains!(text, &format!("{git} is a bare repository"), "--git-dir=");
        assert_lacks!(text, "refuses");
    }
}

#[tokio::test]
async fn a_linked_working_tree_inside_works() {
    let bench = Bench::new();
    bench.git(&["worktree", "add", "-q", "../linked", "-b", "linked"]);
    fs::write(bench.inside.path().join("linked/a.txt"), "one\nlinked\n").expect("a file");
    let answer = bench.answer("GitStatus", json!({"path": "linked"})).await;
    assert_starts_with!(answer, "On branch linked");
    assert_contains!(answer, "modified: a.txt");
    let args = json!({"paths": ["linked/a.txt"], "message": "In the linked tree"});
    let text = bench.answer("GitCommit", args).await;
    assert_contains!(text, "on linked: In the linked tree");
}

#[tokio::test]
async fn git_that_is_not_installed_is_said() {
    let bench = Bench::new();
    let (tools, _) = super::bench::bench_tools(bench.inside.path(), bench.outside.path(), "");
    let refused =
        crate::harness::tools::call_tool(&tools, "GitStatus", json!({"path": "repo"})).await;
    assert_error!(refused.expect_err("no git"), NotFound: "not installed");
}
