//! A submodule's commit is content of the repository around it; that its files changed is told.

use std::fs;

use serde_json::json;

use super::bench::Bench;

/// Adds a submodule in `module`.
fn add_submodule(bench: &Bench) {
    let origin = bench.outside.path().join("module");
    fs::create_dir(&origin).expect("a folder");
    assert!(bench.git_in(&origin, &["init", "-q"]));
    fs::write(origin.join("f.txt"), "x\n").expect("a file");
    assert!(bench.git_in(&origin, &["add", "f.txt"]));
    assert!(bench.git_in(&origin, &["commit", "-q", "-m", "x"]));
    let url = origin.display().to_string();
    bench.git(&[
        "-c",
        "protocol.file.allow=always",
        "submodule",
        "--quiet",
        "add",
        &url,
        "module",
    ]);
    bench.commit_all("a submodule");
}

#[tokio::test]
async fn files_changed_inside_a_submodule_are_told_as_git_does() {
    let bench = Bench::new();
    add_submodule(&bench);
    let status = json!({"path": "repo"});
    assert_eq!(
        bench.answer("git_status", status.clone()).await,
        "nothing to commit, working tree clean"
    );
    let module = bench.repo().join("module");
    fs::write(module.join("new.txt"), "x").expect("a file");
    assert_eq!(
        bench.answer("git_status", status.clone()).await,
        " ? module"
    );
    let told = bench.answer("GitStatus", status.clone()).await;
    assert_contains!(told, "new files inside the submodule: module");
    fs::write(module.join("f.txt"), "y\n").expect("a file");
    assert_eq!(
        bench.answer("get_git_status", status.clone()).await,
        " m module"
    );
    let told = bench
        .answer("GitStatus", json!({"path": "repo/module/.."}))
        .await;
    assert_contains!(told, "files changed inside the submodule: module");
    // With other changes, in git's order.
    bench.write("a.txt", "changed\n");
    bench.write("z.txt", "new\n");
    assert_eq!(
        bench.answer("git_status", status.clone()).await,
        bench.told(&["status", "--short"])
    );
    let args = json!({"path": "repo", "message": "m", "all": true});
    let told = bench.answer("GitCommit", args).await;
    assert_lacks!(told, "working tree clean");
    // A submodule of the submodule.
    assert!(bench.git_in(&module, &["checkout", "-q", "--", "."]));
    fs::remove_file(module.join("new.txt")).expect("a file");
    let inner = module.join("inner");
    fs::create_dir(&inner).expect("a folder");
    assert!(bench.git_in(&inner, &["init", "-q"]));
    assert!(bench.git_in(&inner, &["commit", "-q", "--allow-empty", "-m", "x"]));
    assert!(bench.git_in(
        &module,
        &["-c", "advice.addEmbeddedRepo=false", "add", "inner"]
    ));
    assert!(bench.git_in(&module, &["commit", "-q", "-m", "inner"]));
    bench.git(&["add", "module", "z.txt"]);
    bench.git(&["commit", "-q", "-m", "all"]);
    assert_contains!(bench.answer("git_status", status.clone()).await, "clean");
    fs::write(inner.join("deep.txt"), "x").expect("a file");
    assert_eq!(bench.answer("git_status", status).await, " m module");
}

#[tokio::test]
async fn a_submodules_path_is_the_entry_of_the_repository_around_it() {
    let bench = Bench::new();
    add_submodule(&bench);
    let module = bench.repo().join("module");
    let unchanged = bench
        .answer("GitAdd", json!({"paths": ["repo/module"]}))
        .await;
    assert_contains!(unchanged, "a submodule, at the same commit");
    for (message, tool) in [("one", "GitCommit"), ("two", "git_add_commit")] {
        assert!(bench.git_in(&module, &["commit", "-q", "--allow-empty", "-m", message]));
        let args = json!({"paths": ["repo/module"], "message": message});
        let told = bench.answer(tool, args).await;
        assert_contains!(told, "module", "on main");
        assert_eq!(bench.told(&["log", "-1", "--format=%s"]), message);
        assert_eq!(bench.told(&["status", "--short"]), "");
    }
    assert!(bench.git_in(&module, &["commit", "-q", "--allow-empty", "-m", "three"]));
    let told = bench
        .answer("GitAdd", json!({"paths": ["repo/module"]}))
        .await;
    assert_contains!(told, "Staged 1 file:\n  modified: module");
    // Its files are those of another repository.
    let args = json!({"paths": ["repo/a.txt", "repo/module/f.txt"]});
    let told = bench.refused("GitAdd", args).await;
    assert_contains!(told.model_text(), "in a repository of its own");
    fs::write(module.join("f.txt"), "y\n").expect("a file");
    let told = bench
        .answer("GitAdd", json!({"paths": ["repo/module/f.txt"]}))
        .await;
    assert_contains!(told, "modified: f.txt");
}

#[tokio::test]
async fn another_commit_of_a_submodule_is_a_change() {
    let bench = Bench::new();
    add_submodule(&bench);
    let module = bench.repo().join("module");
    let status = json!({"path": "repo"});
    assert!(bench.git_in(&module, &["commit", "-q", "--allow-empty", "-m", "y"]));
    for (tool, args, said) in cases! {
        ("GitStatus", status.clone(), "modified: module"),
        ("git_status", json!({"path": "repo"}), " M module"),
        ("GitDiff", status.clone(), "+Subproject commit"),
        ("GitAdd", json!({"paths": ["repo"]}), "Staged 1 file:\n  modified: module"),
        ("GitDiff", json!({"path": "repo", "staged": true}), "+Subproject commit"),
        ("GitCommit", json!({"path": "repo", "message": "newer"}), "newer"),
        ("GitShow", status.clone(), "+Subproject commit"),
        ("GitStatus", status.clone(), "clean"),
    } {
        let answer = bench.answer(tool, args).await;
        assert_contains!(answer, said; "{tool}");
    }
    assert_eq!(
        bench.told(&["status", "--porcelain", "--ignore-submodules=dirty"]),
        ""
    );
}
