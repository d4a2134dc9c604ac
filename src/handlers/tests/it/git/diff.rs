//! GitDiff.

use std::fs;

use punie_text::output::OutputWindow;
use punie_tool::request::{ErrorCode, ReplyBody};
use serde_json::json;

use super::bench::Bench;

#[tokio::test]
async fn each_pair_of_states_can_be_compared() {
    let bench = Bench::new();
    bench.write("a.txt", "one\nstaged\n");
    bench.git(&["add", "a.txt"]);
    bench.write("a.txt", "one\nnow\n");
    for (args, lines) in cases! {
        (json!({"path": "repo"}), "-staged\n+now\n"),
        (json!({"path": "repo", "staged": true}), "-two\n+staged\n"),
        (json!({"path": "repo", "from": "HEAD"}), "-two\n+now\n"),
        (json!({"path": "repo/a.txt", "from": "main"}), "-two\n+now\n"),
    } {
        let answer = bench.answer("GitDiff", args.clone()).await;
        assert_contains!(answer, lines, "1 file changed, +1 -1"; "{args}");
    }
    let second = bench.commit_all("second");
    let args = json!({"path": "repo", "from": "HEAD~1", "to": second});
    let answer = bench.answer("GitDiff", args).await;
    assert_starts_with!(answer, "HEAD~1 (");
    assert_contains!(answer, "-two\n+now\n");
}

#[tokio::test]
async fn merge_base_shows_one_side_only() {
    let bench = Bench::new();
    bench.git(&["checkout", "-q", "-b", "feature"]);
    bench.write("feature.txt", "f\n");
    bench.commit_all("feature");
    bench.git(&["checkout", "-q", "main"]);
    bench.write("main.txt", "m\n");
    bench.commit_all("main goes on");
    let args = json!({"path": "repo", "from": "main", "to": "feature", "stat_only": true});
    let answer = bench.answer("GitDiff", args).await;
    assert_contains!(answer, "A  +1 -0  feature.txt\nD  +0 -1  main.txt");
    let args = json!({"path": "repo", "from": "main", "to": "feature", "merge_base": true});
    let answer = bench.answer("GitDiff", args).await;
    assert_contains!(answer, "feature.txt");
    assert_lacks!(answer, "main.txt");
}

#[tokio::test]
async fn no_difference_says_what_else_there_is() {
    let bench = Bench::new();
    bench.write("new.txt", "x");
    bench.write("staged.txt", "x");
    bench.git(&["add", "staged.txt"]);
    let answer = bench.answer("GitDiff", json!({"path": "repo"})).await;
    assert_eq!(
        answer,
        "Not staged (index against the working tree): no differences. 1 file staged: see it with staged=true. 1 file or \
         folders untracked, which a diff does not show: GitStatus lists them."
    );
}

#[tokio::test]
async fn a_long_diff_names_the_call_for_each_file_without_room() {
    let bench = Bench::new();
    for (name, lines) in [("big one.txt", 5_000), ("small.txt", 3)] {
        bench.write(name, &"before\n".repeat(lines));
    }
    bench.commit_all("second");
    for (name, lines) in [("big one.txt", 5_000), ("small.txt", 3)] {
        bench.write(name, &"after\n".repeat(lines));
    }
    let reply = bench
        .ask("GitDiff", json!({"path": "repo", "max_chars": 4_000}))
        .await
        .expect("a diff");
    let ReplyBody::Fitted(text) = &reply.body else {
        panic!("{:?}", reply.body)
    };
    assert!(text.chars().count() <= 4_000, "{}", text.chars().count());
    assert_contains!(
        text,
        "2 files changed, +5,003 -5,003",
        "1 file of 2 had no room:\n  GitDiff path=\"repo/big one.txt\" (+5,000 -5,000)",
        "+++ b/small.txt\n@@ -1,3 +1,3 @@\n-before"
    );
    let handle = reply.meta.handle.expect("the whole is kept");
    assert_contains!(
        text,
        &format!("ReadOutput handle=\"{handle}\" has all of it")
    );
    let mut kept = bench.outputs.find(&handle).expect("it is kept");
    let page = kept
        .read_window(
            1,
            OutputWindow {
                limit: 1,
                column: None,
                max_chars: 1_000,
            },
        )
        .expect("a page");
    assert_eq!(page.lines[0].text, "diff --git a/big one.txt b/big one.txt");
    assert!(page.totals.lines > 10_000, "{:?}", page.totals);
    // The call that was named shows the file, its two ends.
    let args = json!({"path": "repo/big one.txt", "max_chars": 4_000});
    let answer = bench.answer("GitDiff", args).await;
    assert_contains!(answer, "too long for one answer");
    assert_ends_with!(answer.trim_end(), "+after");
    assert_contains!(answer, "omitted; ReadOutput handle=");
    assert!(
        answer.chars().count() <= 4_000,
        "{}",
        answer.chars().count()
    );
}

