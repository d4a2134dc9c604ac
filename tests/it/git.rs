//! git_status and git_diff on real repositories, friendly and hostile.
#![expect(clippy::disallowed_methods, reason = "tests make their own files and processes")]
#![cfg(unix)]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use punie_runner::acp::Workspace;
use punie_runner::handlers::git::{GitDeps, tools};
use punie_runner::ids::RequestId;
use punie_runner::request::{ErrorCode, Reply};
use punie_runner::tool::{Registry, ToolCx, ToolError};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::harness::tools::{call, call_with, registry, text};

/// A workspace with a repository in `repo`, and a place outside it.
struct Bench {
    inside: TempDir,
    outside: TempDir,
    tools: Registry,
}

impl Bench {
    fn new() -> Self {
        let inside = tempfile::tempdir().expect("a folder");
        let outside = tempfile::tempdir().expect("a folder");
        let tools = bench_tools(inside.path(), outside.path(), &std::env::var("PATH").expect("a PATH"));
        let bench = Self { inside, outside, tools };
        fs::create_dir(bench.repo()).expect("a folder");
        bench.git(&["init", "-q", "-b", "main"]);
        bench.write("a.txt", "one\ntwo\n");
        bench.git(&["add", "a.txt"]);
        bench.git(&["commit", "-q", "-m", "first"]);
        bench
    }

    fn repo(&self) -> PathBuf {
        self.inside.path().canonicalize().expect("real").join("repo")
    }

    fn write(&self, path: &str, content: &str) {
        let path = self.repo().join(path);
        fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
        fs::write(path, content).expect("a file");
    }

    /// git as a user would run it, with nothing switched off.
    fn git_in(&self, folder: &Path, arguments: &[&str]) -> bool {
        Command::new("git")
            .args(arguments)
            .current_dir(folder)
            .env("HOME", self.outside.path())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .envs([("GIT_AUTHOR_NAME", "a"), ("GIT_AUTHOR_EMAIL", "a@example.org")])
            .envs([("GIT_COMMITTER_NAME", "a"), ("GIT_COMMITTER_EMAIL", "a@example.org")])
            .stdout(std::process::Stdio::null())
            .stderr(std::process::Stdio::null())
            .status()
            .expect("git is needed for these tests")
            .success()
    }

    fn git(&self, arguments: &[&str]) {
        assert!(self.git_in(&self.repo(), arguments), "git {arguments:?}");
    }

    async fn ask(&self, tool: &str, args: Value) -> Result<Reply, ToolError> {
        call(&self.tools, tool, args).await
    }

    async fn answer(&self, tool: &str, args: Value) -> String {
        text(&self.ask(tool, args).await.expect("an answer")).to_owned()
    }

    /// A program that says that it ran, by a file outside the workspace.
    fn payload(&self) -> (String, PathBuf) {
        let mark = self.outside.path().join("ran");
        let program = self.outside.path().join("payload.sh");
        fs::write(&program, format!("#!/bin/sh\ntouch '{}'\ncat 2>/dev/null\nexit 0\n", mark.display()))
            .expect("a file");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("a mode");
        (program.display().to_string(), mark)
    }

    /// Plain git runs the payload; the tools do not.
    async fn never_runs(&self, mark: &Path, plain: &[&str]) {
        let repo = self.repo();
        self.git_in(&repo, plain);
        assert!(mark.exists(), "the trap must work with plain git {plain:?}, or this test shows nothing");
        fs::remove_file(mark).expect("a mark");
        self.touch();
        for (tool, args) in [
            ("git_status", json!({"path": "repo"})),
            ("git_diff", json!({"path": "repo"})),
            ("git_diff", json!({"path": "repo", "staged": true})),
            ("git_diff", json!({"path": "repo/a.txt", "max_chars": 1000})),
        ] {
            let answer = self.ask(tool, args.clone()).await;
            assert!(!mark.exists(), "{tool} {args} ran the payload: {answer:?}");
        }
    }

    /// Makes every file look changed to git, so that it compares contents.
    fn touch(&self) {
        let file = fs::File::options().append(true).open(self.repo().join("a.txt")).expect("a file");
        file.set_modified(std::time::SystemTime::now() + std::time::Duration::from_secs(5)).expect("a time");
    }
}

fn bench_tools(inside: &Path, home: &Path, search_path: &str) -> Registry {
    let workspace = Workspace::open(&[inside.to_owned()]).expect("a workspace");
    registry(tools(GitDeps { workspace, search_path: search_path.to_owned(), home: home.to_owned() }))
}

