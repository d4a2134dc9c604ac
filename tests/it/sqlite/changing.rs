//! SqliteQuery with mode=rw: its changes, its refusals, and the rollback after a failure.

use std::fs;
use std::sync::mpsc::channel;

use punie_core::ids::RequestId;
use punie_tool::{ToolContext, ToolEffect};
use rusqlite::Connection;
use serde_json::{Value, json};

use super::{SqliteFixture, USERS};
use crate::harness::caller::ToolCall;
use crate::harness::stage::RunnerFixture;
use crate::harness::tools::{call_with, reply_text};

impl SqliteFixture {
    /// Runs a statement with mode=rw.
    async fn change(&self, query: &str) -> String {
        self.answer(json!({"query": query, "mode": "rw"})).await
    }

    fn connection(&self) -> Connection {
        Connection::open(self.path("app.db")).expect("the database")
    }

    fn count(&self, table: &str) -> i64 {
        let sql = format!("SELECT count(*) FROM {table}");
        self.connection()
            .query_row(&sql, [], |row| row.get(0))
            .expect("a number")
    }
}

#[tokio::test]
async fn a_change_says_how_many_rows_and_which_id() {
    let setup = SqliteFixture::new(USERS);
    let path = setup.path("app.db").display().to_string();
    let answer = setup
        .change("INSERT INTO users (name) VALUES ('dan'), ('eve')")
        .await;
    assert_eq!(
        answer,
        format!("Done and committed to {path}: 2 rows affected, last insert id 5.")
    );
    let answer = setup
        .answer(
            json!({"query": "UPDATE users SET big = :big WHERE id = 1", "params": {"big": 7}, "mode": "rw"}),
        )
        .await;
    assert_eq!(
        answer,
        format!("Done and committed to {path}: 1 row affected.")
    );
    let answer = setup.change("DELETE FROM users WHERE id = 99").await;
    assert_eq!(
        answer,
        format!("Done and committed to {path}: 0 rows affected.")
    );
    assert_eq!(setup.count("users"), 5);
}

#[tokio::test]
async fn rows_that_a_change_returns_are_shown_and_the_change_is_whole() {
    let setup = SqliteFixture::new(USERS);
    let answer = setup
        .answer(
            json!({"query": "UPDATE users SET big = id WHERE id > 0 RETURNING id", "mode": "rw", "limit": 2}),
        )
        .await;
    let lines: Vec<&str> = answer.lines().collect();
    assert_eq!(lines[..4], ["id", "--", " 1", " 2"], "{answer}");
    assert_eq!(
        lines[4], "[2 rows (1-2); 1 more were changed and are not shown]",
        "{answer}"
    );
    assert_ends_with!(answer, ": 3 rows affected.");
    let changed: i64 = setup
        .connection()
        .query_row("SELECT sum(big) FROM users", [], |row| row.get(0))
        .expect("a number");
    assert_eq!(changed, 6);
}

#[tokio::test]
async fn the_schema_can_be_changed() {
    let setup = SqliteFixture::new(USERS);
    for query in [
        "CREATE TABLE pets (id INTEGER PRIMARY KEY, owner REFERENCES users)",
        "CREATE INDEX pets_by_owner ON pets (owner)",
        "ALTER TABLE pets ADD COLUMN age INTEGER NOT NULL DEFAULT 0 CHECK (age >= 0)",
        "ALTER TABLE pets RENAME COLUMN age TO years",
        "ALTER TABLE pets RENAME TO animals",
        "ALTER TABLE animals DROP COLUMN years",
        "CREATE VIEW owners AS SELECT owner FROM animals",
        "CREATE TRIGGER fed AFTER INSERT ON animals BEGIN UPDATE users SET big = 0 WHERE id = new.owner; END",
        "CREATE VIRTUAL TABLE notes USING fts5(body)",
        "INSERT INTO notes VALUES ('the quick fox')",
        "ANALYZE",
        "REINDEX",
        "DROP VIEW names",
        "DROP TABLE notes",
    ] {
        let args = json!({"query": query, "mode": "rw", "confirm": query.contains("DROP")});
        let answer = setup.answer(args).await;
        assert_starts_with!(answer, "Done and committed to "; "{query}");
    }
    let answer = setup.change("INSERT INTO animals (owner) VALUES (1)").await;
    assert_ends_with!(
        answer,
        "1 row affected, 1 row more by triggers, foreign keys or in the tables behind a virtual table, last insert id 1."
    );
    let schema = setup.answer(json!({})).await;
    assert_contains!(schema, "table animals: 1 row");
    assert_lacks!(schema, "notes");
}

