//! Glob: what is found, in which order, and what is said of the rest.

use punie_handlers::search::{SearchDeps, tools};
use punie_host::Workspace;
use serde_json::json;

use super::{Tree, age, listed, put};
use crate::harness::tools::{build_registry, call_tool, reply_text};

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
    for (path, seconds) in [
        ("a.rs", 30),
        ("src/b.rs", 10),
        ("src/deep/c.rs", 20),
        (".hidden/d.rs", 40),
    ] {
        age(tree.path(), path, seconds);
    }
    let answer = tree.ask("Glob", json!({"pattern": "*.rs"})).await;
    assert_starts_with!(answer, "Found 4 files in ");
    assert_eq!(
        listed(&answer),
        ["src/b.rs", "src/deep/c.rs", "a.rs", ".hidden/d.rs"]
    );
    assert_ends_with!(answer, "[skipped: 1 ignored directory (node_modules)]");

    let args = json!({"pattern": "*.rs", "hidden": false, "include_ignored": true, "sort": "name"});
    let answer = tree.ask("Glob", args).await;
    assert_eq!(
        listed(&answer),
        ["a.rs", "node_modules/f.rs", "src/b.rs", "src/deep/c.rs"]
    );
    assert_lacks!(answer, "skipped");
}

#[tokio::test]
async fn glob_pages_and_stops_early() {
    let files: Vec<(String, &str)> = (0..25).map(|i| (format!("f{i:02}.txt"), "")).collect();
    let files: Vec<(&str, &str)> = files
        .iter()
        .map(|(path, content)| (path.as_str(), *content))
        .collect();
    let tree = Tree::new(&files);
    let args = json!({"pattern": "*.txt", "sort": "name", "limit": 10, "offset": 10});
    let answer = tree.ask("Glob", args).await;
    assert_contains!(answer, "Found 25 files", "(showing 11-20)");
    assert_eq!(listed(&answer)[0], "f10.txt");
    assert_contains!(answer, "offset=20");
    let args = json!({"pattern": "*.txt", "sort": "name", "limit": 10, "offset": 20});
    let answer = tree.ask("Glob", args).await;
    assert_eq!(listed(&answer).len(), 5);
    assert_lacks!(answer, "more files");
    let answer = tree
        .ask("Glob", json!({"pattern": "*.txt", "offset": 99}))
        .await;
    assert_contains!(answer, "past the end");
    let args = json!({"pattern": "*.txt", "sort": "any", "limit": 3});
    let answer = tree.ask("Glob", args).await;
    assert!(
        answer.contains("at least") && listed(&answer).len() == 3,
        "{answer}"
    );
}

#[tokio::test]
async fn glob_takes_folders_in_the_pattern() {
    let tree = Tree::new(&[("src/a.rs", ""), ("src/x/b.rs", ""), ("other/a.rs", "")]);
    let name = |answer: &str| {
        listed(answer)
            .into_iter()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        name(&tree.ask("Glob", json!({"pattern": "src/*.rs"})).await),
        ["src/a.rs"]
    );
    assert_eq!(
        name(
            &tree
                .ask("Glob", json!({"pattern": "./src/**/*.rs", "sort": "name"}))
                .await
        ),
        ["src/a.rs", "src/x/b.rs"]
    );
    assert_eq!(
        name(
            &tree
                .ask("Glob", json!({"pattern": "x/*.rs", "path": "src"}))
                .await
        ),
        ["src/x/b.rs"]
    );
    let absolute = format!(
        "{}/src/**/b.*",
        tree.path().canonicalize().expect("real").display()
    );
    assert_eq!(
        name(&tree.ask("Glob", json!({"pattern": absolute})).await),
        ["src/x/b.rs"]
    );
    let error = tree.refused("Glob", json!({"pattern": "/etc/*"})).await;
    assert_error!(error, OutsideWorkspace);
    let error = tree.refused("Glob", json!({"pattern": "../*"})).await;
    assert_error!(error, InvalidArgs);
    assert_error!(
        tree.refused("Glob", json!({"pattern": "*", "path": "/etc"}))
            .await,
        OutsideWorkspace
    );
    assert_error!(
        tree.refused("Glob", json!({"pattern": "*", "path": "nowhere"}))
            .await,
        NotFound
    );
    assert_error!(
        tree.refused("Glob", json!({"pattern": "*", "path": "src/a.rs"}))
            .await,
        InvalidArgs
    );
}