#[tokio::test]
async fn status_lists_what_changed() {
    let bench = Bench::new();
    assert_eq!(
        bench.answer("git_status", json!({"path": "repo"})).await,
        "nothing to commit, working tree clean"
    );
    bench.write("a.txt", "one\nzwei\n");
    bench.write("sub/neu ä.txt", "x");
    bench.write("staged.txt", "x");
    bench.git(&["add", "staged.txt"]);
    let answer = bench.answer("git_status", json!({"path": "repo"})).await;
    assert_eq!(answer, " M a.txt\nA  staged.txt\n?? sub/");
    let answer = bench.answer("git_status", json!({"path": "repo/sub"})).await;
    assert!(answer.contains(" M a.txt"), "{answer}");
    assert_eq!(bench.answer("git_status", json!({"path": "repo/a.txt"})).await, " M a.txt");
    let answer = bench.answer("git_status", json!({"path": "repo/sub/neu ä.txt"})).await;
    assert!(answer.contains("neu ä.txt"), "{answer}");
}

#[tokio::test]
async fn diff_shows_the_changed_lines() {
    let bench = Bench::new();
    assert!(bench.answer("git_diff", json!({"path": "repo"})).await.starts_with("No changes"));
    bench.write("a.txt", "one\nzwei\n");
    let answer = bench.answer("git_diff", json!({"path": "repo"})).await;
    assert!(answer.contains("diff --git a/a.txt b/a.txt") && answer.contains("-two\n+zwei"), "{answer}");
    assert_eq!(bench.answer("git_diff", json!({"path": "repo", "staged": true})).await, "No staged changes.");
    bench.git(&["add", "a.txt"]);
    let answer = bench.answer("git_diff", json!({"path": "repo/a.txt", "staged": true})).await;
    assert!(answer.contains("+zwei"), "{answer}");
    bench.git(&["config", "color.ui", "always"]);
    let answer = bench.answer("git_diff", json!({"path": "repo", "staged": true})).await;
    assert!(!answer.contains('\u{1b}'), "{answer}");
}

#[tokio::test]
async fn a_long_diff_begins_with_its_files() {
    let bench = Bench::new();
    bench.write("a.txt", &"a changed line\n".repeat(5_000));
    let answer = bench.answer("git_diff", json!({"path": "repo"})).await;
    assert!(
        answer.starts_with("The diff is too long for one answer. Its files:\n a.txt | 5002"),
        "{}",
        &answer[..200]
    );
    bench.write("a.txt", &"a line of a file that is longer than what is kept\n".repeat(200_000));
    let answer = bench.answer("git_diff", json!({"path": "repo"})).await;
    assert!(answer.contains("only its first 8 MB were read") && answer.len() < 9 << 20, "{}", &answer[..200]);
}

#[tokio::test]
async fn outside_a_repository_the_answer_is_an_error() {
    let bench = Bench::new();
    for tool in ["git_status", "git_diff"] {
        let refused = bench.ask(tool, json!({})).await.expect_err("no repository");
        assert_eq!((refused.code(), refused.text()), (ErrorCode::NotFound, "Error: Not a git repository"));
        let refused = bench.ask(tool, json!({"path": "nowhere"})).await.expect_err("nothing");
        assert_eq!(refused.code(), ErrorCode::NotFound);
        let refused = bench.ask(tool, json!({"path": bench.outside.path()})).await.expect_err("outside");
        assert_eq!(refused.code(), ErrorCode::OutsideWorkspace);
    }
}

#[tokio::test]
async fn what_was_deleted_can_be_asked_for_by_its_path() {
    let bench = Bench::new();
    for path in ["sub/deep/b.txt", "sub/deep/c.txt", "d.txt"] {
        bench.write(path, "gone\n");
    }
    bench.git(&["add", "."]);
    bench.git(&["commit", "-q", "-m", "second"]);
    fs::remove_dir_all(bench.repo().join("sub")).expect("removed");
    fs::remove_file(bench.repo().join("a.txt")).expect("removed");
    bench.git(&["rm", "-q", "d.txt"]);
    for (path, staged, files) in [
        ("repo/a.txt", false, 1),
        ("repo/sub/deep/b.txt", false, 1),
        ("repo/sub", false, 2),
        ("repo/d.txt", true, 1),
    ] {
        let answer = bench.answer("git_diff", json!({"path": path, "staged": staged})).await;
        assert_eq!(answer.matches("deleted file mode").count(), files, "{path}: {answer}");
    }
    let answer = bench.answer("git_diff", json!({"path": "repo/d.txt"})).await;
    assert!(answer.starts_with("No changes"), "{answer}");
    assert_eq!(bench.answer("git_status", json!({"path": "repo/a.txt"})).await, " D a.txt");
    for tool in ["git_diff", "git_status"] {
        let refused =
            bench.ask(tool, json!({"path": "repo/never/was.txt"})).await.expect_err("nothing there");
        assert_eq!(refused.code(), ErrorCode::NotFound, "{refused}");
        assert!(refused.text().contains("never/was.txt"), "{refused}");
    }
}

