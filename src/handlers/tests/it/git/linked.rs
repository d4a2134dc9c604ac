//! Repositories of which a part is a link that leads outside: none is read through it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use punie_tool::request::ErrorCode;
use serde_json::json;

use super::bench::Bench;

/// Has a part of a repository lead to itself somewhere else.
fn lead(part: &Path, away: &Path) {
    if part.exists() {
        fs::rename(part, away).expect("moved");
    } else {
        fs::write(away, "").expect("written");
    }
    symlink(away, part).expect("a link");
}

#[tokio::test]
async fn no_part_of_a_repository_leads_outside_by_a_link() {
    for part in [
        "objects",
        "objects/00",
        "objects/pack",
        "objects/pack/a.pack",
        "objects/info/packs",
        "objects/info/commit-graphs/graph-chain",
        "FETCH_HEAD",
        "index",
        "packed-refs",
        "refs",
        "logs",
        "shallow",
        "config",
        "config.worktree",
        "worktrees/linked/ORIG_HEAD",
        "worktrees/linked/index",
        "worktrees/linked/logs",
    ] {
        let bench = Bench::new();
        let git = bench.repo().join(".git");
        bench.git(&["worktree", "add", "-q", "../linked", "-b", "linked"]);
        fs::create_dir_all(git.join("objects/info/commit-graphs")).expect("made");
        let asked = if part.starts_with("worktrees") {
            "linked"
        } else {
            "repo"
        };
        bench.answer("GitStatus", json!({"path": asked})).await;
        lead(&git.join(part), &bench.outside.path().join("part"));
        for tool in ["GitStatus", "GitLog", "GitShow"] {
            let text = bench
                .refused_as(tool, json!({"path": asked}), ErrorCode::OutsideWorkspace)
                .await;
            assert_contains!(text, part);
        }
        // One that stays inside is the workspace's affair.
        fs::remove_file(git.join(part)).expect("a link");
        let inside = bench
            .inside
            .path()
            .canonicalize()
            .expect("real")
            .join("part");
        fs::rename(bench.outside.path().join("part"), &inside).expect("moved");
        if !["objects/pack/a.pack", "shallow"].contains(&part) {
            symlink(&inside, git.join(part)).expect("a link");
        }
        bench.answer("GitStatus", json!({"path": asked})).await;
    }
}

#[tokio::test]
async fn a_folder_of_objects_with_more_than_can_be_looked_through_is_refused() {
    let bench = Bench::new();
    for number in 0..5_000 {
        fs::write(bench.repo().join(format!(".git/objects/x{number}")), "").expect("written");
    }
    let args = json!({"path": "repo"});
    let text = bench
        .refused_as("GitStatus", args, ErrorCode::OutsideWorkspace)
        .await;
    assert_contains!(text, "objects holds more than");
}