#[tokio::test]
async fn nothing_found_tells_of_ignored_files() {
    let tree = Tree::new(&[
        (".gitignore", "out/\n"),
        ("out/a.js", ""),
        ("out/b.js", ""),
        ("c.rs", ""),
    ]);
    let answer = tree.ask("Glob", json!({"pattern": "*.js"})).await;
    assert_contains!(
        answer,
        "No files match \"*.js\"",
        "2 ignored or hidden files match"
    );
    let answer = tree.ask("Glob", json!({"pattern": "*.py"})).await;
    assert_lacks!(answer, "include_ignored");
}

#[tokio::test]
async fn glob_finds_folders_links_and_files_of_a_language() {
    let tree = Tree::new(&[("src/a.rs", ""), ("src/b.py", ""), ("src/inner/c.rs", "")]);
    let args = json!({"pattern": "**", "type": "dir", "sort": "name"});
    let answer = tree.ask("Glob", args).await;
    assert_eq!(listed(&answer), ["src", "src/inner"], "{answer}");
    let args = json!({"pattern": "*", "type": "rust", "sort": "name"});
    let answer = tree.ask("Glob", args).await;
    assert_eq!(listed(&answer), ["src/a.rs", "src/inner/c.rs"], "{answer}");
    let refused = tree
        .refused("Glob", json!({"pattern": "*", "type": "rus"}))
        .await;
    assert_error!(refused, InvalidArgs: "rust");
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("src", tree.path().join("link")).expect("a link");
        let answer = tree
            .ask("Glob", json!({"pattern": "*", "type": "link"}))
            .await;
        assert_eq!(listed(&answer), ["link"], "{answer}");
    }
}

#[tokio::test]
async fn glob_counts_all_ignored_directories_and_names_the_files_that_fit() {
    let tree = Tree::new(&[
        (".gitignore", "target/\n.env\n"),
        ("target/a", ""),
        ("x/y/z/target/b", ""),
        (".env", "SECRET=1"),
        ("c", ""),
    ]);
    let answer = tree
        .ask("Glob", json!({"pattern": "*", "sort": "name"}))
        .await;
    assert_eq!(listed(&answer), [".gitignore", "c"]);
    assert_ends_with!(
        answer,
        "[skipped: 2 ignored directories (target, x/y/z/target), 1 ignored file (.env)]"
    );
}

#[tokio::test]
async fn the_users_own_ignore_file_is_heeded_and_a_repository_ends_the_rules_above() {
    let tree = Tree::new(&[
        (".gitignore", "*.o\n"),
        ("a.o", ""),
        ("a.swp", ""),
        ("inner/.git/info/exclude", "private\n"),
        ("inner/b.o", ""),
        ("inner/private", ""),
    ]);
    let outside = tempfile::tempdir().expect("a folder");
    put(outside.path(), "ignore", b"*.swp\n");
    let workspace = Workspace::open_roots(&[tree.path().to_owned()]).expect("a workspace");
    let user_ignore = Some(outside.path().join("ignore"));
    let tools = build_registry(tools(SearchDeps {
        workspace,
        user_ignore,
        views: None,
    }));
    let reply = call_tool(&tools, "Glob", json!({"pattern": "*", "sort": "name"}))
        .await
        .expect("an answer");
    assert_eq!(
        listed(reply_text(&reply)),
        [".gitignore", "inner/b.o"],
        "{}",
        reply_text(&reply)
    );
    assert_contains!(
        reply_text(&reply),
        "3 ignored files (a.o, a.swp, inner/private)"
    );
}

#[tokio::test]
async fn several_workspaces_are_searched_and_a_nested_one_once() {
    let tree = Tree::new(&[("a.rs", ""), ("inner/b.rs", "needle")]);
    let other = tempfile::tempdir().expect("a folder");
    put(other.path(), "c.rs", b"needle");
    let roots = [
        tree.path().to_owned(),
        tree.path().join("inner"),
        other.path().to_owned(),
    ];
    let workspace = Workspace::open_roots(&roots).expect("a workspace");
    let tools = build_registry(tools(SearchDeps {
        workspace,
        user_ignore: None,
        views: None,
    }));
    let reply = call_tool(&tools, "Glob", json!({"pattern": "*.rs"}))
        .await
        .expect("an answer");
    assert_starts_with!(reply_text(&reply), "Found 3 files in 3 workspaces");
    let reply = call_tool(&tools, "Grep", json!({"pattern": "needle"}))
        .await
        .expect("an answer");
    assert_starts_with!(reply_text(&reply), "Found 2 files in 3 workspaces");
}

