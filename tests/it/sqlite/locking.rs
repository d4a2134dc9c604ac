//! SqliteQuery while other calls and other programs are at the same file: its locks hold until it is done with them.

use std::process::Command;

use punie_runner::acp::Workspace;
use punie_runner::handlers::search::{SearchDeps, tools};
use punie_runner::ids::RequestId;
use punie_runner::request::ErrorCode;
use punie_runner::tool::ToolCx;
use rusqlite::Connection;
use serde_json::json;

use super::Desk;
use crate::harness::tools::{call, call_with, registry, text};
use crate::harness::wait::until;

/// Where the other program finds the database.
const NAMED: &str = "PUNIE_TEST_DATABASE";

/// What another program comes to that writes to the database: a process of its own, since locks are the process's.
fn another_program_writes(desk: &Desk) -> bool {
    let program = Command::new(std::env::current_exe().expect("this program"))
        .args(["--exact", "--ignored", "--test-threads=1", "sqlite::locking::alone_another_program"])
        .env(NAMED, desk.path("app.db"))
        .output()
        .expect("a program");
    let said = String::from_utf8_lossy(&program.stdout);
    assert!(said.contains("running 1 test"), "{said}");
    assert!(program.status.success() || said.contains("database is locked"), "{said}");
    program.status.success()
}

#[test]
#[ignore = "run as another program"]
fn alone_another_program() {
    let path = std::env::var_os(NAMED).expect("a database");
    let connection = Connection::open(path).expect("a database");
    connection.busy_timeout(std::time::Duration::ZERO).expect("no patience");
    connection.execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES ('theirs'); COMMIT;").expect("a change");
}

/// An insert that writes at once, and that no test waits for.
const ENDLESS: &str = "INSERT INTO t WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c) SELECT i FROM c WHERE i = 1 OR i % 100000 = 0";

#[tokio::test]
async fn a_search_beside_a_change_does_not_let_another_program_write_into_it() {
    let desk = Desk::new("CREATE TABLE t (a); INSERT INTO t VALUES ('ours');");
    let workspace = Workspace::open(&[desk.dir.path().to_owned()]).expect("a workspace");
    let search = registry(tools(SearchDeps { workspace, user_ignore: None }));
    let cx = ToolCx::detached(RequestId::new());
    let cancel = cx.cancel.clone();
    let args = json!({"database_path": "app.db", "query": ENDLESS, "mode": "rw", "timeout_ms": 600_000});
    let changing = call_with(&desk.tools, "SqliteQuery", args, cx);
    let meanwhile = async {
        while !desk.path("app.db-journal").exists() {
            tokio::task::yield_now().await;
        }
        let before = another_program_writes(&desk);
        let found = call(&search, "Grep", json!({"pattern": "nowhere", "path": "app.db"})).await;
        found.expect("a search");
        desk.answer(json!({"query": "SELECT a FROM t"})).await;
        let after = another_program_writes(&desk);
        // Before anything is asserted: the change would go on under a test that failed.
        cancel.cancel();
        (before, after)
    };
    let (answer, writes) = tokio::join!(changing, meanwhile);
    assert_eq!(writes, (false, false), "the change keeps its lock");
    let refused = answer.expect_err("a cancel");
    assert_eq!(refused.code(), ErrorCode::Cancelled, "{refused}");
    assert!(refused.text().contains("Nothing was changed"), "{refused}");
    assert!(another_program_writes(&desk), "the lock is given up");
    let rows = desk.answer(json!({"query": "SELECT a FROM t"})).await;
    assert!(rows.starts_with("a\n------\nours\ntheirs\n[2 rows]"), "{rows}");
}

#[tokio::test]
async fn a_change_is_made_although_a_reader_was_there_first_and_is_done() {
    let desk = Desk::new("CREATE TABLE t (a); INSERT INTO t VALUES ('ours');");
    let reader = Connection::open(desk.path("app.db")).expect("a reader");
    reader.execute_batch("BEGIN; SELECT a FROM t;").expect("a question");
    let args = json!({"database_path": "app.db", "query": "INSERT INTO t VALUES (2)", "mode": "rw", "timeout_ms": 600_000});
    let changing = call_with(&desk.tools, "SqliteQuery", args, ToolCx::detached(RequestId::new()));
    let meanwhile = async {
        while !desk.path("app.db-journal").exists() {
            tokio::task::yield_now().await;
        }
        reader.execute_batch("COMMIT").expect("an end");
    };
    let (answer, ()) = tokio::join!(changing, meanwhile);
    let answer = answer.expect("a change");
    assert!(text(&answer).contains("1 row affected"), "{}", text(&answer));
}

