//! What the hooks of a commit find in their environment.

use std::collections::BTreeMap;
use std::fs;

use punie_host::local::child_log::CALL_MARK;
use serde_json::json;

use super::bench::Bench;

/// The variables that a hook wrote down, without those that differ by call and by shell.
fn written(bench: &Bench, file: &str) -> BTreeMap<String, String> {
    let text = fs::read_to_string(bench.outside.path().join(file)).expect("the hook ran");
    let entries = text.split_terminator('\0');
    let pairs = entries.map(|entry| entry.split_once('=').expect("a variable"));
    let mut variables: BTreeMap<String, String> = pairs
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    for own in [CALL_MARK, "GIT_AUTHOR_DATE", "_", "SHLVL", "OLDPWD", "PWD"] {
        variables.remove(own);
    }
    // git puts its own programs before the PATH.
    let path = variables.get_mut("PATH").expect("a PATH");
    if let Some((_, rest)) = path.split_once("git-core:") {
        *path = rest.to_owned();
    }
    variables
}

#[tokio::test]
async fn a_hook_finds_what_it_finds_in_a_command() {
    let bench = Bench::new();
    let write_to = |file: &str| {
        let path = bench.outside.path().join(file);
        bench.hook("pre-commit", &format!("env -0 > '{}'", path.display()));
    };
    write_to("by-command");
    let command = "echo 1 > repo/a.txt; git -C repo add a.txt; git -C repo commit -qm one";
    bench.answer("Bash", json!({"command": command})).await;
    write_to("by-tool");
    bench.write("a.txt", "2");
    let args = json!({"path": "repo", "message": "two", "all": true});
    bench.answer("GitCommit", args).await;
    let by_command = written(&bench, "by-command");
    let by_tool = written(&bench, "by-tool");
    assert_eq!(by_tool, by_command);
    for (name, value) in [
        ("SHELL", "/opt/shell"),
        ("USER", "ada"),
        ("TZ", "Europe/Berlin"),
        ("GIT_SSL_CAINFO", "/opt/company's.pem"),
    ] {
        assert_eq!(by_tool.get(name).map(String::as_str), Some(value), "{name}");
    }
}

#[tokio::test]
async fn git_stays_restricted_where_its_hooks_are_not() {
    let bench = Bench::new();
    let (program, mark) = bench.payload();
    bench.git(&["config", "core.fsmonitor", &program]);
    bench.git(&["config", "core.editor", "nano"]);
    bench.git(&["status"]);
    fs::remove_file(&mark).expect("the trap works");
    bench.hook(
        "commit-msg",
        "echo \"$0 $(git config core.editor) $(git config core.hooksPath || echo none) $(cat \"$1\")\"",
    );
    bench.write("a.txt", "2");
    let args = json!({"path": "repo", "message": "two", "all": true});
    let answer = bench.answer("GitCommit", args).await;
    let hook = bench.repo().join(".git/hooks/commit-msg");
    let printed = format!("{} nano none two", hook.display());
    assert_ends_with!(answer, &printed);
    assert!(!mark.exists(), "{answer}");
}
