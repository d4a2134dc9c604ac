//! GitCommit.

use std::fs;

use punie_tool::request::ErrorCode;
use serde_json::json;

use super::bench::{Bench, bench_tools, system_path};
use crate::harness::tools::{call_tool, reply_text};

#[tokio::test]
async fn what_is_staged_is_committed_and_told() {
    let bench = Bench::new();
    bench.write("a.txt", "one\nzwei\n");
    bench.git(&["add", "a.txt"]);
    bench.write("b.txt", "left");
    let message = "Says it in German\n\n# not a comment\nBecause.";
    let answer = bench
        .answer("GitCommit", json!({"path": "repo", "message": message}))
        .await;
    let id = bench.told(&["rev-parse", "HEAD"]);
    assert_eq!(
        answer,
        format!(
            "Committed {} on main: Says it in German\n1 file changed, +1 -1\nM  +1 -1  a.txt\nLeft: 1 untracked.",
            &id[..10]
        )
    );
    assert_eq!(bench.told(&["log", "-1", "--format=%B"]), message);
    assert_eq!(
        bench.told(&["log", "-1", "--format=%an <%ae>"]),
        "Ada <ada@example.org>"
    );
}

#[tokio::test]
async fn paths_are_staged_and_committed_alone() {
    let bench = Bench::new();
    bench.write("staged.txt", "s");
    bench.git(&["add", "staged.txt"]);
    bench.write("sub/new.txt", "n");
    bench.write("a.txt", "one\nzwei\n");
    for hooks in [false, true] {
        if hooks {
            bench.hook("pre-commit", "exit 0");
            bench.write("sub/[n]*.txt", "n");
        }
        let args = json!({"paths": ["repo/sub"], "message": "only sub"});
        let answer = bench.answer("GitCommit", args).await;
        assert_contains!(
            answer,
            "1 file changed",
            "1 staged, 1 changed but not staged"
        );
    }
    assert_eq!(
        bench.told(&["show", "--format=", "--name-only", "HEAD"]),
        "sub/[n]*.txt"
    );
    assert_eq!(
        bench.told(&["show", "--format=", "--name-only", "HEAD~1"]),
        "sub/new.txt"
    );
    assert_eq!(
        bench.told(&["diff", "--cached", "--name-only"]),
        "staged.txt"
    );
}

#[tokio::test]
async fn all_takes_what_git_knows_and_amend_replaces() {
    let bench = Bench::new();
    bench.write("a.txt", "one\nzwei\n");
    bench.write("new.txt", "n");
    let args = json!({"path": "repo", "message": "two", "all": true});
    let answer = bench.answer("GitCommit", args).await;
    assert_contains!(answer, "M  +1 -1  a.txt\nLeft: 1 untracked.");
    let args = json!({"path": "repo", "message": "zwei", "amend": true});
    let answer = bench.answer("GitCommit", args).await;
    assert_starts_with!(answer, "Replaced the last commit by ");
    assert_contains!(answer, "on main: zwei");
    assert_eq!(bench.told(&["log", "--format=%s"]), "zwei\nfirst");
}

#[tokio::test]
async fn nothing_to_commit_is_said_with_the_state() {
    let bench = Bench::new();
    bench.write("a.txt", "one\nzwei\n");
    let args = json!({"path": "repo", "message": "x"});
    let text = bench
        .refused_as("GitCommit", args, ErrorCode::NoMatch)
        .await;
    assert_starts_with!(
        text,
        "Nothing to commit: nothing is staged. Nothing was committed.\nOn branch main at "
    );
    assert_contains!(text, "1 changed but not staged.");
    bench.write("b.txt", "b");
    bench.git(&["add", "b.txt"]);
    bench.git(&["checkout", "a.txt"]);
    let args = json!({"paths": ["repo/a.txt"], "message": "x"});
    let text = bench
        .refused_as("GitCommit", args, ErrorCode::NoMatch)
        .await;
    assert_contains!(text, "nothing below these paths is changed");
    assert_eq!(bench.told(&["log", "--format=%s"]), "first");
}

#[tokio::test]
async fn hooks_run_and_their_output_is_kept() {
    let bench = Bench::new();
    bench.hook("pre-commit", "echo \"$(printf '\\033[32m')checked$(printf '\\033[0m') $(git diff --cached --name-only -- '*.txt')\"");
    bench.hook(
        "commit-msg",
        "grep -q '^[A-Z]' \"$1\" || { echo 'begin with a capital' >&2; exit 3; }",
    );
    bench.write("a.txt", "one\nzwei\n");
    let args = json!({"paths": ["repo/a.txt"], "message": "small"});
    let text = bench.refused_as("GitCommit", args, ErrorCode::Io).await;
    assert_contains!(
        text,
        "Nothing was committed",
        "pre-commit, commit-msg",
        "checked a.txt",
        "begin with a capital",
        "stays staged"
    );
    assert_eq!(bench.told(&["log", "--format=%s"]), "first");
    let answer = bench
        .answer("GitCommit", json!({"path": "repo", "message": "Large"}))
        .await;
    assert_ends_with!(answer, "The hooks printed:\nchecked a.txt");
    assert_eq!(bench.told(&["log", "--format=%s"]), "Large\nfirst");
}