#[tokio::test]
async fn dropping_something_needs_to_be_confirmed() {
    let setup = SqliteFixture::new(USERS);
    setup.change("CREATE INDEX by_name ON users (name)").await;
    setup
        .change("CREATE TRIGGER tidy AFTER DELETE ON users BEGIN SELECT 1; END")
        .await;
    let before = setup.answer(json!({})).await;
    let drops = [
        "DROP TRIGGER tidy",
        "DROP INDEX by_name",
        "ALTER TABLE users DROP big",
        "DROP VIEW names",
        "drop table if exists users",
    ];
    for query in drops {
        let refused = setup.refused(json!({"query": query, "mode": "rw"})).await;
        assert_error!(refused, PolicyDenied: "confirm=true"; "{query}");
    }
    assert_eq!(setup.answer(json!({})).await, before);
    for query in drops {
        setup
            .answer(json!({"query": query, "mode": "rw", "confirm": true}))
            .await;
    }
}

#[tokio::test]
async fn a_change_of_every_row_needs_to_be_confirmed() {
    let setup = SqliteFixture::new(USERS);
    for query in [
        "DELETE FROM users",
        "UPDATE users SET name = 'where'",
        "UPDATE users SET big = (SELECT 1 WHERE 1) -- where id = 1",
        "WITH x AS (SELECT 1 WHERE 1) DELETE FROM users /* WHERE 1 */",
    ] {
        let refused = setup.refused(json!({"query": query, "mode": "rw"})).await;
        assert_error!(refused, PolicyDenied: "confirm=true", "Nothing was changed"; "{query}");
    }
    assert_eq!(setup.count("users"), 3);
    let answer = setup
        .answer(json!({"query": "DELETE FROM users", "mode": "rw", "confirm": true}))
        .await;
    assert_ends_with!(answer, "3 rows affected.");
    assert_eq!(setup.count("users"), 0);
}

#[tokio::test]
async fn mode_rw_reaches_no_further_than_its_database() {
    let setup = SqliteFixture::new(USERS);
    let outside = setup.scratch.path().join("written.db");
    let before = setup.files();
    for query in [
        format!("ATTACH '{}' AS x", outside.display()),
        format!("VACUUM INTO '{}'", outside.display()),
        "VACUUM".to_owned(),
        "SELECT load_extension('/tmp/x.so')".to_owned(),
        "PRAGMA writable_schema = 1".to_owned(),
        "PRAGMA journal_mode = WAL".to_owned(),
        "PRAGMA user_version = 3".to_owned(),
        "PRAGMA foreign_keys = 0".to_owned(),
        "BEGIN".to_owned(),
        "COMMIT".to_owned(),
        "SAVEPOINT x".to_owned(),
        "CREATE TEMP TABLE x (a)".to_owned(),
        "CREATE TEMP VIEW x AS SELECT 1".to_owned(),
        "INSERT INTO users (name) SELECT load_extension('/tmp/x.so')".to_owned(),
    ] {
        let refused = setup.refused(json!({"query": query, "mode": "rw"})).await;
        assert_error!(refused, PolicyDenied; "{query}");
    }
    for query in [
        "DELETE FROM sqlite_schema WHERE 1",
        "INSERT INTO users VALUES (9, 'x', 1, NULL); DROP TABLE users",
        "-- nothing",
    ] {
        let refused = setup.refused(json!({"query": query, "mode": "rw"})).await;
        assert_error!(refused, InvalidArgs; "{query}");
    }
    assert_eq!(setup.files(), before);
    assert!(!outside.exists());
}