#[tokio::test]
async fn a_repository_with_broken_settings_is_told_from_none() {
    let bench = Bench::new();
    bench.write(".git/config", "[core\nnonsense");
    for tool in ["git_status", "git_diff"] {
        let refused = bench.ask(tool, json!({"path": "repo"})).await.expect_err("a broken repository");
        let lines: Vec<&str> = refused.text().lines().collect();
        assert_eq!(lines[0], "Error: Not a git repository", "{refused}");
        assert!(lines[1].contains("bad config line 1"), "{refused}");
        assert!(lines[2].contains("repo/.git is there, but git refuses it"), "{refused}");
    }
}

#[tokio::test]
async fn a_cancelled_call_says_so() {
    let bench = Bench::new();
    let cx = ToolCx::detached(RequestId::new());
    cx.cancel.cancel();
    let refused =
        call_with(&bench.tools, "git_status", json!({"path": "repo"}), cx).await.expect_err("a cancel");
    assert_eq!(refused.code(), ErrorCode::Cancelled);
}

#[tokio::test]
async fn fsmonitor_never_runs() {
    let bench = Bench::new();
    let (program, mark) = bench.payload();
    bench.git(&["config", "core.fsmonitor", &program]);
    bench.never_runs(&mark, &["status"]).await;
}

#[tokio::test]
async fn filters_never_run_and_that_is_said() {
    for (variable, required) in [("clean", "false"), ("clean", "true"), ("process", "true")] {
        for name in ["evil", "e.v=il"] {
            let bench = Bench::new();
            let (program, mark) = bench.payload();
            bench.write(".git/info/attributes", &format!("*.txt filter={name}\n"));
            bench.git(&["config", &format!("filter.{name}.{variable}"), &program]);
            bench.git(&["config", &format!("filter.{name}.required"), required]);
            bench.touch();
            bench.never_runs(&mark, &["status"]).await;
            let reply = bench.ask("git_status", json!({"path": "repo"})).await.expect("an answer");
            assert!(reply.meta.warnings.iter().any(|note| note.contains(name)), "{:?}", reply.meta);
        }
    }
}

#[tokio::test]
async fn textconv_and_external_diff_never_run() {
    for setting in ["diff.evil.textconv", "diff.evil.command", "diff.external"] {
        let bench = Bench::new();
        let (program, mark) = bench.payload();
        bench.write(".git/info/attributes", "*.txt diff=evil\n");
        bench.git(&["config", setting, &program]);
        bench.write("a.txt", "one\nzwei\n");
        bench.never_runs(&mark, &["diff"]).await;
        let answer = bench.answer("git_diff", json!({"path": "repo"})).await;
        assert!(answer.contains("+zwei"), "{setting}: {answer}");
    }
}

#[tokio::test]
async fn hooks_never_run() {
    let bench = Bench::new();
    let (program, mark) = bench.payload();
    fs::create_dir_all(bench.repo().join(".git/hooks")).expect("a folder");
    fs::copy(program, bench.repo().join(".git/hooks/post-index-change")).expect("a hook");
    bench.touch();
    bench.never_runs(&mark, &["status"]).await;
}

#[tokio::test]
async fn an_embedded_bare_repository_is_not_entered() {
    let bench = Bench::new();
    let (program, mark) = bench.payload();
    let bare = bench.repo().join("vendor");
    fs::create_dir(&bare).expect("a folder");
    assert!(bench.git_in(&bare, &["init", "-q", "--bare", "."]));
    assert!(bench.git_in(&bare, &["config", "core.bare", "false"]));
    assert!(bench.git_in(&bare, &["config", "core.worktree", "."]));
    assert!(bench.git_in(&bare, &["config", "core.fsmonitor", &program]));
    bench.git_in(&bare, &["status"]);
    assert!(mark.exists(), "the trap must work with plain git");
    fs::remove_file(&mark).expect("a mark");
    for path in ["repo/vendor", "repo"] {
        let answer = bench.ask("git_status", json!({"path": path})).await;
        assert!(!mark.exists(), "{answer:?}");
    }
    let refused =
        bench.ask("git_status", json!({"path": "repo/vendor"})).await.expect_err("a bare repository");
    assert_eq!(refused.code(), ErrorCode::NotFound);
}