#[tokio::test]
async fn a_program_that_a_hook_leaves_running_does_not_hold_the_answer() {
    let bench = Bench::new();
    let pid = bench.outside.path().join("pid");
    bench.hook(
        "post-commit",
        &format!("echo started\nsleep 600 &\necho $! > '{}'", pid.display()),
    );
    bench.write("a.txt", "x\n");
    let args = json!({"paths": ["repo/a.txt"], "message": "x"});
    let reply = bench.ask("GitCommit", args).await.expect("a commit");
    assert!(
        reply
            .meta
            .warnings
            .iter()
            .any(|note| note.contains("a hook left running: ") && note.contains("sleep 600")),
        "{:?}",
        reply.meta
    );
    let pid = fs::read_to_string(pid).expect("a pid");
    let pid = rustix::process::Pid::from_raw(pid.trim().parse().expect("a number")).expect("a pid");
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it was still there");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_hook_has_no_terminal_of_the_runners_and_the_mark_of_its_call() {
    let bench = Bench::new();
    bench.hook(
        "pre-commit",
        "read -r _ _ _ _ _ session _ < /proc/$$/stat; echo session $session; grep 'file locks' /proc/self/limits\n\
         (setsid env -i sh -c 'exec 0<&- 1>&- 2>&-; (setsid sleep 601 &)')",
    );
    bench.write("a.txt", "x\n");
    let args = json!({"paths": ["repo/a.txt"], "message": "x"});
    let reply = bench.ask("GitCommit", args).await.expect("a commit");
    let said = reply_text(&reply);
    let session = said
        .lines()
        .find_map(|line| line.strip_prefix("session ")?.trim().parse::<i32>().ok());
    // A session that is not the runner's has none of its terminals. Ours is 0 where who leads it is in another
    // namespace of processes, as in a container that a command was sent into.
    let stat = fs::read_to_string("/proc/self/stat").expect("told");
    let after_name = stat.rsplit(')').next().expect("fields");
    let ours = after_name
        .split_ascii_whitespace()
        .nth(3)
        .and_then(|field| field.parse().ok());
    assert!(
        session.is_some_and(|session| session > 0) && session != ours,
        "{said}"
    );
    let limit = said
        .lines()
        .find(|line| line.contains("file locks"))
        .expect("it is told");
    assert_lacks!(limit, "unlimited"; "{said}");
    // What shed everything else is found by that mark, and told.
    let warnings = reply.meta.warnings.join("; ");
    let left = warnings
        .split("sleep 601 (pid ")
        .nth(1)
        .and_then(|rest| rest.split(')').next());
    let pid = left.and_then(|pid| rustix::process::Pid::from_raw(pid.parse().ok()?));
    rustix::process::kill_process(pid.expect(&warnings), rustix::process::Signal::KILL)
        .expect("it runs");
}

#[tokio::test]
async fn a_merge_is_concluded_once_its_conflicts_are_staged() {
    let bench = Bench::new();
    bench.git(&["checkout", "-q", "-b", "other"]);
    bench.write("a.txt", "one\nother\n");
    bench.write("b.txt", "b");
    bench.commit_all("other");
    bench.git(&["checkout", "-q", "main"]);
    bench.write("a.txt", "one\nours\n");
    bench.commit_all("ours");
    assert!(!bench.git_in(&bench.repo(), &["merge", "other"]));
    let args = json!({"path": "repo", "message": "x", "all": true});
    let text = bench
        .refused_as("GitCommit", args, ErrorCode::InvalidArgs)
        .await;
    assert_contains!(text, "a file is in conflict: a.txt");
    bench.write("a.txt", "one\nboth\n");
    let args = json!({"paths": ["repo/a.txt"], "message": "x"});
    let text = bench
        .refused_as("GitCommit", args, ErrorCode::InvalidArgs)
        .await;
    assert_contains!(text, "leave out `paths`");
    let answer = bench
        .answer("GitCommit", json!({"path": "repo", "message": "Both"}))
        .await;
    assert_starts_with!(answer, "Committed ");
    assert_lacks!(answer, "in progress");
    assert_eq!(
        bench
            .told(&["rev-list", "--parents", "-1", "HEAD"])
            .split(' ')
            .count(),
        3
    );
}

#[tokio::test]
async fn without_an_identity_the_setting_is_named() {
    let bench = Bench::new();
    bench.git(&["config", "--unset", "user.email"]);
    bench.write("a.txt", "x\n");
    bench.git(&["add", "a.txt"]);
    let args = json!({"path": "repo", "message": "x"});
    let text = bench
        .refused_as("GitCommit", args, ErrorCode::NotFound)
        .await;
    assert_contains!(text, "git config --global user.name", "user.email");
    // The user's own settings are read.
    fs::write(
        bench.outside.path().join(".gitconfig"),
        "[user]\nemail = own@example.org\n",
    )
    .expect("a file");
    bench
        .answer("GitCommit", json!({"path": "repo", "message": "x"}))
        .await;
    assert_eq!(
        bench.told(&["log", "-1", "--format=%ae"]),
        "own@example.org"
    );
}

