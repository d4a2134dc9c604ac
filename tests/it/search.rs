//! Glob and Grep over real trees.
#![expect(clippy::disallowed_methods, reason = "tests make their own files and processes")]

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use proptest::prelude::*;
use punie_runner::acp::Workspace;
use punie_runner::handlers::search::{SearchDeps, tools};
use punie_runner::ids::RequestId;
use punie_runner::request::ErrorCode;
use punie_runner::tool::{Registry, ToolCx, ToolError};
use serde_json::{Value, json};
use tempfile::TempDir;

#[cfg(target_os = "linux")]
use crate::harness::flip::Flip;
use crate::harness::tools::{call, call_with, registry, text};

struct Tree {
    dir: TempDir,
    tools: Registry,
}

impl Tree {
    fn new(files: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        for (path, content) in files {
            put(dir.path(), path, content.as_bytes());
        }
        let workspace = Workspace::open(&[dir.path().to_owned()]).expect("a workspace");
        Self { dir, tools: registry(tools(SearchDeps { workspace, user_ignore: None })) }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    async fn ask(&self, tool: &str, args: Value) -> String {
        text(&call(&self.tools, tool, args).await.expect("an answer")).to_owned()
    }

    async fn refused(&self, tool: &str, args: Value) -> ToolError {
        call(&self.tools, tool, args).await.expect_err("a refusal")
    }
}

fn put(root: &Path, path: &str, content: &[u8]) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
    fs::write(path, content).expect("a file");
}

fn age(root: &Path, path: &str, seconds: u64) {
    let file = fs::File::options().write(true).open(root.join(path)).expect("a file");
    file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).expect("a time");
}

/// The lines between the header and the footer.
fn listed(answer: &str) -> Vec<&str> {
    answer.lines().skip(1).filter(|line| !line.starts_with('[')).collect()
}

#[tokio::test]
async fn glob_lists_the_newest_first_and_says_what_it_skipped() {
    let tree = Tree::new(&[
        (".gitignore", "node_modules/\n*.log\n"),
        ("a.rs", ""),
        ("src/b.rs", ""),
        ("src/deep/c.rs", ""),
        (".hidden/d.rs", ""),
        (".git/e.rs", ""),
        ("node_modules/f.rs", ""),
        ("x.log", ""),
    ]);
    for (path, seconds) in [("a.rs", 30), ("src/b.rs", 10), ("src/deep/c.rs", 20), (".hidden/d.rs", 40)] {
        age(tree.path(), path, seconds);
    }
    let answer = tree.ask("Glob", json!({"pattern": "*.rs"})).await;
    assert!(answer.starts_with("Found 4 files in "), "{answer}");
    assert_eq!(listed(&answer), ["src/b.rs", "src/deep/c.rs", "a.rs", ".hidden/d.rs"]);
    assert!(answer.ends_with("[skipped: 1 ignored directory (node_modules)]"), "{answer}");

    let answer = tree
        .ask("Glob", json!({"pattern": "*.rs", "hidden": false, "include_ignored": true, "sort": "name"}))
        .await;
    assert_eq!(listed(&answer), ["a.rs", "node_modules/f.rs", "src/b.rs", "src/deep/c.rs"]);
    assert!(!answer.contains("skipped"), "{answer}");
}

#[tokio::test]
async fn glob_pages_and_stops_early() {
    let files: Vec<(String, &str)> = (0..25).map(|i| (format!("f{i:02}.txt"), "")).collect();
    let files: Vec<(&str, &str)> = files.iter().map(|(path, content)| (path.as_str(), *content)).collect();
    let tree = Tree::new(&files);
    let answer =
        tree.ask("Glob", json!({"pattern": "*.txt", "sort": "name", "limit": 10, "offset": 10})).await;
    assert!(answer.contains("Found 25 files") && answer.contains("(showing 11-20)"), "{answer}");
    assert_eq!(listed(&answer)[0], "f10.txt");
    assert!(answer.contains("offset=20"), "{answer}");
    let answer =
        tree.ask("Glob", json!({"pattern": "*.txt", "sort": "name", "limit": 10, "offset": 20})).await;
    assert_eq!(listed(&answer).len(), 5);
    assert!(!answer.contains("more files"), "{answer}");
    let answer = tree.ask("Glob", json!({"pattern": "*.txt", "offset": 99})).await;
    assert!(answer.contains("past the end"), "{answer}");
    let answer = tree.ask("Glob", json!({"pattern": "*.txt", "sort": "any", "limit": 3})).await;
    assert!(answer.contains("at least") && listed(&answer).len() == 3, "{answer}");
}