#[tokio::test]
async fn a_change_that_fails_leaves_nothing_behind() {
    let setup = SqliteFixture::new(
        "CREATE TABLE t (a UNIQUE, b CHECK (b < 10)); INSERT INTO t VALUES (1, 1), (2, 2), (3, 9);
         CREATE TABLE parent (id PRIMARY KEY); CREATE TABLE child (p REFERENCES parent DEFERRABLE INITIALLY DEFERRED);",
    );
    let before = setup.files();
    for (query, part) in cases! {
        ("UPDATE t SET b = b + 1 WHERE a > 0", "CHECK constraint failed"),
        ("UPDATE t SET a = 7 WHERE a > 0", "UNIQUE constraint failed"),
        ("INSERT INTO child VALUES (1)", "FOREIGN KEY constraint failed"),
        ("INSERT INTO t VALUES (1)", "has 2 columns but 1 values"),
        ("INSERT INTO tt VALUES (1)", "did you mean"),
    } {
        let refused = setup.refused(json!({"query": query, "mode": "rw"})).await;
        assert_error!(refused, InvalidArgs: part; "{query}");
        assert_ends_with!(
            refused.model_text(),
            "Nothing was changed: the transaction was rolled back."
        );
    }
    assert_eq!(setup.files(), before);
}

/// An insert that never ends by itself.
const ENDLESS: &str = "INSERT INTO t WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c) SELECT i FROM c WHERE i % 1000 = 0";

#[tokio::test]
async fn a_change_is_undone_at_its_time_limit_and_when_cancelled() {
    let setup = SqliteFixture::new("CREATE TABLE t (a); INSERT INTO t VALUES (1);");
    let refused = setup
        .refused(json!({"query": ENDLESS, "mode": "rw", "timeout_ms": 50}))
        .await;
    assert_error!(refused, Timeout: "Nothing was changed");
    let cx = ToolContext::for_detached_call(RequestId::new());
    let cancel = cx.cancel.clone();
    let args =
        json!({"database_path": "app.db", "query": ENDLESS, "mode": "rw", "timeout_ms": 600_000});
    let running = call_with(&setup.tools, "SqliteQuery", args, cx);
    let (answer, ()) = tokio::join!(running, async { cancel.cancel() });
    assert_error!(answer.expect_err("a cancel"), Cancelled);
    assert_eq!(setup.count("t"), 1);
    assert_eq!(setup.files().len(), 1, "no journal is left");
}

#[tokio::test]
async fn a_change_waits_for_a_lock_and_then_says_busy() {
    let setup = SqliteFixture::new("CREATE TABLE t (a);");
    let other = setup.connection();
    other
        .execute_batch("BEGIN IMMEDIATE; INSERT INTO t VALUES (1);")
        .expect("a lock");
    let ask = json!({"query": "INSERT INTO t VALUES (2)", "mode": "rw", "timeout_ms": 100});
    let refused = setup.refused(ask).await;
    assert_error!(refused, Busy: "locked by another process", "Nothing was changed");
    let cx = ToolContext::for_detached_call(RequestId::new());
    let cancel = cx.cancel.clone();
    let args = json!({"database_path": "app.db", "query": "INSERT INTO t VALUES (3)", "mode": "rw", "timeout_ms": 600_000});
    let waiting = call_with(&setup.tools, "SqliteQuery", args.clone(), cx);
    let (answer, ()) = tokio::join!(waiting, async { cancel.cancel() });
    assert_error!(answer.expect_err("a cancel"), Cancelled);
    // A change that waits is made once the lock is released.
    let (asked, told) = channel();
    let holder = std::thread::spawn(move || {
        told.recv().expect("a signal from the test");
        other.execute_batch("COMMIT").expect("the lock is released");
    });
    let waiting = call_with(
        &setup.tools,
        "SqliteQuery",
        args,
        ToolContext::for_detached_call(RequestId::new()),
    );
    let (answer, ()) = tokio::join!(waiting, async {
        asked.send(()).expect("the lock holder receives it");
    });
    let reply = answer.expect("a change");
    assert_contains!(reply_text(&reply), "1 row affected");
    holder.join().expect("it ends");
    assert_eq!(setup.count("t"), 2);
}

