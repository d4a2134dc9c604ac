//! GitStatus.

use std::fs;
use std::os::unix::ffi::OsStrExt;

use punie_tool::request::ErrorCode;
use serde_json::json;

use super::bench::Bench;

#[tokio::test]
async fn a_clean_tree_says_so_with_its_branch() {
    let bench = Bench::new();
    let id = bench.told(&["rev-parse", "HEAD"]);
    let answer = bench.answer("GitStatus", json!({"path": "repo"})).await;
    let expect = format!(
        "On branch main at {}, without an upstream.\nNothing to commit, working tree clean.",
        &id[..10]
    );
    assert_eq!(answer, expect);
}

#[tokio::test]
async fn counts_come_first_and_each_change_has_its_place() {
    let bench = Bench::new();
    bench.write("gone.txt", "some words that make it the same file\n");
    bench.commit_all("second");
    bench.git(&["mv", "gone.txt", "here now.txt"]);
    bench.write("staged.txt", "x");
    bench.git(&["add", "staged.txt"]);
    bench.write("staged.txt", "y");
    bench.write("a.txt", "one\nzwei\n");
    bench.write("new/ä.txt", "x");
    let answer = bench.answer("GitStatus", json!({"path": "repo"})).await;
    let (_, rest) = answer.split_once('\n').expect("lines");
    assert_eq!(
        rest,
        "2 staged, 2 changed but not staged, 1 untracked.\n\n\
         Staged for the next commit:\n  renamed: gone.txt -> here now.txt\n  added: staged.txt\n\n\
         Changed, not staged:\n  modified: a.txt\n  modified: staged.txt\n\n\
         Untracked:\n  new/"
    );
    let args = json!({"path": "repo/new", "all_untracked": true});
    let answer = bench.answer("GitStatus", args).await;
    assert_contains!(answer, "1 untracked in new.");
    assert_ends_with!(answer, "  new/ä.txt");
}

#[tokio::test]
async fn a_merge_with_a_conflict_says_how_to_go_on() {
    let bench = Bench::new();
    bench.git(&["checkout", "-q", "-b", "other"]);
    bench.write("a.txt", "one\nother\n");
    bench.commit_all("other");
    bench.git(&["checkout", "-q", "main"]);
    bench.write("a.txt", "one\nours\n");
    bench.commit_all("ours");
    assert!(!bench.git_in(&bench.repo(), &["merge", "other"]));
    let answer = bench.answer("GitStatus", json!({"path": "repo"})).await;
    assert_contains!(
        answer,
        "A merge is in progress",
        "GitCommit",
        "1 in conflict.",
        "In conflict:\n  both modified: a.txt"
    );
}

#[tokio::test]
async fn a_rebase_a_cherry_pick_and_a_revert_are_named() {
    for (command, word) in cases! {
        (["rebase", "other"].as_slice(), "A rebase is in progress"),
        (&["cherry-pick", "other"], "A cherry-pick is in progress"),
        (&["revert", "--no-edit", "main~1"], "A revert is in progress"),
    } {
        let bench = Bench::new();
        bench.git(&["checkout", "-q", "-b", "other"]);
        bench.write("a.txt", "one\nother\n");
        bench.commit_all("other");
        bench.git(&["checkout", "-q", "main"]);
        for line in ["ours", "ours again"] {
            bench.write("a.txt", &format!("one\n{line}\n"));
            bench.commit_all(line);
        }
        assert!(!bench.git_in(&bench.repo(), command), "{command:?}");
        let answer = bench.answer("GitStatus", json!({"path": "repo"})).await;
        assert_contains!(answer, word);
        assert_eq!(answer.matches("is in progress").count(), 1, "{answer}");
        assert_eq!(
            answer.contains("(Step 1 of 2.)"),
            command[0] == "rebase",
            "{answer}"
        );
    }
}

