//! SqliteQuery while other calls and other programs use the same file: its locks hold until it releases them.

use std::process::Command;

use punie_core::ids::RequestId;
use punie_handlers::search::{SearchDeps, tools};
use punie_host::Workspace;
use punie_tool::ToolContext;
use rusqlite::Connection;
use serde_json::json;

use super::SqliteFixture;
use crate::harness::tools::{build_registry, call_tool, call_with, reply_text};

/// The environment variable with the path of the database for the other program.
const NAMED: &str = "PUNIE_TEST_DATABASE";

/// Returns true if another program can write to the database. It is another process, because these locks belong to a
/// process.
fn another_program_writes(setup: &SqliteFixture) -> bool {
    let program = Command::new(std::env::current_exe().expect("this program"))
        .args([
            "--exact",
            "--ignored",
            "--test-threads=1",
            "sqlite::locking::only_by_name_alone_another_program",
        ])
        .env(NAMED, setup.path("app.db"))
        .output()
        .expect("a program");
    let said = String::from_utf8_lossy(&program.stdout);
    assert_contains!(said, "running 1 test");
    assert!(
        program.status.success() || said.contains("database is locked"),
        "{said}"
    );
    program.status.success()
}

#[test]
#[ignore = "run as another program"]
fn only_by_name_alone_another_program() {
    let path = std::env::var_os(NAMED).expect("a database");
    let connection = Connection::open(path).expect("a database");
    connection
        .busy_timeout(std::time::Duration::ZERO)
        .expect("the timeout is set");
    connection
        .execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES ('theirs'); COMMIT;")
        .expect("a change");
}

/// An insert that writes its first row at once and never ends by itself.
const ENDLESS: &str = "INSERT INTO t WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c) SELECT i FROM c WHERE i = 1 OR i % 100000 = 0";

#[tokio::test]
async fn a_search_beside_a_change_does_not_let_another_program_write_into_it() {
    let setup = SqliteFixture::new("CREATE TABLE t (a); INSERT INTO t VALUES ('ours');");
    let workspace = Workspace::open_roots(&[setup.dir.path().to_owned()]).expect("a workspace");
    let search = build_registry(tools(SearchDeps {
        workspace,
        user_ignore: None,
        views: None,
    }));
    let cx = ToolContext::for_detached_call(RequestId::new());
    let cancel = cx.cancel.clone();
    let args =
        json!({"database_path": "app.db", "query": ENDLESS, "mode": "rw", "timeout_ms": 600_000});
    let changing = call_with(&setup.tools, "SqliteQuery", args, cx);
    let meanwhile = async {
        while !setup.path("app.db-journal").exists() {
            tokio::task::yield_now().await;
        }
        let before = another_program_writes(&setup);
        let found = call_tool(
            &search,
            "Grep",
            json!({"pattern": "nowhere", "path": "app.db"}),
        )
        .await;
        found.expect("a search");
        setup.answer(json!({"query": "SELECT a FROM t"})).await;
        let after = another_program_writes(&setup);
        // Cancels before any assertion, because the change would go on after a failed test.
        cancel.cancel();
        (before, after)
    };
    let (answer, writes) = tokio::join!(changing, meanwhile);
    assert_eq!(writes, (false, false), "the change keeps its lock");
    assert_error!(answer.expect_err("a cancel"), Cancelled: "Nothing was changed");
    assert!(another_program_writes(&setup), "the lock is released");
    let rows = setup.answer(json!({"query": "SELECT a FROM t"})).await;
    assert_starts_with!(rows, "a\n------\nours\ntheirs\n[2 rows]");
}

#[tokio::test]
async fn a_change_is_made_although_a_reader_was_there_first_and_is_done() {
    let setup = SqliteFixture::new("CREATE TABLE t (a); INSERT INTO t VALUES ('ours');");
    let reader = Connection::open(setup.path("app.db")).expect("a reader");
    reader
        .execute_batch("BEGIN; SELECT a FROM t;")
        .expect("a question");
    let args = json!({"database_path": "app.db", "query": "INSERT INTO t VALUES (2)", "mode": "rw", "timeout_ms": 600_000});
    let changing = call_with(
        &setup.tools,
        "SqliteQuery",
        args,
        ToolContext::for_detached_call(RequestId::new()),
    );
    let meanwhile = async {
        while !setup.path("app.db-journal").exists() {
            tokio::task::yield_now().await;
        }
        reader.execute_batch("COMMIT").expect("the reader ends");
    };
    let (answer, ()) = tokio::join!(changing, meanwhile);
    let answer = answer.expect("a change");
    assert_contains!(reply_text(&answer), "1 row affected");
}

#[tokio::test]
async fn an_error_while_a_change_is_committed_is_not_called_no_change() {
    let setup = SqliteFixture::new("CREATE TABLE t (a); INSERT INTO t VALUES ('ours');");
    let reader = Connection::open(setup.path("app.db")).expect("a reader");
    reader
        .execute_batch("BEGIN; SELECT a FROM t;")
        .expect("a question");
    let args = json!({"database_path": "app.db", "query": "INSERT INTO t VALUES (2)", "mode": "rw", "timeout_ms": 600_000});
    let changing = call_with(
        &setup.tools,
        "SqliteQuery",
        args,
        ToolContext::for_detached_call(RequestId::new()),
    );
    let journal = setup.path("app.db-journal");
    let meanwhile = async {
        while !journal.exists() {
            tokio::task::yield_now().await;
        }
        // SQLite commits by removing the journal, and it cannot remove a folder.
        std::fs::rename(&journal, setup.path("aside")).expect("a rename");
        std::fs::create_dir(&journal).expect("a folder");
        reader.execute_batch("COMMIT").expect("the reader ends");
    };
    let (answer, ()) = tokio::join!(changing, meanwhile);
    let refused = answer.expect_err("an error");
    assert_error!(refused, Io);
    assert_lacks!(refused.model_text(), "Nothing was changed");
    assert_contains!(refused.model_text(), "may have been made or not");
}

#[tokio::test]
async fn a_lock_of_another_connection_is_named_within_the_time_limit() {
    let setup = SqliteFixture::new("CREATE TABLE t (a); INSERT INTO t VALUES ('theirs');");
    let theirs = Connection::open(setup.path("app.db")).expect("a database");
    theirs.execute_batch("BEGIN EXCLUSIVE").expect("a lock");
    let args = |mode: &str, query: &str| json!({"query": query, "mode": mode, "timeout_ms": 1_000});
    let answer = setup.answer(args("ro", "SELECT a FROM t")).await;
    assert_contains!(answer, "theirs", "another program keeps it locked");
    let refused = setup.refused(args("rw", "INSERT INTO t VALUES (1)")).await;
    assert_error!(refused, Busy: "locked by another process");
}
