//! GitAdd.

use std::fs;

use punie_tool::request::ErrorCode;
use serde_json::json;

use super::bench::{Bench, token};

#[tokio::test]
async fn new_changed_and_deleted_files_are_staged_and_named() {
    let bench = Bench::new();
    bench.write("sub/b.txt", "b");
    bench.commit_all("second");
    bench.write("a.txt", "one\nzwei\n");
    fs::remove_file(bench.repo().join("sub/b.txt")).expect("removed");
    bench.write("sub/new\n.txt", "x");
    bench.write("left.txt", "x");
    let answer = bench
        .answer("GitAdd", json!({"paths": ["repo/a.txt", "repo/sub"]}))
        .await;
    assert_eq!(
        answer,
        "Staged 3 files:\n  modified: a.txt\n  deleted: sub/b.txt\n  new: \"sub/new\\n.txt\""
    );
    let status = bench.told(&["status", "--porcelain", "--no-renames"]);
    assert_eq!(
        status,
        "M  a.txt\nD  sub/b.txt\nA  \"sub/new\\n.txt\"\n?? left.txt"
    );
    let answer = bench
        .answer("GitAdd", json!({"paths": ["repo/a.txt"]}))
        .await;
    assert_starts_with!(answer, "Nothing to stage");
    let args = json!({"paths": ["repo/sub/b.txt", "repo/left.txt"]});
    let answer = bench.answer("GitAdd", args).await;
    assert_starts_with!(
        answer,
        "Staged 1 file:\n  new: left.txt\nUnchanged or staged already:"
    );
}

#[tokio::test]
async fn what_is_ignored_is_refused_with_its_rule() {
    let bench = Bench::new();
    bench.write(".gitignore", "*.log\n");
    bench.write("x.log", "x");
    bench.write("d/y.log", "x");
    bench.write("d/z.txt", "x");
    let answer = bench
        .answer("GitAdd", json!({"paths": ["repo/x.log", "repo/d"]}))
        .await;
    assert_starts_with!(answer, "Staged 1 file:\n  new: d/z.txt\n");
    assert_contains!(
        answer,
        "Refused 1 path, not staged:\n  x.log: it is ignored by .gitignore:1 `*.log`"
    );
    let args = json!({"paths": ["repo/x.log"]});
    let text = bench
        .refused_as("GitAdd", args, ErrorCode::PolicyDenied)
        .await;
    assert_starts_with!(text, "Nothing was staged.\nRefused 1 path");
    assert_eq!(bench.told(&["ls-files"]), "a.txt\nd/z.txt");
}

#[tokio::test]
async fn secrets_are_refused_by_name_and_by_content_and_never_shown() {
    let bench = Bench::new();
    for name in [
        ".env",
        ".env.local",
        "key.pem",
        "deep/id_rsa",
        "credentials.json",
    ] {
        bench.write(name, "x");
    }
    let key = format!(
        "-----BEGIN RSA {}-----\n{}\n",
        "PRIVATE KEY",
        "MIIEabc1".repeat(8)
    );
    bench.write("notes.txt", &format!("line\n{key}"));
    bench.write(
        "config.rs",
        &format!("const TOKEN: &str = \"{}\";\n", token()),
    );
    bench.write(".env.example", "KEY=\n");
    let answer = bench.answer("GitAdd", json!({"paths": ["repo"]})).await;
    assert_starts_with!(
        answer,
        "Staged 1 file:\n  new: .env.example\nRefused 7 paths, not staged:\n"
    );
    for line in [
        "  .env: its name looks like that of a secret (.env)",
        "  deep/id_rsa: its name looks like that of a secret (id_rsa)",
        "  config.rs: line 1 looks like a secret of the kind `github`",
        "  notes.txt: line 2 looks like a private key",
    ] {
        assert!(
            answer.lines().any(|shown| shown == line),
            "{line}: {answer}"
        );
    }
    assert_lacks!(answer, &token(), "MIIE");
    assert_eq!(bench.told(&["ls-files"]), ".env.example\na.txt");
}

