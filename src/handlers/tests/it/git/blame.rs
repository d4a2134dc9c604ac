//! GitBlame.

use std::fs;

use punie_tool::request::ErrorCode;
use serde_json::json;

use super::bench::Bench;

#[tokio::test]
async fn lines_stand_under_the_commit_that_changed_them_last() {
    let bench = Bench::new();
    let first = bench.told(&["rev-parse", "HEAD"]);
    bench.write("a.txt", "one\ntwo\nthree\n");
    let second = bench.commit_all("Adds a third");
    bench.write("a.txt", "one\ntwo\nthree\nfour\n");
    let answer = bench
        .answer("GitBlame", json!({"path": "repo/a.txt"}))
        .await;
    let lines: Vec<&str> = answer.lines().collect();
    assert_eq!(lines[0], "a.txt as it is now");
    assert_starts_with!(lines[1], &first[..10]; "{answer}");
    assert_ends_with!(lines[1], " Ada: first"; "{answer}");
    assert_eq!(lines[2..4], ["     1\tone", "     2\ttwo"]);
    assert_starts_with!(lines[4], &second[..10]; "{answer}");
    assert_ends_with!(lines[4], " Ada: Adds a third"; "{answer}");
    assert_eq!(
        lines[5..],
        [
            "     3\tthree",
            "not committed yet",
            "     4\tfour",
            "Showing 1-4. There are no more lines."
        ]
    );
    let args = json!({"path": "repo/a.txt", "ref": "HEAD~1"});
    let answer = bench.answer("GitBlame", args).await;
    assert_starts_with!(answer, &format!("a.txt at {}", &first[..10]));
    assert_lacks!(answer, "three");
}

#[tokio::test]
async fn a_part_is_shown_and_the_next_one_named() {
    let bench = Bench::new();
    let lines = (1..=500)
        .map(|n| format!("line {n}\n"))
        .collect::<Vec<_>>()
        .concat();
    bench.write("b.txt", &lines);
    bench.commit_all("second");
    let answer = bench
        .answer("GitBlame", json!({"path": "repo/b.txt"}))
        .await;
    assert_ends_with!(answer, "Showing 1-200. Continue with start_line=201.");
    let args = json!({"path": "repo/b.txt", "start_line": 7, "end_line": 8});
    let answer = bench.answer("GitBlame", args).await;
    assert_contains!(
        answer,
        "     7\tline 7\n     8\tline 8\nShowing 7-8. The file has more lines."
    );
    bench.write("c.txt", &lines.repeat(5));
    bench.commit_all("third");
    let args = json!({"path": "repo/c.txt", "end_line": 2_400});
    let answer = bench.answer("GitBlame", args).await;
    assert_ends_with!(answer, "Showing 1-2000. Continue with start_line=2001.");
    let args = json!({"path": "repo/b.txt", "start_line": 499});
    let answer = bench.answer("GitBlame", args).await;
    assert_ends_with!(answer, "Showing 499-500. There are no more lines.");
}

#[tokio::test]
async fn refusals_and_the_cancel() {
    let bench = Bench::new();
    bench.write("new.txt", "x");
    fs::create_dir(bench.repo().join("sub")).expect("a folder");
    for (args, code) in cases! {
        (json!({"path": "repo/new.txt"}), ErrorCode::NotFound),
        (json!({"path": "repo/never.txt"}), ErrorCode::NotFound),
        (json!({"path": "repo/sub"}), ErrorCode::IsDirectory),
        (json!({"path": "repo/a.txt", "start_line": 9}), ErrorCode::InvalidArgs),
        (json!({"path": "repo/a.txt", "start_line": 2, "end_line": 1}), ErrorCode::InvalidArgs),
        (json!({"path": "repo/a.txt", "ref": "--contents=/etc/passwd"}), ErrorCode::InvalidArgs),
    } {
        bench.refused_as("GitBlame", args, code).await;
    }
    bench
        .cancelled("GitBlame", json!({"path": "repo/a.txt"}))
        .await;
}