#[tokio::test]
async fn glob_takes_folders_in_the_pattern() {
    let tree = Tree::new(&[("src/a.rs", ""), ("src/x/b.rs", ""), ("other/a.rs", "")]);
    let name = |answer: &str| listed(answer).into_iter().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(name(&tree.ask("Glob", json!({"pattern": "src/*.rs"})).await), ["src/a.rs"]);
    assert_eq!(
        name(&tree.ask("Glob", json!({"pattern": "./src/**/*.rs", "sort": "name"})).await),
        ["src/a.rs", "src/x/b.rs"]
    );
    assert_eq!(name(&tree.ask("Glob", json!({"pattern": "x/*.rs", "path": "src"})).await), ["src/x/b.rs"]);
    let absolute = format!("{}/src/**/b.*", tree.path().canonicalize().expect("real").display());
    assert_eq!(name(&tree.ask("Glob", json!({"pattern": absolute})).await), ["src/x/b.rs"]);
    assert_eq!(tree.refused("Glob", json!({"pattern": "/etc/*"})).await.code(), ErrorCode::OutsideWorkspace);
    assert_eq!(tree.refused("Glob", json!({"pattern": "../*"})).await.code(), ErrorCode::InvalidArgs);
    assert_eq!(
        tree.refused("Glob", json!({"pattern": "*", "path": "/etc"})).await.code(),
        ErrorCode::OutsideWorkspace
    );
    assert_eq!(
        tree.refused("Glob", json!({"pattern": "*", "path": "nowhere"})).await.code(),
        ErrorCode::NotFound
    );
    assert_eq!(
        tree.refused("Glob", json!({"pattern": "*", "path": "src/a.rs"})).await.code(),
        ErrorCode::InvalidArgs
    );
}

#[tokio::test]
async fn nothing_found_tells_of_ignored_files() {
    let tree = Tree::new(&[(".gitignore", "out/\n"), ("out/a.js", ""), ("out/b.js", ""), ("c.rs", "")]);
    let answer = tree.ask("Glob", json!({"pattern": "*.js"})).await;
    assert!(
        answer.contains("No files match \"*.js\"") && answer.contains("2 ignored or hidden files match"),
        "{answer}"
    );
    let answer = tree.ask("Glob", json!({"pattern": "*.py"})).await;
    assert!(!answer.contains("include_ignored"), "{answer}");
}

#[tokio::test]
async fn a_pattern_bomb_is_refused() {
    let tree = Tree::new(&[("a", "")]);
    let bomb = format!("{}a{}", "{a,".repeat(10_000), "}".repeat(10_000));
    assert_eq!(tree.refused("Glob", json!({"pattern": bomb})).await.code(), ErrorCode::InvalidArgs);
    assert_eq!(
        tree.refused("Grep", json!({"pattern": "a", "glob": bomb})).await.code(),
        ErrorCode::InvalidArgs
    );
    assert_eq!(
        tree.refused("Grep", json!({"pattern": "(?:a{1000}){1000}"})).await.code(),
        ErrorCode::InvalidArgs
    );
}