#[tokio::test]
async fn an_error_while_a_change_is_committed_is_not_called_no_change() {
    let desk = Desk::new("CREATE TABLE t (a); INSERT INTO t VALUES ('ours');");
    let reader = Connection::open(desk.path("app.db")).expect("a reader");
    reader.execute_batch("BEGIN; SELECT a FROM t;").expect("a question");
    let args = json!({"database_path": "app.db", "query": "INSERT INTO t VALUES (2)", "mode": "rw", "timeout_ms": 600_000});
    let changing = call_with(&desk.tools, "SqliteQuery", args, ToolCx::detached(RequestId::new()));
    let journal = desk.path("app.db-journal");
    let meanwhile = async {
        while !journal.exists() {
            tokio::task::yield_now().await;
        }
        // Its removal, which is what commits, will fail.
        std::fs::rename(&journal, desk.path("aside")).expect("a rename");
        std::fs::create_dir(&journal).expect("a folder");
        reader.execute_batch("COMMIT").expect("an end");
    };
    let (answer, ()) = tokio::join!(changing, meanwhile);
    let refused = answer.expect_err("an error");
    assert_eq!(refused.code(), ErrorCode::Io, "{refused}");
    assert!(!refused.text().contains("Nothing was changed"), "{refused}");
    assert!(refused.text().contains("may have been made or not"), "{refused}");
}

/// How many descriptors of this process lead there.
fn open_at(path: &std::path::Path) -> usize {
    let path = std::fs::canonicalize(path).expect("there");
    let open = std::fs::read_dir("/proc/self/fd").expect("a list");
    open.flatten().filter(|fd| std::fs::read_link(fd.path()).is_ok_and(|to| to == path)).count()
}

/// A database with a log in a folder of its own.
fn logged(desk: &Desk, folder: &str) -> Connection {
    std::fs::create_dir(desk.path(folder)).expect("a folder");
    let connection = Connection::open(desk.path(folder).join("app.db")).expect("a database");
    connection.execute_batch("PRAGMA journal_mode = WAL; CREATE TABLE t (a);").expect("a log");
    connection
}

#[tokio::test]
async fn the_end_of_a_change_removes_its_own_log_s_index_and_no_other() {
    let desk = Desk::new("");
    let (folder, other) = (desk.path("one"), desk.path("two"));
    drop(logged(&desk, "one"));
    let _theirs = logged(&desk, "two");
    let begin = || {
        let cx = ToolCx::detached(RequestId::new());
        let cancel = cx.cancel.clone();
        let args =
            json!({"database_path": "one/app.db", "query": ENDLESS, "mode": "rw", "timeout_ms": 600_000});
        (call_with(&desk.tools, "SqliteQuery", args, cx), cancel)
    };
    let log = folder.join("app.db-wal");
    let looks_at_it = async |connections: usize| {
        while !log.exists() || open_at(&log) < connections {
            tokio::task::yield_now().await;
        }
    };
    let (first, end_first) = begin();
    let (second, end_second) = begin();
    let (done, over) =
        (tokio_util::sync::CancellationToken::new(), tokio_util::sync::CancellationToken::new());
    let first = async {
        let answer = first.await;
        done.cancel();
        answer
    };
    let second = async {
        looks_at_it(1).await;
        let answer = second.await;
        over.cancel();
        answer
    };
    let meanwhile = async {
        looks_at_it(2).await;
        end_first.cancel();
        done.cancelled().await;
        // Whatever number is free now stands for the other folder.
        let others: Vec<_> = (0..64).map(|_| std::fs::File::open(&other).expect("a folder")).collect();
        end_second.cancel();
        over.cancelled().await;
        drop(others);
    };
    let (one, two, ()) = tokio::join!(first, second, meanwhile);
    for answer in [one, two] {
        assert_eq!(answer.expect_err("a cancel").code(), ErrorCode::Cancelled);
    }
    until("its own index to be removed", || !folder.join("app.db-shm").exists()).await;
    assert!(other.join("app.db-shm").exists(), "another database's index was removed");
}