#[tokio::test]
async fn what_the_repository_has_already_may_change_but_no_secret_may_join_it() {
    let bench = Bench::new();
    bench.write("fixture.rs", &format!("const A: &str = \"{}\";\n", token()));
    bench.write(".env", "MODE=test\n");
    bench.commit_all("fixtures");
    bench.write(
        "fixture.rs",
        &format!("// explained\nconst A: &str = \"{}\";\n", token()),
    );
    bench.write(".env", "MODE=prod\n");
    let answer = bench.answer("GitAdd", json!({"paths": ["repo"]})).await;
    assert_starts_with!(answer, "Staged 2 files:");
    bench.write(
        "fixture.rs",
        &format!(
            "const A: &str = \"{}\";\n// {}\n",
            token(),
            token().replace("Ab", "Cd")
        ),
    );
    let args = json!({"paths": ["repo/fixture.rs"]});
    bench
        .refused_as("GitAdd", args, ErrorCode::PolicyDenied)
        .await;
}

#[tokio::test]
async fn names_of_options_and_patterns_are_only_names() {
    let bench = Bench::new();
    for name in ["-A", ":(top)x", "*.txt", ":!a.txt"] {
        bench.write(name, "x");
    }
    bench.write("other.txt", "x");
    for name in ["-A", ":(top)x", "*.txt", ":!a.txt"] {
        let answer = bench
            .answer("GitAdd", json!({"paths": [format!("repo/{name}")]}))
            .await;
        assert_eq!(answer, format!("Staged 1 file:\n  new: {name}"));
    }
    assert_ends_with!(bench.told(&["status", "--porcelain"]), "?? other.txt");
}

#[tokio::test]
async fn a_conflict_is_resolved_and_marks_left_in_it_are_said() {
    let bench = Bench::new();
    bench.git(&["checkout", "-q", "-b", "other"]);
    bench.write("a.txt", "one\nother\n");
    bench.commit_all("other");
    bench.git(&["checkout", "-q", "main"]);
    bench.write("a.txt", "one\nours\n");
    bench.commit_all("ours");
    assert!(!bench.git_in(&bench.repo(), &["merge", "other"]));
    let answer = bench
        .answer("GitAdd", json!({"paths": ["repo/a.txt"]}))
        .await;
    assert_eq!(
        answer,
        "Staged 1 file:\n  resolved: a.txt (still has conflict marks (<<<<<<<))"
    );
}

#[tokio::test]
async fn a_repository_within_is_refused() {
    let bench = Bench::new();
    let inner = bench.repo().join("inner");
    fs::create_dir(&inner).expect("a folder");
    assert!(bench.git_in(&inner, &["init", "-q"]));
    fs::write(inner.join("x"), "x").expect("a file");
    let args = json!({"paths": ["repo"]});
    let text = bench
        .refused_as("GitAdd", args, ErrorCode::PolicyDenied)
        .await;
    assert_contains!(text, "inner/: it is a repository of its own");
}

#[tokio::test]
async fn refusals_and_the_cancel() {
    let bench = Bench::new();
    let other = bench.inside.path().join("other");
    fs::create_dir(&other).expect("a folder");
    assert!(bench.git_in(&other, &["init", "-q"]));
    fs::write(other.join("x"), "x").expect("a file");
    bench.write("b.txt", "x");
    for (args, code) in cases! {
        (json!({"paths": []}), ErrorCode::InvalidArgs),
        (json!({}), ErrorCode::InvalidArgs),
        (json!({"paths": ["repo/never.txt"]}), ErrorCode::NotFound),
        (json!({"paths": ["repo/b.txt", "repo/never.txt"]}), ErrorCode::NotFound),
        (json!({"paths": ["repo/b.txt", "other/x"]}), ErrorCode::InvalidArgs),
        (json!({"paths": ["../x"]}), ErrorCode::OutsideWorkspace),
        (json!({"paths": vec!["repo/b.txt"; 501]}), ErrorCode::InvalidArgs),
    } {
        bench.refused_as("GitAdd", args, code).await;
    }
    bench
        .cancelled("GitAdd", json!({"paths": ["repo/b.txt"]}))
        .await;
    assert_eq!(bench.told(&["status", "--porcelain"]), "?? b.txt");
}

#[tokio::test]
async fn a_file_that_needs_a_filter_which_is_not_set_up_is_refused_without_a_word_of_secrets() {
    let bench = Bench::new();
    bench.write(
        ".gitattributes",
        "*.bin filter=lfs diff=lfs\n*.txt -filter\n",
    );
    bench.write("x.bin", "content\n");
    bench.write("b.txt", "text\n");
    let told = bench.answer("GitAdd", json!({"paths": ["repo"]})).await;
    assert_contains!(
        told,
        "x.bin: its attributes ask for the filter lfs",
        "lfs install"
    );
    assert_contains!(told, "new: b.txt");
    assert_lacks!(told, "secret");
    assert_eq!(bench.told(&["ls-files", "x.bin"]), "");
}
