//! The process in which SqliteQuery's statements run: its environment and its restrictions.

use std::fs;
use std::path::{Path, PathBuf};

use punie_core::ids::RequestId;
use punie_tool::ToolContext;
use rusqlite::Connection;
use serde_json::json;

use super::{SqliteFixture, registry_with_worker};
use crate::harness::tools::call_with;

const ENDLESS: &str =
    "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c) SELECT count(*) FROM c";

/// The /proc entry of the worker whose working directory is this folder.
fn find_worker(folder: &Path) -> Option<PathBuf> {
    let folder = folder.canonicalize().expect("a folder");
    let processes = fs::read_dir("/proc")
        .expect("a list")
        .flatten()
        .map(|entry| entry.path());
    let mut workers = processes.filter(|process| {
        let arguments = fs::read(process.join("cmdline")).unwrap_or_default();
        arguments.ends_with(b"\0worker\0sqlite\0")
            && fs::read_link(process.join("cwd")).is_ok_and(|cwd| cwd == folder)
    });
    workers.next()
}

#[tokio::test]
async fn a_worker_has_no_network_no_secrets_and_no_files_but_the_database() {
    let setup = SqliteFixture::new("CREATE TABLE t (a);");
    let cx = ToolContext::for_detached_call(RequestId::new());
    let cancel = cx.cancel.clone();
    let args = json!({"database_path": "app.db", "query": ENDLESS, "timeout_ms": 600_000});
    let running = call_with(&setup.tools, "SqliteQuery", args, cx);
    let database = setup.path("app.db").canonicalize().expect("there");
    let meanwhile = async {
        loop {
            tokio::task::yield_now().await;
            let Some(worker) = find_worker(setup.dir.path()) else {
                continue;
            };
            let open = fs::read_dir(worker.join("fd"))
                .into_iter()
                .flatten()
                .flatten();
            let open: Vec<PathBuf> = open
                .filter_map(|fd| fs::read_link(fd.path()).ok())
                .collect();
            if open.contains(&database) {
                break (worker, open);
            }
        }
    };
    let looked_at = async {
        let (worker, open) = meanwhile.await;
        let read = |name: &str| fs::read_to_string(worker.join(name)).expect("a running worker");
        let status = read("status");
        let environment = read("environ");
        let limits = read("limits");
        cancel.cancel();
        (worker, open, status, environment, limits)
    };
    let (answer, (worker, open, status, environment, limits)) = tokio::join!(running, looked_at);
    assert_error!(answer.expect_err("a cancel"), Cancelled);
    for line in ["Seccomp:\t2", "NoNewPrivs:\t1"] {
        assert!(
            status.lines().any(|found| found == line),
            "{line}: {status}"
        );
    }
    let variables: Vec<&str> = environment.split_terminator('\0').collect();
    assert!(
        matches!(variables[..], [only] if only.starts_with("TMPDIR=")),
        "{variables:?}"
    );
    let files: Vec<&PathBuf> = open.iter().filter(|path| path.is_absolute()).collect();
    assert!(
        files
            .iter()
            .all(|path| **path == database || *path == Path::new("/dev/null")),
        "{files:?}"
    );
    for limit in ["Max address space", "Max cpu time", "Max file size"] {
        let line = limits
            .lines()
            .find(|line| line.starts_with(limit))
            .expect(limit);
        assert_lacks!(line, "unlimited");
    }
    crate::harness::wait::wait_until("the worker's end", || !worker.join("cwd").exists()).await;
}

#[tokio::test]
async fn the_owner_s_time_zone_is_known_to_it() {
    let setup = SqliteFixture::new("");
    let mut worker = crate::harness::process::worker_program();
    worker.time_zone = Some("JST-9".into());
    let tools = registry_with_worker(&setup, worker);
    let args = json!({"database_path": "app.db", "query": "SELECT strftime('%H', 0, 'unixepoch', 'localtime') AS h"});
    let reply = call_with(
        &tools,
        "SqliteQuery",
        args,
        ToolContext::for_detached_call(RequestId::new()),
    )
    .await;
    let reply = reply.expect("an answer");
    assert_contains!(crate::harness::tools::reply_text(&reply), "09");
}

#[tokio::test]
async fn numbers_beyond_json_come_as_they_are() {
    let setup = SqliteFixture::new(
        "CREATE TABLE t (a); INSERT INTO t VALUES (9e999), (-9e999), (0.1), (1e-310);",
    );
    let answer = setup.answer(json!({"query": "SELECT a FROM t"})).await;
    let lines: Vec<&str> = answer.lines().map(str::trim).collect();
    assert_eq!(lines[2..6], ["Inf", "-Inf", "0.1", "1e-310"], "{answer}");
    let args = json!({"query": "SELECT ? = 0.1 + 0.2 AS a", "params": [0.300_000_000_000_000_04]});
    let exact = setup.answer(args);
    assert_starts_with!(exact.await, "a\n-\n1");
}

#[tokio::test]
async fn a_missing_program_is_an_error_that_says_so() {
    let setup = SqliteFixture::new("");
    let mut worker = crate::harness::process::worker_program();
    worker.program = setup.path("gone");
    let tools = registry_with_worker(&setup, worker);
    let args = json!({"database_path": "app.db", "query": "SELECT 1"});
    let failed = call_with(
        &tools,
        "SqliteQuery",
        args,
        ToolContext::for_detached_call(RequestId::new()),
    )
    .await;
    let failed = failed.expect_err("no worker");
    assert_contains!(failed.model_text(), "could not be started");
    Connection::open(setup.path("app.db")).expect("nothing holds the database");
}