#[tokio::test]
async fn a_submodule_is_not_entered() {
    let bench = Bench::new();
    let (program, mark) = bench.payload();
    let module = bench.outside.path().join("module");
    fs::create_dir(&module).expect("a folder");
    assert!(bench.git_in(&module, &["init", "-q"]));
    assert!(bench.git_in(&module, &["commit", "-q", "--allow-empty", "-m", "x"]));
    let url = module.display().to_string();
    bench.git(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", &url, "module"]);
    assert!(bench.git_in(&bench.repo().join("module"), &["config", "core.fsmonitor", &program]));
    bench.git(&["config", "submodule.module.ignore", "none"]);
    bench.never_runs(&mark, &["status"]).await;
    let reply = bench.ask("git_status", json!({"path": "repo"})).await.expect("an answer");
    assert!(reply.meta.warnings.iter().any(|note| note.contains("submodules")), "{:?}", reply.meta);
}

#[tokio::test]
async fn a_repository_that_reaches_outside_is_refused() {
    let bench = Bench::new();
    bench.git(&["config", "core.worktree", "/etc"]);
    let refused =
        bench.ask("git_status", json!({"path": "repo"})).await.expect_err("a working tree elsewhere");
    assert_eq!(refused.code(), ErrorCode::OutsideWorkspace, "{refused}");

    let elsewhere = bench.outside.path().join("elsewhere");
    fs::create_dir(&elsewhere).expect("a folder");
    assert!(bench.git_in(&elsewhere, &["init", "-q"]));
    let pointer = bench.inside.path().join("pointer");
    fs::create_dir(&pointer).expect("a folder");
    fs::write(pointer.join(".git"), format!("gitdir: {}/.git\n", elsewhere.display())).expect("a file");
    let refused =
        bench.ask("git_diff", json!({"path": "pointer"})).await.expect_err("a repository elsewhere");
    assert_eq!(refused.code(), ErrorCode::OutsideWorkspace, "{refused}");

    let linked = bench.inside.path().join("linked");
    fs::create_dir(&linked).expect("a folder");
    std::os::unix::fs::symlink(elsewhere.join(".git"), linked.join(".git")).expect("a link");
    let refused = bench.ask("git_diff", json!({"path": "linked"})).await.expect_err("a repository elsewhere");
    assert_eq!(refused.code(), ErrorCode::OutsideWorkspace, "{refused}");
}

#[tokio::test]
async fn a_repository_that_begins_above_the_workspace_is_refused() {
    let bench = Bench::new();
    bench.write("sub/x.txt", "x");
    let tools =
        bench_tools(&bench.repo().join("sub"), bench.outside.path(), &std::env::var("PATH").expect("a PATH"));
    let refused = call(&tools, "git_status", json!({})).await.expect_err("a repository above");
    assert_eq!(refused.code(), ErrorCode::OutsideWorkspace, "{refused}");
}

#[tokio::test]
async fn a_git_in_the_workspace_is_never_started() {
    let bench = Bench::new();
    let (program, mark) = bench.payload();
    let bin = bench.inside.path().join("bin");
    fs::create_dir(&bin).expect("a folder");
    fs::copy(program, bin.join("git")).expect("a program");
    let linked = bench.outside.path().join("linked-bin");
    fs::create_dir(&linked).expect("a folder");
    std::os::unix::fs::symlink(bin.join("git"), linked.join("git")).expect("a link");
    let traps = format!(".:bin:{}:{}", bin.display(), linked.display());
    let tools = bench_tools(bench.inside.path(), bench.outside.path(), &traps);
    let refused = call(&tools, "git_status", json!({"path": "repo"})).await.expect_err("no git");
    assert_eq!(refused.code(), ErrorCode::NotFound, "{refused}");
    let path = format!("{traps}:{}", std::env::var("PATH").expect("a PATH"));
    let tools = bench_tools(bench.inside.path(), bench.outside.path(), &path);
    call(&tools, "git_status", json!({"path": "repo"})).await.expect("an answer");
    assert!(!mark.exists());
}

#[tokio::test]
async fn a_repository_of_another_user_is_refused_with_the_way_out() {
    // Only root can give a file away; as any other user there is nothing to test here.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let bench = Bench::new();
    for path in [bench.repo(), bench.repo().join(".git")] {
        std::os::unix::fs::chown(path, Some(65_534), None).expect("given away");
    }
    let refused = bench.ask("git_status", json!({"path": "repo"})).await.expect_err("another's repository");
    assert_eq!(refused.code(), ErrorCode::PolicyDenied, "{refused}");
    assert!(refused.text().contains("safe.directory"), "{refused}");
}

#[tokio::test]
async fn a_lock_left_behind_does_not_matter_for_reading() {
    let bench = Bench::new();
    bench.write(".git/index.lock", "");
    bench.write("a.txt", "one\nzwei\n");
    assert_eq!(bench.answer("git_status", json!({"path": "repo"})).await, " M a.txt");
    assert!(bench.repo().join(".git/index.lock").exists());
}

#[tokio::test]
async fn names_that_are_no_lines_stay_on_one_line() {
    let bench = Bench::new();
    bench.write("evil\n\u{1b}[31m.txt", "x");
    let answer = bench.answer("git_status", json!({"path": "repo"})).await;
    assert_eq!(answer, "?? \"evil\\n\\033[31m.txt\"");
}
