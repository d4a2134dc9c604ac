//! A submodule's commit is content of the repository around it; its files are not.

use std::fs;

use serde_json::json;

use super::bench::Bench;

#[tokio::test]
async fn another_commit_of_a_submodule_is_a_change_and_its_files_are_none() {
    let bench = Bench::new();
    let origin = bench.outside.path().join("module");
    fs::create_dir(&origin).expect("a folder");
    assert!(bench.git_in(&origin, &["init", "-q"]));
    assert!(bench.git_in(&origin, &["commit", "-q", "--allow-empty", "-m", "x"]));
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
    let (module, status) = (bench.repo().join("module"), json!({"path": "repo"}));
    fs::write(module.join("new.txt"), "x").expect("a file");
    let answer = bench.answer("GitStatus", status.clone()).await;
    assert!(
        answer.contains("clean") && !answer.contains("modified"),
        "its files are not looked at: {answer}"
    );

    assert!(bench.git_in(&module, &["commit", "-q", "--allow-empty", "-m", "y"]));
    for (tool, args, said) in [
        ("GitStatus", status.clone(), "modified: module"),
        ("git_status", json!({"path": "repo"}), " M module"),
        ("GitDiff", status.clone(), "+Subproject commit"),
        (
            "GitAdd",
            json!({"paths": ["repo"]}),
            "Staged 1 file:\n  modified: module",
        ),
        (
            "GitDiff",
            json!({"path": "repo", "staged": true}),
            "+Subproject commit",
        ),
        (
            "GitCommit",
            json!({"path": "repo", "message": "newer"}),
            "newer",
        ),
        ("GitShow", status.clone(), "+Subproject commit"),
        ("GitStatus", status.clone(), "clean"),
    ] {
        let answer = bench.answer(tool, args).await;
        assert!(answer.contains(said), "{tool}: {answer}");
    }
    assert_eq!(
        bench.told(&["status", "--porcelain", "--ignore-submodules=dirty"]),
        ""
    );
}
