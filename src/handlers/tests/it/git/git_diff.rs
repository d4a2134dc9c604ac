//! git_diff.

use std::fs;

use punie_tool::request::{ErrorCode, ReplyBody};
use serde_json::json;

use super::bench::Bench;

#[tokio::test]
async fn diff_shows_the_changed_lines() {
    let bench = Bench::new();
    let text = bench.answer("git_diff", json!({"path": "repo"})).await;
    assert_starts_with!(text, "No changes");
    bench.write("a.txt", "one\nzwei\n");
    let answer = bench.answer("git_diff", json!({"path": "repo"})).await;
    assert_starts_with!(answer, "diff --git a/a.txt b/a.txt");
    assert_contains!(answer, "-two\n+zwei");
    assert_eq!(
        bench
            .answer("git_diff", json!({"path": "repo", "staged": true}))
            .await,
        "No staged changes."
    );
    bench.git(&["add", "a.txt"]);
    let answer = bench
        .answer("git_diff", json!({"path": "repo/a.txt", "staged": true}))
        .await;
    assert_contains!(answer, "+zwei");
    bench.git(&["config", "color.ui", "always"]);
    let answer = bench
        .answer("git_diff", json!({"path": "repo", "staged": true}))
        .await;
    assert_lacks!(answer, "\u{1b}");
}

#[tokio::test]
async fn a_long_diff_begins_with_its_files() {
    let bench = Bench::new();
    bench.write("b.txt", "b\n");
    bench.commit_all("second");
    bench.write("a.txt", &"a changed line\n".repeat(5_000));
    bench.write("b.txt", "c\n");
    let reply = bench
        .ask("git_diff", json!({"path": "repo"}))
        .await
        .expect("a diff");
    let ReplyBody::Fitted(text) = &reply.body else {
        panic!("{:?}", reply.body)
    };
    assert_starts_with!(
        text,
        "Not staged: 2 files changed, +5,001 -3\nM  +5,000 -2  a.txt\n"
    );
    assert_contains!(text, "\n  git_diff path=\"repo/a.txt\" (+5,000 -2)\n");
    assert!(text.chars().count() <= 30_000 && reply.meta.handle.is_some());
}

#[tokio::test]
async fn what_was_deleted_can_be_asked_for_by_its_path() {
    let bench = Bench::new();
    for path in ["sub/deep/b.txt", "sub/deep/c.txt", "d.txt"] {
        bench.write(path, "gone\n");
    }
    bench.commit_all("second");
    fs::remove_dir_all(bench.repo().join("sub")).expect("removed");
    fs::remove_file(bench.repo().join("a.txt")).expect("removed");
    bench.git(&["rm", "-q", "d.txt"]);
    for (path, staged, files) in [
        ("repo/a.txt", false, 1),
        ("repo/sub/deep/b.txt", false, 1),
        ("repo/sub", false, 2),
        ("repo/d.txt", true, 1),
    ] {
        let answer = bench
            .answer("git_diff", json!({"path": path, "staged": staged}))
            .await;
        assert_eq!(
            answer.matches("deleted file mode").count(),
            files,
            "{path}: {answer}"
        );
    }
    let answer = bench
        .answer("git_diff", json!({"path": "repo/d.txt"}))
        .await;
    assert_starts_with!(answer, "No changes");
    let args = json!({"path": "repo/never/was.txt"});
    bench
        .refused_as("git_diff", args, ErrorCode::NotFound)
        .await;
    bench.cancelled("git_diff", json!({"path": "repo"})).await;
}