#[cfg(unix)]
#[tokio::test]
async fn links_pipes_and_strange_names_do_no_harm() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let tree = Tree::new(&[("real/a.txt", "needle\n")]);
    let outside = tempfile::tempdir().expect("a folder");
    put(outside.path(), "secret.txt", b"needle\n");
    std::os::unix::fs::symlink(outside.path(), tree.path().join("out")).expect("a link");
    std::os::unix::fs::symlink(outside.path().join("secret.txt"), tree.path().join("s.txt")).expect("a link");
    std::os::unix::fs::symlink(tree.path(), tree.path().join("real/cycle")).expect("a link");
    rustix::fs::mkfifoat(rustix::fs::CWD, tree.path().join("pipe.txt"), 0o600.into()).expect("a pipe");
    fs::write(tree.path().join(OsStr::from_bytes(b"bad\xff\n.txt")), "needle\n").expect("a file");
    let answer = tree.ask("Glob", json!({"pattern": "**/*.txt", "sort": "name"})).await;
    assert_eq!(listed(&answer), [r"bad\xff\n.txt", "real/a.txt"]);
    assert!(answer.contains("[skipped: 1 symbolic link]"), "{answer}");
    let answer = tree.ask("Grep", json!({"pattern": "needle"})).await;
    assert_eq!(listed(&answer), [r"bad\xff\n.txt", "real/a.txt"]);
    assert_eq!(
        tree.refused("Grep", json!({"pattern": "x", "path": "out"})).await.code(),
        ErrorCode::OutsideWorkspace
    );
    assert_eq!(
        tree.refused("Grep", json!({"pattern": "x", "path": "pipe.txt"})).await.code(),
        ErrorCode::InvalidArgs
    );
}

#[tokio::test]
async fn grep_shows_lines_with_context() {
    let tree = Tree::new(&[
        ("a.txt", "one\ntwo\nneedle 1\nfour\nfive\nsix\nseven\nneedle 2\n"),
        ("b.txt", "nothing\n"),
        ("c/d.txt", "a needle\r\nlast"),
    ]);
    let answer = tree
        .ask(
            "Grep",
            json!({"pattern": "needle", "output_mode": "content", "before_context": 1, "after_context": 1}),
        )
        .await;
    assert!(answer.starts_with("Found 3 matching lines in 2 files in "), "{answer}");
    let body: Vec<&str> = answer.lines().skip(1).collect();
    assert_eq!(
        body,
        [
            "a.txt",
            "  2- two",
            "  3: needle 1",
            "  4- four",
            "  --",
            "  7- seven",
            "  8: needle 2",
            "c/d.txt",
            "  1: a needle",
            "  2- last"
        ]
    );
    let answer = tree.ask("Grep", json!({"pattern": "needle"})).await;
    assert_eq!(listed(&answer), ["a.txt", "c/d.txt"]);
    let answer = tree.ask("Grep", json!({"pattern": "needle", "output_mode": "count"})).await;
    assert!(answer.starts_with("Found 3 matching lines in 2 files"), "{answer}");
    assert_eq!(listed(&answer), ["a.txt: 2", "c/d.txt: 1"]);
    let answer =
        tree.ask("Grep", json!({"pattern": "needle", "path": "a.txt", "output_mode": "content"})).await;
    assert_eq!(listed(&answer), ["a.txt", "  3: needle 1", "  8: needle 2"]);
}