#[tokio::test]
async fn glob_says_how_many_there_are_and_which_are_shown() {
    let names: Vec<String> = (0..1_240).map(|i| format!("f{i:04}")).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
    let tree = Tree::new(&files);
    let answer = tree.ask("Glob", json!({"pattern": "*"})).await;
    assert_starts_with!(answer, "Found 1,240 files (showing 1-200)");
    assert_ends_with!(answer, "[more files match: offset=200 for the next page]");
}

#[cfg(unix)]
#[tokio::test]
async fn links_to_files_are_found_and_shown_as_links() {
    use std::os::unix::fs::symlink;
    let tree = Tree::new(&[("src/a.rs", "")]);
    symlink("src/a.rs", tree.path().join("b.rs")).expect("a link");
    symlink("nowhere", tree.path().join("c.rs")).expect("a link");
    symlink("src", tree.path().join("d.rs")).expect("a link");
    let answer = tree
        .ask("Glob", json!({"pattern": "*.rs", "sort": "name"}))
        .await;
    assert_eq!(listed(&answer), ["b.rs (link)", "src/a.rs"], "{answer}");
    assert_ends_with!(answer, "[skipped: 2 symbolic links]");
}

#[tokio::test]
async fn nothing_found_tells_of_folders_and_of_other_cases() {
    let tree = Tree::new(&[("src/deep/a.rs", ""), ("README.md", "")]);
    let answer = tree.ask("Glob", json!({"pattern": "src"})).await;
    assert_contains!(answer, "But `src` is a folder: use pattern `src/**`");
    let answer = tree.ask("Glob", json!({"pattern": "src/deep"})).await;
    assert_contains!(
        answer,
        "But `src/deep` is a folder: use pattern `src/deep/**`"
    );
    let answer = tree.ask("Glob", json!({"pattern": "src/deep/**"})).await;
    assert_eq!(listed(&answer), ["src/deep/a.rs"]);
    let answer = tree.ask("Glob", json!({"pattern": "readme.MD"})).await;
    assert_contains!(answer, "No files match", "But `README.md` differs in case.");
    let answer = tree.ask("Glob", json!({"pattern": "*.py"})).await;
    assert_lacks!(answer, "But");
}

#[tokio::test]
async fn a_pattern_is_read_as_it_must_be_meant() {
    let tree = Tree::new(&[
        ("app/[id]/page.tsx", "one\n"),
        ("app/[[...slug]]/page.tsx", "two\n"),
        ("a.py", "one\n"),
        ("src/b.ts", "two\n"),
        ("Cafe\u{301}.txt", "un cafe\u{301}\n"),
    ]);
    for (pattern, found) in cases! {
        (json!("app/[id]/*.tsx"), vec!["app/[id]/page.tsx"]),
        (json!("app/[[...slug]]/*.tsx"), vec!["app/[[...slug]]/page.tsx"]),
        (json!("*.py,*.ts"), vec!["a.py", "src/b.ts"]),
        (json!("*.py *.ts"), vec!["a.py", "src/b.ts"]),
        (json!(["*.py", "src/*.ts"]), vec!["a.py", "src/b.ts"]),
        (json!("Caf\u{e9}*"), vec!["Cafe\u{301}.txt"]),
    } {
        let args = json!({"pattern": pattern, "sort": "name", "limit": 0});
        let answer = tree.ask("Glob", args).await;
        assert_eq!(listed(&answer), found, "{pattern}: {answer}");
        let is_literal = pattern.as_str().is_some_and(|text| text.contains('['));
        assert_eq!(answer.contains("taken as letters"), is_literal, "{answer}");
    }
    // Where the pattern itself finds something, it is what it says.
    put(tree.path(), "app/i/page.tsx", b"three\n");
    let answer = tree.ask("Glob", json!({"pattern": "app/[id]/*.tsx"})).await;
    assert_eq!(listed(&answer), ["app/i/page.tsx"]);
}

#[tokio::test]
async fn linked_folders_are_counted_and_entered_where_the_pattern_names_them() {
    let tree = Tree::new(&[("store/x/index.js", "")]);
    std::fs::create_dir(tree.path().join("node_modules")).expect("a folder");
    std::os::unix::fs::symlink("../store/x", tree.path().join("node_modules/x")).expect("a link");
    let answer = tree
        .ask("Glob", json!({"pattern": "node_modules/**/*.js"}))
        .await;
    assert_contains!(answer, "[skipped: 1 symbolic link]");
    let answer = tree
        .ask("Glob", json!({"pattern": "node_modules/x/*.js"}))
        .await;
    assert_eq!(listed(&answer), ["store/x/index.js"]);
}