#[tokio::test]
async fn a_wal_database_is_changed_and_left_as_tidy_as_it_was() {
    let setup = SqliteFixture::new("PRAGMA journal_mode = WAL; CREATE TABLE t (a);");
    setup.change("INSERT INTO t VALUES (1)").await;
    assert_eq!(
        setup.files().len(),
        1,
        "the last connection removes its WAL"
    );
    let other = setup.connection();
    other
        .query_row("SELECT count(*) FROM t", [], |_| Ok(()))
        .expect("a reader");
    setup.change("INSERT INTO t VALUES (2)").await;
    let seen: i64 = other
        .query_row("SELECT count(*) FROM t", [], |row| row.get(0))
        .expect("a number");
    assert_eq!(seen, 2, "a program that has it open sees the change");
}

#[tokio::test]
async fn a_question_with_mode_rw_says_that_nothing_was_changed() {
    let setup = SqliteFixture::new(USERS);
    let before = setup.files();
    let answer = setup.change("SELECT count(*) AS n FROM users").await;
    assert_starts_with!(answer, "n\n-\n3\n[1 row]\n");
    assert_contains!(answer, "nothing was changed");
    let answer = setup
        .answer(json!({"query": "EXPLAIN QUERY PLAN DELETE FROM users", "mode": "rw"}))
        .await;
    assert_contains!(answer, "nothing was changed");
    assert_eq!(setup.files(), before);
}

#[cfg(unix)]
#[tokio::test]
async fn protected_places_and_second_names_are_not_written() {
    let setup = SqliteFixture::new(USERS);
    for folder in [".vscode", "home", "home/state"] {
        fs::create_dir(setup.path(folder)).expect("a folder");
    }
    for copy in [".vscode/state.db", "home/state/journal.sqlite3", "one.db"] {
        fs::copy(setup.path("app.db"), setup.path(copy)).expect("a copy");
    }
    fs::hard_link(setup.path("one.db"), setup.path("two.db")).expect("a link");
    std::os::unix::fs::symlink(setup.path("home"), setup.path("detour")).expect("a link");
    let insert = "INSERT INTO users (name) VALUES ('x')";
    for path in [
        ".vscode/state.db",
        "home/state/journal.sqlite3",
        "detour/state/journal.sqlite3",
        "two.db",
    ] {
        let before = fs::read(setup.path(path)).expect("a file");
        let refused = setup
            .refused(json!({"database_path": path, "query": insert, "mode": "rw"}))
            .await;
        assert_error!(refused, PolicyDenied; "{path}");
        assert_eq!(fs::read(setup.path(path)).expect("a file"), before);
    }
    let ours =
        json!({"database_path": "home/state/journal.sqlite3", "query": "SELECT * FROM users"});
    assert_error!(setup.refused(ours).await, PolicyDenied);
    let answer = setup
        .answer(json!({"database_path": "two.db", "query": "SELECT name FROM users"}))
        .await;
    assert_contains!(answer, "ann");
    let gone = json!({"database_path": "new.db", "query": "CREATE TABLE t (a)", "mode": "rw"});
    assert_error!(setup.refused(gone).await, NotFound);
    assert!(!setup.path("new.db").exists());
}