#[tokio::test]
async fn a_huge_diff_is_kept_and_not_held() {
    let bench = Bench::new();
    bench.write(
        "a.txt",
        &"a line of a file that is longer than what is held in memory\n".repeat(400_000),
    );
    let reply = bench
        .ask("GitDiff", json!({"path": "repo"}))
        .await
        .expect("a diff");
    let ReplyBody::Fitted(text) = &reply.body else {
        panic!("{:?}", reply.body)
    };
    assert!(
        text.len() < 40_000 && text.contains("+400,000 -2"),
        "{}",
        text.len()
    );
    let mut kept = bench
        .outputs
        .find(&reply.meta.handle.expect("a handle"))
        .expect("it is kept");
    assert_eq!(kept.read_totals().expect("totals").lines, 400_007);
}

#[tokio::test]
async fn binary_files_renames_modes_and_odd_names_are_said() {
    let bench = Bench::new();
    fs::write(bench.repo().join("picture"), b"\x89PNG\0\0").expect("a file");
    bench.write(
        "old name.txt",
        "words that stay the same\nfor three lines\nat least\n",
    );
    bench.commit_all("second");
    fs::write(bench.repo().join("picture"), b"\x89PNG\0\x01").expect("a file");
    bench.git(&["mv", "old name.txt", "new\u{202e}\tname.txt"]);
    bench.git(&["add", "-A"]);
    let answer = bench
        .answer("GitDiff", json!({"path": "repo", "staged": true}))
        .await;
    let name = "\"new\\342\\200\\256\\tname.txt\"";
    assert_contains!(
        answer,
        &format!("R   +0 -0  old name.txt -> {name}\nM  binary  picture")
    );
    assert_contains!(answer, "Binary files a/picture and b/picture differ");
    assert_lacks!(answer, "\u{202e}");
}

#[tokio::test]
async fn context_and_blanks_are_as_asked() {
    let bench = Bench::new();
    let lines = (1..40)
        .map(|n| format!("line {n}\n"))
        .collect::<Vec<_>>()
        .concat();
    bench.write("b.txt", &lines);
    bench.commit_all("second");
    bench.write("b.txt", &lines.replace("line 20\n", "line  20\n"));
    let answer = bench
        .answer("GitDiff", json!({"path": "repo", "context_lines": 0}))
        .await;
    assert_contains!(answer, "@@ -20 +20 @@");
    assert_lacks!(answer, "\n line 19\n");
    let args = json!({"path": "repo", "ignore_whitespace": true});
    let answer = bench.answer("GitDiff", args).await;
    assert_lacks!(answer, "+line");
}

#[tokio::test]
async fn refusals_and_the_cancel() {
    let bench = Bench::new();
    for (args, code) in cases! {
        (json!({"path": "repo", "to": "HEAD"}), ErrorCode::InvalidArgs),
        (
            json!({"path": "repo", "from": "HEAD", "to": "HEAD", "staged": true}),
            ErrorCode::InvalidArgs,
        ),
        (json!({"path": "repo", "merge_base": true}), ErrorCode::InvalidArgs),
        (json!({"path": "repo", "from": "--output=f"}), ErrorCode::InvalidArgs),
        (json!({"path": "repo", "from": "nothing-like-it"}), ErrorCode::NotFound),
        (json!({"path": "repo/never.txt"}), ErrorCode::NotFound),
    } {
        bench.refused_as("GitDiff", args, code).await;
    }
    bench.cancelled("GitDiff", json!({"path": "repo"})).await;
}
