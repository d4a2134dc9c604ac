//! Trees and patterns that mean no good, and searches that are ended from outside.

use std::fs;

use punie_core::ids::RequestId;
use punie_tool::ToolContext;
use serde_json::json;

use super::{Tree, listed, put};
#[cfg(target_os = "linux")]
use crate::harness::flip::FlippingNames;
use crate::harness::tools::{call_with, reply_text};

#[tokio::test]
async fn h31_a_glob_of_ten_thousand_braces_is_refused() {
    let tree = Tree::new(&[("a", "")]);
    let bomb = format!("{}a{}", "{a,".repeat(10_000), "}".repeat(10_000));
    let error = tree.refused("Glob", json!({"pattern": bomb})).await;
    assert_error!(error, InvalidArgs);
    assert_error!(
        tree.refused("Grep", json!({"pattern": "a", "glob": bomb}))
            .await,
        InvalidArgs
    );
}

#[tokio::test]
async fn h33_a_pattern_whose_program_is_too_large_is_refused() {
    let tree = Tree::new(&[("a", "a\n")]);
    for pattern in [
        "(?:a{1000}){1000}",
        "(?:(?:a{100}){100}){100}",
        r"\pL{1000}\w{1000}\d{1000}",
    ] {
        let refused = tree.refused("Grep", json!({"pattern": pattern})).await;
        assert_error!(refused, InvalidArgs: "smaller repetition"; "{pattern}");
    }
}