#[test]
fn only_a_call_with_mode_rw_counts_as_writing() {
    let setup = SqliteFixture::new(USERS);
    let entry = setup.tools.find("SqliteQuery").expect("it is registered");
    let effect = |args: Value| entry.effect_of_call(&args.to_string());
    assert_eq!(entry.tool_spec().effect, ToolEffect::Writes);
    assert_eq!(
        effect(json!({"database_path": "app.db"})),
        ToolEffect::Reads
    );
    assert_eq!(
        effect(json!({"database_path": "app.db", "query": "SELECT 1"})),
        ToolEffect::Reads
    );
    assert_eq!(
        effect(json!({"database_path": "app.db", "mode": "rw"})),
        ToolEffect::Reads,
        "an overview"
    );
    assert_eq!(
        effect(json!({"database_path": "app.db", "query": "SELECT 1", "mode": "rw"})),
        ToolEffect::Writes
    );
    assert_eq!(
        effect(json!({"path": "app.db", "sql": "SELECT 1", "mode": "rw"})),
        ToolEffect::Writes
    );
    assert_eq!(
        effect(json!({"database_path": "app.db", "mode": "write"})),
        ToolEffect::Writes,
        "refused, in turn"
    );
}

#[tokio::test]
async fn an_empty_file_becomes_a_database() {
    let setup = SqliteFixture::new(USERS);
    fs::write(setup.path("new.db"), "").expect("a file");
    let create = json!({"database_path": "new.db", "query": "CREATE TABLE t (a)", "mode": "rw"});
    assert_starts_with!(setup.answer(create).await, "Done and committed");
    let schema = setup.answer(json!({"database_path": "new.db"})).await;
    assert_contains!(schema, "table t: 0 rows");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_journal_knows_which_calls_write() {
    let setup = RunnerFixture::new().await;
    Connection::open(setup.file("app.db"))
        .expect("a database")
        .execute_batch(USERS)
        .expect("a schema");
    let _runner = setup.run();
    let ask = async |args: Value| {
        setup
            .call(ToolCall::new("SqliteQuery", &args).in_conversation("talk"))
            .await
    };
    let query = "DELETE FROM users WHERE id = 1";
    let answer = ask(json!({"database_path": "app.db", "query": "SELECT name FROM users"})).await;
    assert_contains!(answer.text(), "ann");
    let answer = ask(json!({"database_path": "app.db", "query": query, "mode": "rw"})).await;
    assert_contains!(answer.text(), "1 row affected");
    let args = json!({"tool": "SqliteQuery", "args": {"database_path": "app.db", "query": query, "mode": "rw"}});
    setup
        .call(ToolCall::new("Task", &args).in_conversation("talk"))
        .await
        .expect_ok();
    let journal =
        Connection::open(setup.setting.home.join("state/journal.sqlite3")).expect("the journal");
    let mut statement = journal
        .prepare("SELECT effect FROM request WHERE tool = 'SqliteQuery' ORDER BY rowid")
        .expect("a statement");
    let effects: Vec<String> = statement
        .query_map([], |row| row.get(0))
        .expect("rows")
        .collect::<Result<_, _>>()
        .expect("effects");
    assert_eq!(effects, ["reads", "writes", "writes"]);
}

#[tokio::test]
async fn a_change_is_told_as_what_it_was() {
    let setup = SqliteFixture::new(
        "CREATE TABLE t (a); CREATE VIRTUAL TABLE f USING fts5(x); CREATE TABLE b (c UNIQUE); INSERT INTO t VALUES (1);",
    );
    for (query, told) in cases! {
        ("create table if not exists t (a)", "Nothing was changed"),
        ("drop table if exists nowhere", "Nothing was changed"),
        ("create table u (a)", "the schema was changed"),
        ("analyze", "statistics or indexes were made anew"),
        ("insert into f values ('x')", "in the tables behind a virtual table"),
        ("insert into b values (1)", "1 row affected, last insert id 1."),
        ("pragma journal_mode", "the statement only reads"),
    } {
        let args = json!({"query": query, "mode": "rw", "confirm": true});
        let answer = setup.answer(args).await;
        assert_contains!(answer, told; "{query}");
    }
    let answer = setup.answer(json!({"query": "pragma journal_mode"})).await;
    assert_contains!(answer, "delete");
    let refused = setup
        .refused(json!({"query": "pragma journal_mode = wal"}))
        .await;
    assert_contains!(refused.model_text(), "not allowed");
}