#[tokio::test]
async fn ahead_and_behind_no_commits_and_no_branch_are_said() {
    let bench = Bench::new();
    let first = bench.told(&["rev-parse", "HEAD"]);
    bench.git(&["branch", "up"]);
    bench.git(&["branch", "--set-upstream-to=up"]);
    bench.commit_all("second");
    let answer = bench.answer("GitStatus", json!({"path": "repo"})).await;
    assert_contains!(answer, "1 commit ahead of up as last fetched.");
    bench.git(&["update-ref", "refs/heads/up", &bench.commit_all("third")]);
    bench.git(&["reset", "-q", "--hard", &first]);
    let answer = bench.answer("GitStatus", json!({"path": "repo"})).await;
    assert_contains!(answer, "2 commits behind up");
    bench.git(&["branch", "-D", "up"]);
    let answer = bench.answer("GitStatus", json!({"path": "repo"})).await;
    assert_contains!(answer, "its upstream up is gone");
    bench.git(&["checkout", "-q", "--detach"]);
    let answer = bench.answer("GitStatus", json!({"path": "repo"})).await;
    assert_starts_with!(answer, "No branch is checked out (detached HEAD at ");
    bench.git(&["checkout", "-q", "--orphan", "fresh"]);
    let answer = bench.answer("GitStatus", json!({"path": "repo"})).await;
    assert_starts_with!(
        answer,
        "On branch fresh, which has no commits yet.\n1 staged."
    );
}

#[tokio::test]
async fn a_long_list_is_read_on_with_offset() {
    let bench = Bench::new();
    for n in 0..25 {
        bench.write(&format!("new{n:02}.txt"), "x");
    }
    let answer = bench
        .answer("GitStatus", json!({"path": "repo", "limit": 10}))
        .await;
    assert_contains!(answer, "25 untracked.");
    assert_ends_with!(answer, "Showing 1-10 of 25. Continue with offset=10.");
    let args = json!({"path": "repo", "limit": 10, "offset": 20});
    let answer = bench.answer("GitStatus", args).await;
    assert_contains!(answer, "new20.txt");
    assert_ends_with!(answer, "Showing 21-25 of 25.");
    let answer = bench
        .answer("GitStatus", json!({"path": "repo", "offset": 99}))
        .await;
    assert_ends_with!(answer, "There are 25 changes; offset=99 is past them.");
}

#[tokio::test]
async fn names_stay_on_their_lines() {
    let bench = Bench::new();
    for name in ["evil\n\u{1b}[31m.txt", "gpj\u{202e}txt.exe"] {
        bench.write(name, "x");
    }
    fs::write(
        bench.repo().join(std::ffi::OsStr::from_bytes(b"caf\xe9")),
        "x",
    )
    .expect("a file");
    let answer = bench.answer("GitStatus", json!({"path": "repo"})).await;
    for line in [
        "  \"caf\\351\"",
        "  \"evil\\n\\033[31m.txt\"",
        "  \"gpj\\342\\200\\256txt.exe\"",
    ] {
        assert!(
            answer.lines().any(|shown| shown == line),
            "{line}: {answer}"
        );
    }
}

#[tokio::test]
async fn refusals_and_the_cancel() {
    let bench = Bench::new();
    let args = json!({"path": "repo/never.txt"});
    let text = bench
        .refused_as("GitStatus", args, ErrorCode::NotFound)
        .await;
    assert_contains!(text, "never.txt");
    let args = json!({"path": "repo", "flags": "-v"});
    bench
        .refused_as("GitStatus", args, ErrorCode::InvalidArgs)
        .await;
    bench.cancelled("GitStatus", json!({"path": "repo"})).await;
}

#[tokio::test]
async fn a_path_at_which_nothing_is_gets_that_answer() {
    let bench = Bench::new();
    for tool in ["GitStatus", "GitLog", "GitShow", "get_git_status"] {
        let told = bench
            .refused_as(tool, json!({"path": "nope"}), ErrorCode::NotFound)
            .await;
        assert_starts_with!(told, "There is nothing at "; "{tool}");
        assert_ends_with!(told, "/nope."; "{tool}");
    }
    let told = bench
        .refused_as("GitStatus", json!({"path": "."}), ErrorCode::NotFound)
        .await;
    assert_contains!(told, "Not a git repository");
}