#[cfg(unix)]
#[tokio::test]
async fn h30_a_glob_over_links_in_a_circle_ends_and_finds_each_file_once() {
    let tree = Tree::new(&[("a/b/f.txt", "needle\n")]);
    for (target, link) in [
        ("..", "a/b/up"),
        ("../..", "a/b/top"),
        (".", "a/here"),
        ("pong", "ping"),
        ("ping", "pong"),
    ] {
        std::os::unix::fs::symlink(target, tree.path().join(link)).expect("a link");
    }
    for pattern in ["**", "**/*.txt", "**/**/**/f*", "a/**/up/**/f.txt"] {
        let found = listed(&tree.ask("Glob", json!({"pattern": pattern})).await).join(" ");
        let expected = if pattern.contains("up") {
            ""
        } else {
            "a/b/f.txt"
        };
        assert_eq!(found, expected, "{pattern}");
    }
    assert_eq!(
        listed(&tree.ask("Grep", json!({"pattern": "needle"})).await),
        ["a/b/f.txt"]
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
    std::os::unix::fs::symlink(outside.path().join("secret.txt"), tree.path().join("s.txt"))
        .expect("a link");
    std::os::unix::fs::symlink(tree.path(), tree.path().join("real/cycle")).expect("a link");
    rustix::fs::mkfifoat(rustix::fs::CWD, tree.path().join("pipe.txt"), 0o600.into())
        .expect("a pipe");
    fs::write(
        tree.path().join(OsStr::from_bytes(b"bad\xff\n.txt")),
        "needle\n",
    )
    .expect("a file");
    let answer = tree
        .ask("Glob", json!({"pattern": "**/*.txt", "sort": "name"}))
        .await;
    assert_eq!(listed(&answer), [r#""bad\377\n.txt""#, "real/a.txt"]);
    assert_contains!(
        answer,
        "[skipped: 3 symbolic links, 1 name that is no regular file]"
    );
    let answer = tree.ask("Grep", json!({"pattern": "needle"})).await;
    assert_eq!(listed(&answer), [r#""bad\377\n.txt""#, "real/a.txt"]);
    assert_error!(
        tree.refused("Grep", json!({"pattern": "x", "path": "out"}))
            .await,
        OutsideWorkspace
    );
    assert_error!(
        tree.refused("Grep", json!({"pattern": "x", "path": "pipe.txt"}))
            .await,
        InvalidArgs
    );
}

#[tokio::test]
async fn a_cancelled_search_says_so() {
    let tree = Tree::new(&[("a.txt", "needle")]);
    for (tool, args) in [
        ("Grep", json!({"pattern": "needle"})),
        ("Glob", json!({"pattern": "*"})),
    ] {
        let cx = ToolContext::for_detached_call(RequestId::new());
        cx.cancel.cancel();
        let error = call_with(&tree.tools, tool, args, cx)
            .await
            .expect_err("a cancel");
        assert_error!(error, Cancelled);
    }
}

#[tokio::test]
async fn a_search_out_of_time_gives_what_it_has_and_says_so() {
    let tree = Tree::new(&[("a.txt", "needle")]);
    let mut cx = ToolContext::for_detached_call(RequestId::new());
    cx.deadline = Some(tokio::time::Instant::now());
    let reply = call_with(&tree.tools, "Grep", json!({"pattern": "needle"}), cx)
        .await
        .expect("an answer");
    assert_contains!(reply_text(&reply), "timed out");
}

#[cfg(target_os = "linux")]
#[tokio::test]
#[ignore = "slow: `.ci/run` runs it"]
async fn h24_a_folder_exchanged_for_a_link_never_lets_outside_lines_in() {
    let tree = Tree::new(&[("sub/a.txt", "needle plain\n")]);
    let outside = tempfile::tempdir().expect("a folder");
    put(outside.path(), "a.txt", b"needle secret\n");
    std::os::unix::fs::symlink(outside.path(), tree.path().join("link")).expect("a link");
    let flip = FlippingNames::start(&tree.path().join("sub"), &tree.path().join("link"));
    let mut found = 0;
    for turn in 0..2_000 {
        let args = json!({"pattern": "needle", "output_mode": "content", "hidden": turn % 2 == 0});
        let answer = tree.ask("Grep", args).await;
        assert_lacks!(answer, "secret"; "turn {turn}");
        found += u32::from(answer.contains("plain"));
    }
    drop(flip);
    assert!(
        found > 0,
        "a search that never finds anything shows nothing"
    );
}

#[tokio::test]
async fn what_is_refused_is_refused_with_words() {
    let tree = Tree::new(&[("a.txt", "x\n")]);
    let refused = tree.refused("Grep", json!({"pattern": r"(a)\1"})).await;
    assert_contains!(refused.model_text(), "backreferences are not supported");
    let refused = tree.refused("Grep", json!({"pattern": "(?=a)"})).await;
    assert_contains!(refused.model_text(), "look-around");
}

#[tokio::test]
async fn h32_a_catastrophic_pattern_takes_time_in_proportion_to_the_text() {
    // A backtracking engine would not live to see the end of this line.
    let tree = Tree::new(&[("a.txt", &format!("{}b\n", "a".repeat(200_000)))]);
    let answer = tree.ask("Grep", json!({"pattern": "(a+)+$"})).await;
    assert_starts_with!(answer, "No matches");
    assert_lacks!(answer, "timed out");
}

#[cfg(unix)]
#[tokio::test]
async fn sparse_growing_and_special_files_hold_nothing_up() {
    let tree = Tree::new(&[("a.txt", "needle\n")]);
    fs::File::create(tree.path().join("sparse.img"))
        .and_then(|file| file.set_len(20 << 30))
        .expect("a file");
    // A pipe in the place of a file with rules, and a device by a link.
    rustix::fs::mkfifoat(
        rustix::fs::CWD,
        tree.path().join(".gitignore"),
        0o600.into(),
    )
    .expect("a pipe");
    std::os::unix::fs::symlink("/dev/zero", tree.path().join("zero")).expect("a link");
    let answer = tree.ask("Grep", json!({"pattern": "needle"})).await;
    assert_eq!(listed(&answer), ["a.txt"]);
    assert_contains!(
        answer,
        "1 file over max_filesize, 1 symbolic link, 1 name that is no regular file"
    );
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_that_grows_while_it_is_read_ends_at_the_limit() {
    let tree = Tree::new(&[("log.txt", "")]);
    let mut file = fs::File::options()
        .append(true)
        .open(tree.path().join("log.txt"))
        .expect("a file");
    let stop = std::sync::atomic::AtomicBool::new(false);
    let runtime = tokio::runtime::Handle::current();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let lines = "a line of a log\n".repeat(4_096);
            while !stop.load(std::sync::atomic::Ordering::Relaxed)
                && file.metadata().is_ok_and(|meta| meta.len() < 64 << 20)
            {
                std::io::Write::write_all(&mut file, lines.as_bytes()).expect("written");
            }
        });
        let search = || async {
            for _ in 0..20 {
                let args = json!({"pattern": "absent", "max_filesize": 2_000_000});
                let answer = tree.ask("Grep", args).await;
                assert_starts_with!(answer, "No matches");
            }
        };
        std::thread::scope(|inner| {
            inner
                .spawn(|| runtime.block_on(search()))
                .join()
                .expect("searched");
        });
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
}

#[tokio::test]
async fn a_cancel_and_a_deadline_end_a_walk_in_its_middle() {
    let names: Vec<String> = (0..4_000)
        .map(|i| format!("d{:02}/f{i:04}", i / 100))
        .collect();
    let text = "some words on a line\n".repeat(200);
    let files: Vec<(&str, &str)> = names
        .iter()
        .map(|name| (name.as_str(), text.as_str()))
        .collect();
    let tree = Tree::new(&files);
    let args = json!({"pattern": r"(\w+ )+\d", "output_mode": "content"});
    let cx = ToolContext::for_detached_call(RequestId::new());
    let cancel = cx.cancel.clone();
    let (ended, ()) = tokio::join!(call_with(&tree.tools, "Grep", args.clone(), cx), async {
        tokio::task::yield_now().await;
        cancel.cancel();
    });
    assert_error!(ended.expect_err("a cancel"), Cancelled);
    let mut args = args;
    args["timeout_ms"] = json!(1);
    let answer = tree.ask("Grep", args).await;
    assert_contains!(answer, "[timed out: this is what was found so far");
}

#[tokio::test]
async fn a_long_line_that_is_cut_around_its_match_keeps_a_secret_whole_or_leaves_it_out() {
    use punie_text::redact::{Redactor, Secret};
    let secret = "zq81Kf93hfWx72Lmna";
    let redactor = Redactor::new([Secret::new(secret.to_owned())]);
    for dots in 170..200 {
        let dots = ".".repeat(dots);
        let line = format!(
            "{}{secret}{dots}needle{dots}{secret}{}\n",
            "-".repeat(900),
            "-".repeat(900)
        );
        let tree = Tree::new(&[("a", line.as_str())]);
        let cx = ToolContext {
            secret_boundaries: punie_text::output::SecretBoundaries::new(&redactor),
            ..ToolContext::for_detached_call(RequestId::new())
        };
        let args = json!({ "pattern": "needle", "output_mode": "content" });
        let reply = call_with(&tree.tools, "Grep", args, cx)
            .await
            .expect("an answer");
        let shown = redactor.mask(reply_text(&reply)).0.into_owned();
        assert_contains!(shown, "needle", "[...]");
        let part = (0..secret.len() - 3)
            .map(|at| &secret[at..at + 4])
            .find(|part| shown.contains(part));
        assert_eq!(part, None, "{shown}");
    }
}