#[tokio::test]
async fn secrets_in_paths_end_the_call_before_anything_changes() {
    let bench = Bench::new();
    bench.write(".env", "x");
    bench.write("a.txt", "x\n");
    for args in [
        json!({"paths": ["repo"], "message": "x"}),
        json!({"paths": ["repo/a.txt", "repo/.env"], "message": "x"}),
    ] {
        let text = bench
            .refused_as("GitCommit", args, ErrorCode::PolicyDenied)
            .await;
        assert_starts_with!(text, "Nothing was committed, and nothing staged.");
        assert_contains!(text, ".env");
    }
    assert_eq!(bench.told(&["diff", "--cached", "--name-only"]), "");
    bench
        .answer(
            "GitCommit",
            json!({"path": "repo", "message": "x", "all": true}),
        )
        .await;
}

#[tokio::test]
async fn amending_what_is_published_and_leaving_out_a_signature_are_said() {
    let bench = Bench::new();
    bench.git(&["branch", "up"]);
    bench.git(&["branch", "--set-upstream-to=up"]);
    bench.git(&["config", "commit.gpgSign", "true"]);
    let args = json!({"path": "repo", "message": "x", "amend": true});
    let reply = bench.ask("GitCommit", args).await.expect("a commit");
    let published = |note: &String| note.contains("on the upstream branch already");
    assert!(
        reply.meta.warnings.iter().any(published),
        "{:?}",
        reply.meta
    );
    let answer = reply_text(&reply);
    assert_contains!(answer, "\nNot signed, although");
    bench.git(&["config", "commit.gpgSign", "false"]);
    let args = json!({"path": "repo", "message": "y", "amend": true});
    let answer = bench.answer("GitCommit", args).await;
    assert_lacks!(answer, "signed");
}

#[tokio::test]
async fn a_first_commit_is_made() {
    let bench = Bench::new();
    let fresh = bench.inside.path().join("fresh");
    fs::create_dir(&fresh).expect("a folder");
    assert!(bench.git_in(&fresh, &["init", "-q", "-b", "trunk"]));
    assert!(bench.git_in(&fresh, &["config", "user.name", "Ada"]));
    assert!(bench.git_in(&fresh, &["config", "user.email", "ada@example.org"]));
    fs::write(fresh.join("x.txt"), "x\n").expect("a file");
    let args = json!({"path": "fresh", "message": "x", "amend": true});
    bench
        .refused_as("GitCommit", args, ErrorCode::InvalidArgs)
        .await;
    let args = json!({"paths": ["fresh"], "message": "Begins"});
    let answer = bench.answer("GitCommit", args).await;
    assert_contains!(answer, "on trunk: Begins\n1 file changed, +1 -0");
}

#[tokio::test]
async fn refusals_and_the_cancel() {
    let bench = Bench::new();
    bench.write("a.txt", "x\n");
    bench.git(&["add", "a.txt"]);
    for args in [
        json!({"path": "repo"}),
        json!({"path": "repo", "message": " \n"}),
        json!({"path": "repo", "message": "a\u{0}b"}),
        json!({"path": "repo", "message": "x".repeat(70_000)}),
        json!({"paths": ["repo"], "message": "x", "all": true}),
        json!({"paths": [], "message": "x"}),
    ] {
        bench
            .refused_as("GitCommit", args, ErrorCode::InvalidArgs)
            .await;
    }
    bench
        .cancelled("GitCommit", json!({"path": "repo", "message": "x"}))
        .await;
    assert_eq!(bench.told(&["log", "--format=%s"]), "first");
    let (tools, _) = bench_tools(&bench.repo(), bench.outside.path(), &system_path());
    call_tool(
        &tools,
        "GitCommit",
        json!({"message": "-F/etc/passwd --amend"}),
    )
    .await
    .expect("a message is a message");
    assert_eq!(
        bench.told(&["log", "--format=%s"]),
        "-F/etc/passwd --amend\nfirst"
    );
}

#[tokio::test]
async fn paths_are_those_of_the_folder_that_path_names() {
    let bench = Bench::new();
    for (name, args) in [
        ("b.txt", json!({"path": "repo", "paths": ["b.txt"]})),
        ("sub/c.txt", json!({"cwd": "repo/sub", "files": ["c.txt"]})),
        ("d.txt", json!({"path": "repo", "paths": ["repo/d.txt"]})),
        ("e.txt", json!({"paths": ["repo/e.txt"]})),
        ("f.txt", json!({"path": "./repo", "paths": ["repo/f.txt"]})),
        ("g.txt", json!({"path": "./repo/", "paths": ["./g.txt"]})),
        ("h.txt", json!({"path": ".", "paths": ["repo/h.txt"]})),
    ] {
        bench.write(name, "new\n");
        bench.write("left.txt", name);
        let mut args = args;
        args["message"] = json!("Adds one");
        bench.answer("GitCommit", args.clone()).await;
        let shown = bench.told(&["show", "--name-only", "--format=", "HEAD"]);
        assert_eq!(shown, name, "{args}");
    }
}
