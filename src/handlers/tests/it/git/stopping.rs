//! A git that is stopped takes with it what it started, and says what became of the repository.

use std::fs;
use std::path::Path;
use std::time::Duration;

use punie_core::ids::RequestId;
use punie_tool::request::ErrorCode;
use punie_tool::{ToolContext, ToolError};
use serde_json::json;

use super::bench::Bench;
use crate::harness::tools::call_with;

/// A commit whose hook tells its process, leaves the group, and never ends; until the call is cancelled or its
/// deadline comes.
async fn stopped_in_hook(bench: &Bench, deadline: Option<Duration>) -> ToolError {
    let pids = bench.outside.path().join("pids");
    let fifo = bench.outside.path().join("fifo");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .expect("a pipe");
    let lines = format!(
        "setsid sh -c 'trap \"\" TERM; while :; do sleep 1000; done' &\necho $$ $! > '{}'\n: > '{}'\nwhile :; do sleep 1000; done",
        pids.display(),
        fifo.display()
    );
    bench.hook("pre-commit", &lines);
    bench.write("a.txt", "one\nzwei\n");
    bench.git(&["add", "a.txt"]);
    let mut cx = ToolContext::for_detached_call(RequestId::new());
    cx.deadline = deadline.map(|after| tokio::time::Instant::now() + after);
    let cancel = cx.cancel.clone();
    let release = fifo.clone();
    let running = async {
        let ended = call_with(
            &bench.tools,
            "GitCommit",
            json!({"path": "repo", "message": "x"}),
            cx,
        )
        .await;
        // Should the hook never have come so far, nobody waits for it.
        let mode = rustix::fs::OFlags::WRONLY | rustix::fs::OFlags::NONBLOCK;
        let _ = rustix::fs::open(&release, mode, rustix::fs::Mode::empty());
        ended
    };
    // Opening the pipe waits until the hook opens its end.
    let hook_runs = tokio::task::spawn_blocking(move || fs::read(fifo).expect("the hook's word"));
    let when_running = async {
        hook_runs.await.expect("a hook");
        if deadline.is_none() {
            cancel.cancel();
        }
    };
    let (ended, ()) = tokio::join!(running, when_running);
    let pids = fs::read_to_string(pids).unwrap_or_default();
    assert!(deadline.is_some() || !pids.is_empty(), "the hook ran");
    for pid in pids.split_whitespace() {
        assert!(!lives(pid), "process {pid} of the hook goes on");
    }
    assert!(
        !bench.repo().join(".git/index.lock").exists(),
        "a lock is left behind"
    );
    assert_eq!(bench.told(&["log", "--format=%s"]), "first");
    ended.expect_err("it was stopped")
}

fn lives(pid: &str) -> bool {
    let stat = fs::read_to_string(Path::new("/proc").join(pid).join("stat")).unwrap_or_default();
    !stat.is_empty() && !stat.contains(") Z ")
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn a_cancelled_commit_leaves_no_process_no_lock_and_no_commit() {
    let bench = Bench::new();
    let refused = stopped_in_hook(&bench, None).await;
    assert_error!(refused, Cancelled);
    assert_eq!(
        refused.model_text(),
        "The commit was cancelled; nothing was committed."
    );
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn a_commit_over_its_time_leaves_no_process_no_lock_and_no_commit() {
    let bench = Bench::new();
    let refused = stopped_in_hook(&bench, Some(Duration::from_secs(4))).await;
    assert_error!(refused, Timeout: "Nothing was committed");
}

#[tokio::test]
async fn h79_another_gits_lock_is_named_and_stays() {
    let bench = Bench::new();
    bench.write(".git/index.lock", "");
    bench.write("a.txt", "one\nzwei\n");
    assert_eq!(
        bench.answer("git_status", json!({"path": "repo"})).await,
        " M a.txt"
    );
    for (tool, args) in cases! {
        ("GitAdd", json!({"paths": ["repo/a.txt"]})),
        ("GitCommit", json!({"paths": ["repo/a.txt"], "message": "x"})),
        ("git_add_commit", json!({"paths": ["repo/a.txt"], "message": "x"})),
    } {
        let text = bench.refused_as(tool, args, ErrorCode::Busy).await;
        assert_contains!(text, "repo/.git/index.lock is there", "was not removed");
    }
    assert!(bench.repo().join(".git/index.lock").exists());
}
