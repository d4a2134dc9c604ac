//! GitLog.

use punie_tool::request::ErrorCode;
use serde_json::json;

use super::bench::Bench;

#[tokio::test]
async fn commits_are_listed_newest_first_and_read_on_with_skip() {
    let bench = Bench::new();
    for n in 2..6 {
        bench.commit_all(&format!("number {n}"));
    }
    bench.git(&["tag", "v1"]);
    let answer = bench
        .answer("GitLog", json!({"path": "repo", "count": 2}))
        .await;
    let lines: Vec<&str> = answer.lines().collect();
    let id = bench.told(&["rev-parse", "HEAD"]);
    assert_starts_with!(lines[0], &id[..10]; "{answer}");
    assert_ends_with!(lines[0], "Ada: number 5 (HEAD -> main, tag: v1)"; "{answer}");
    assert_eq!(
        lines[2],
        "[2 commits shown; older ones follow. Continue with skip=2.]"
    );
    let answer = bench
        .answer("GitLog", json!({"path": "repo", "count": 9, "skip": 3}))
        .await;
    assert_contains!(answer, "number 2", "first");
    assert_lacks!(answer, "number 3");
    assert_ends_with!(answer, "[2 commits after the first 3; there are no more.]");
}

#[tokio::test]
async fn a_path_a_range_an_author_a_text_and_a_time_narrow_it_down() {
    let bench = Bench::new();
    bench.write(
        "b.txt",
        "words that are kept\nin three lines\nfor the rename\n",
    );
    bench.commit_all("Adds B (with a dot.)");
    bench.git(&["checkout", "-q", "-b", "feature"]);
    bench.git(&["mv", "b.txt", "c.txt"]);
    bench.git(&[
        "commit",
        "-q",
        "-m",
        "renames",
        "--author",
        "Grace <g@example.org>",
    ]);
    for (args, yes, no) in cases! {
        (json!({"path": "repo/c.txt"}), "Adds B", "first"),
        (json!({"path": "repo/b.txt"}), "renames", "first"),
        (json!({"path": "repo", "ref": "main..feature"}), "renames", "Adds B"),
        (json!({"path": "repo", "ref": "main"}), "Adds B", "renames"),
        (json!({"path": "repo", "author": "GRACE"}), "renames", "Adds B"),
        (json!({"path": "repo", "grep": "dot.)"}), "Adds B", "renames"),
        (json!({"path": "repo", "since": "1 week ago", "count": 1}), "renames", "Adds B"),
    } {
        let answer = bench.answer("GitLog", args.clone()).await;
        assert_contains!(answer, yes; "{args}");
        assert_lacks!(answer, no; "{args}");
    }
    let args = json!({"path": "repo", "until": "2001-02-03 00:00"});
    let answer = bench.answer("GitLog", args).await;
    assert_eq!(answer, "No commits until Sat, 03 Feb 2001 00:00:00 GMT.");
    let answer = bench
        .answer("GitLog", json!({"path": "repo", "grep": "d.t"}))
        .await;
    assert_starts_with!(answer, "No commits whose message holds"; "a text is no pattern");
}

#[tokio::test]
async fn a_shallow_clone_says_that_there_may_be_more() {
    let bench = Bench::new();
    bench.commit_all("second");
    let origin = format!("file://{}", bench.repo().display());
    bench.git(&["clone", "-q", "--depth", "1", &origin, "../shallow"]);
    for (tool, path) in [("GitLog", "shallow"), ("git_log", "shallow")] {
        let answer = bench.answer(tool, json!({"path": path})).await;
        assert_contains!(answer, "[1 commit; this clone is shallow");
        assert_lacks!(answer, "there are no more");
    }
    let answer = bench
        .answer("GitLog", json!({"path": "shallow", "grep": "first"}))
        .await;
    assert_starts_with!(answer, "No commits");
    assert_contains!(answer, "is shallow");
}

#[tokio::test]
async fn a_repository_without_commits_says_so() {
    let bench = Bench::new();
    bench.git(&["checkout", "-q", "--orphan", "fresh"]);
    let answer = bench.answer("GitLog", json!({"path": "repo"})).await;
    assert_starts_with!(answer, "There are no commits yet");
}

#[tokio::test]
async fn authors_and_subjects_stay_on_their_lines() {
    let bench = Bench::new();
    bench.git(&[
        "commit",
        "-q",
        "--allow-empty",
        "-m",
        "red \u{1b}[31m and \u{202e}turned",
        "--author",
        "E\u{1b}[0m <e@x>",
    ]);
    bench.commit_all(&"long ".repeat(2_000));
    let answer = bench.answer("GitLog", json!({"path": "repo"})).await;
    assert_contains!(answer, "E\\u{1b}[0m: red \\u{1b}[31m and \\u{202e}turned");
    assert!(
        answer.contains("characters)") && answer.len() < 1_000,
        "{answer}"
    );
}

#[tokio::test]
async fn refusals_and_the_cancel() {
    let bench = Bench::new();
    for (args, code) in cases! {
        (json!({"path": "repo", "ref": "-Ox"}), ErrorCode::InvalidArgs),
        (json!({"path": "repo", "ref": "main..--all"}), ErrorCode::InvalidArgs),
        (json!({"path": "repo", "author": "--output=f"}), ErrorCode::InvalidArgs),
        (json!({"path": "repo", "since": "gibberish"}), ErrorCode::InvalidArgs),
        (json!({"path": "repo", "ref": "nowhere"}), ErrorCode::NotFound),
        (json!({"path": "repo/never.txt"}), ErrorCode::NotFound),
    } {
        bench.refused_as("GitLog", args, code).await;
    }
    bench.cancelled("GitLog", json!({"path": "repo"})).await;
}