#[tokio::test]
async fn grep_chooses_among_files() {
    let tree = Tree::new(&[
        ("a.rs", "needle"),
        ("src/b.rs", "needle"),
        ("src/c.py", "needle"),
        (".ignore", "skipped/\n"),
        ("skipped/d.rs", "needle"),
        (".dot/e.rs", "needle"),
    ]);
    let found = async |args: Value| {
        let answer = tree.ask("Grep", args).await;
        listed(&answer).into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(
        found(json!({"pattern": "needle", "glob": "*.rs", "hidden": false})).await,
        ["a.rs", "src/b.rs"]
    );
    assert_eq!(found(json!({"pattern": "needle", "glob": "src/*.rs"})).await, ["src/b.rs"]);
    assert_eq!(found(json!({"pattern": "needle", "glob": "!*.rs"})).await, ["src/c.py"]);
    assert_eq!(found(json!({"pattern": "needle", "type": "py"})).await, ["src/c.py"]);
    assert_eq!(
        found(json!({"pattern": "needle", "type": "rust", "include_ignored": true})).await,
        [".dot/e.rs", "a.rs", "skipped/d.rs", "src/b.rs"]
    );
    let refused = tree.refused("Grep", json!({"pattern": "x", "type": "rus"})).await;
    assert!(refused.text().contains("rust"), "{refused}");
}

#[tokio::test]
async fn grep_reads_patterns_as_asked() {
    let tree = Tree::new(&[("a.txt", "call foo(bar)\nNeedle\nbegin\nend\n")]);
    let refused = tree.refused("Grep", json!({"pattern": "foo("})).await;
    assert_eq!(refused.code(), ErrorCode::InvalidArgs);
    assert!(refused.text().contains("literal=true") && refused.text().contains('^'), "{refused}");
    let answer = tree.ask("Grep", json!({"pattern": "foo(", "literal": true})).await;
    assert_eq!(listed(&answer), ["a.txt"]);
    let answer = tree.ask("Grep", json!({"pattern": "needle"})).await;
    assert!(answer.contains("No matches") && answer.contains("case_insensitive=true"), "{answer}");
    let answer = tree.ask("Grep", json!({"pattern": "needle", "-i": true})).await;
    assert_eq!(listed(&answer), ["a.txt"]);
    let answer =
        tree.ask("Grep", json!({"pattern": "begin.end", "multiline": true, "output_mode": "content"})).await;
    assert_eq!(listed(&answer), ["a.txt", "  3: begin", "  4: end"]);
}

#[tokio::test]
async fn grep_says_what_it_left_out() {
    let tree = Tree::new(&[("big.txt", &"needle\n".repeat(2_000)), ("small.txt", "needle\n")]);
    put(tree.path(), "bin.dat", b"\0needle\n");
    put(tree.path(), "long.txt", format!("{}needle{}\n", "x".repeat(9_000), "y".repeat(9_000)).as_bytes());
    let answer = tree
        .ask("Grep", json!({"pattern": "needle", "max_filesize": 10_000, "output_mode": "content"}))
        .await;
    assert!(answer.contains("1 binary file") && answer.contains("2 files over max_filesize"), "{answer}");
    assert_eq!(listed(&answer), ["small.txt", "  1: needle"]);
    let answer =
        tree.ask("Grep", json!({"pattern": "needle", "path": "long.txt", "output_mode": "content"})).await;
    assert!(answer.contains("xneedley") && answer.len() < 1_000, "{answer}");
}

#[tokio::test]
async fn grep_pages_without_overlap_in_order_of_path() {
    let names: Vec<String> = (0..30).map(|i| format!("f{i:02}.txt")).collect();
    let files: Vec<(&str, &str)> =
        names.iter().map(|name| (name.as_str(), "needle\nneedle\nneedle\n")).collect();
    let tree = Tree::new(&files);
    let mut seen = Vec::new();
    for offset in [0, 8, 16, 24] {
        let answer = tree
            .ask("Grep", json!({"pattern": "needle", "sort": "path", "max_results": 8, "offset": offset}))
            .await;
        seen.extend(listed(&answer).into_iter().map(str::to_owned));
    }
    assert_eq!(seen, names);
    let answer =
        tree.ask("Grep", json!({"pattern": "needle", "output_mode": "content", "max_results": 4, "offset": 4, "sort": "path"})).await;
    assert_eq!(
        listed(&answer),
        ["f01.txt", "  2: needle", "  3: needle", "f02.txt", "  1: needle", "  2: needle"]
    );
    let answer = tree.ask("Grep", json!({"pattern": "needle", "max_results": 5})).await;
    assert!(answer.contains("at least") && answer.contains("sort=\"path\""), "{answer}");
    assert_eq!(listed(&answer).len(), 5);
}

#[tokio::test]
async fn a_cancelled_search_says_so() {
    let tree = Tree::new(&[("a.txt", "needle")]);
    for (tool, args) in [("Grep", json!({"pattern": "needle"})), ("Glob", json!({"pattern": "*"}))] {
        let cx = ToolCx::detached(RequestId::new());
        cx.cancel.cancel();
        let error = call_with(&tree.tools, tool, args, cx).await.expect_err("a cancel");
        assert_eq!(error.code(), ErrorCode::Cancelled);
    }
}

#[tokio::test]
async fn a_search_out_of_time_gives_what_it_has_and_says_so() {
    let tree = Tree::new(&[("a.txt", "needle")]);
    let mut cx = ToolCx::detached(RequestId::new());
    cx.deadline = Some(tokio::time::Instant::now());
    let reply = call_with(&tree.tools, "Grep", json!({"pattern": "needle"}), cx).await.expect("an answer");
    assert!(text(&reply).contains("timed out"), "{}", text(&reply));
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_folder_exchanged_for_a_link_never_lets_outside_lines_in() {
    let tree = Tree::new(&[("sub/a.txt", "needle plain\n")]);
    let outside = tempfile::tempdir().expect("a folder");
    put(outside.path(), "a.txt", b"needle secret\n");
    std::os::unix::fs::symlink(outside.path(), tree.path().join("link")).expect("a link");
    let flip = Flip::start(&tree.path().join("sub"), &tree.path().join("link"));
    let mut found = 0;
    for turn in 0..2_000 {
        let args = json!({"pattern": "needle", "output_mode": "content", "hidden": turn % 2 == 0});
        let answer = tree.ask("Grep", args).await;
        assert!(!answer.contains("secret"), "turn {turn}: {answer}");
        found += u32::from(answer.contains("plain"));
    }
    drop(flip);
    assert!(found > 0, "a search that never finds anything shows nothing");
}

#[tokio::test]
async fn a_named_binary_file_is_answered_in_one_line() {
    let tree = Tree::new(&[]);
    put(tree.path(), "bin.dat", b"\0\x01head\0needle\0tail\n");
    for mode in ["files_with_matches", "content", "count"] {
        let answer =
            tree.ask("Grep", json!({"pattern": "needle", "path": "bin.dat", "output_mode": mode})).await;
        assert!(answer.starts_with("Binary file bin.dat matches"), "{mode}: {answer}");
        assert_eq!(answer.lines().count(), 1, "{mode}: {answer}");
    }
    let answer = tree.ask("Grep", json!({"pattern": "thread", "path": "bin.dat"})).await;
    assert!(answer.starts_with("No matches") && answer.contains("binary file"), "{answer}");
    assert!(!answer.contains("skipped"), "all of it was searched: {answer}");
}

/// The files of a naive scan: every file that is not below an ignored folder, line by line.
fn naive(files: &[(String, String)], needle: &str, ignored: &[&str]) -> BTreeSet<String> {
    files
        .iter()
        .filter(|(path, _)| !ignored.iter().any(|dir| path.split('/').rev().skip(1).any(|part| part == *dir)))
        .filter(|(_, content)| content.lines().any(|line| line.contains(needle)))
        .map(|(path, _)| path.clone())
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn grep_finds_what_a_naive_scan_finds(
        tree in proptest::collection::btree_map("([abx]/){0,3}[fg][0-9]\\.t", "([ab\n]{0,6}\n?){0,4}", 0..14),
        needle in "[ab]{1,3}",
    ) {
        let files: Vec<(String, String)> = tree.into_iter().collect();
        let borrowed: Vec<(&str, &str)> = files.iter().map(|(path, content)| (path.as_str(), content.as_str())).collect();
        let on_disk = Tree::new(&borrowed);
        put(on_disk.path(), ".gitignore", b"x/\n");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let answer = runtime.block_on(on_disk.ask("Grep", json!({"pattern": &needle, "sort": "path"})));
        let found: BTreeSet<String> = if answer.starts_with("No matches") { BTreeSet::new() } else {
            listed(&answer).into_iter().map(str::to_owned).collect()
        };
        prop_assert_eq!(found, naive(&files, &needle, &["x"]));
    }
}
