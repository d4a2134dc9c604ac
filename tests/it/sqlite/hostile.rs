//! SqliteQuery with hostile statements and data: it refuses them, stops them, or shows them without harm.

use punie_core::ids::RequestId;
use punie_tool::ToolContext;
use punie_tool::request::ErrorCode;
use serde_json::json;

use super::{SqliteFixture, USERS};
use crate::harness::tools::{call_with, reply_text};
use crate::harness::wait::with_enough_time;

#[tokio::test]
async fn hostile_statements_are_refused() {
    let setup = SqliteFixture::new(USERS);
    let outside = setup.scratch.path().join("written.db");
    let before = setup.files();
    for (query, code) in cases! {
        (format!("ATTACH '{}' AS x", outside.display()), ErrorCode::PolicyDenied),
        (format!("VACUUM INTO '{}'", outside.display()), ErrorCode::PolicyDenied),
        ("SELECT load_extension('/tmp/x.so')".to_owned(), ErrorCode::PolicyDenied),
        ("SELECT fts3_tokenizer('simple', x'00')".to_owned(), ErrorCode::PolicyDenied),
        ("PRAGMA writable_schema = 1".to_owned(), ErrorCode::PolicyDenied),
        ("PRAGMA journal_mode = DELETE".to_owned(), ErrorCode::PolicyDenied),
        ("PRAGMA temp_store_directory = '/tmp'".to_owned(), ErrorCode::PolicyDenied),
        ("PRAGMA wal_checkpoint".to_owned(), ErrorCode::PolicyDenied),
        ("INSERT INTO users VALUES (4, 'd', 1, NULL)".to_owned(), ErrorCode::PolicyDenied),
        ("UPDATE users SET name = 'x' RETURNING id".to_owned(), ErrorCode::PolicyDenied),
        ("WITH x AS (SELECT 1) DELETE FROM users".to_owned(), ErrorCode::PolicyDenied),
        ("CREATE TEMP TABLE x (a)".to_owned(), ErrorCode::PolicyDenied),
        ("CREATE VIRTUAL TABLE x USING fts5(a)".to_owned(), ErrorCode::PolicyDenied),
        ("DROP TABLE users".to_owned(), ErrorCode::PolicyDenied),
        ("BEGIN".to_owned(), ErrorCode::PolicyDenied),
        ("REINDEX".to_owned(), ErrorCode::PolicyDenied),
        ("ANALYZE".to_owned(), ErrorCode::PolicyDenied),
        ("SELECT 1; DROP TABLE users".to_owned(), ErrorCode::PolicyDenied),
        ("SELECT 1; SELECT 2".to_owned(), ErrorCode::InvalidArgs),
        ("-- nothing".to_owned(), ErrorCode::InvalidArgs),
        ("SELECT length(randomblob(1000000000))".to_owned(), ErrorCode::TooLarge),
        ("SELECT printf('%.*c', 1000000000, 'x')".to_owned(), ErrorCode::TooLarge),
        (format!("SELECT {}1{}", "(".repeat(5_000), ")".repeat(5_000)), ErrorCode::InvalidArgs),
        (format!("SELECT '{}'", "x".repeat(300_000)), ErrorCode::TooLarge),
    } {
        let refused = setup.refused(json!({"query": query})).await;
        assert_eq!(
            refused.stable_code(),
            code,
            "{}: {refused}",
            &query[..query.len().min(80)]
        );
    }
    assert_eq!(setup.files(), before);
    assert!(!outside.exists());
}

/// Checks that each query is refused with its code and leaves the folder unchanged.
async fn all_refused(queries: &[(String, ErrorCode)]) {
    let setup = SqliteFixture::new(USERS);
    let before = setup.files();
    for (query, code) in queries {
        let refused = setup.refused(json!({"query": query})).await;
        assert_eq!(
            refused.stable_code(),
            *code,
            "{}: {refused}",
            &query[..query.len().min(80)]
        );
    }
    assert_eq!(setup.files(), before);
}

#[tokio::test]
async fn h80_attach_is_refused() {
    let other = tempfile::tempdir().expect("a folder");
    let path = other.path().join("other.db");
    let queries = [
        format!("ATTACH '{}' AS x", path.display()),
        "ATTACH ':memory:' AS x".to_owned(),
        "DETACH main".to_owned(),
    ];
    all_refused(&queries.map(|query| (query, ErrorCode::PolicyDenied))).await;
    assert!(!path.exists());
}

#[tokio::test]
async fn h81_vacuum_into_is_refused() {
    let other = tempfile::tempdir().expect("a folder");
    let path = other.path().join("other.db");
    let queries = [
        format!("VACUUM INTO '{}'", path.display()),
        "VACUUM".to_owned(),
    ];
    all_refused(&queries.map(|query| (query, ErrorCode::PolicyDenied))).await;
    assert!(!path.exists());
}

#[tokio::test]
async fn h82_load_extension_fts3_tokenizer_and_writable_schema_are_refused() {
    let queries = cases! {
        ("SELECT load_extension('/tmp/x.so')", ErrorCode::PolicyDenied),
        ("SELECT fts3_tokenizer('simple', x'00')", ErrorCode::PolicyDenied),
        ("SELECT fts3_tokenizer('simple')", ErrorCode::PolicyDenied),
        ("PRAGMA writable_schema = 1", ErrorCode::PolicyDenied),
        ("PRAGMA trusted_schema = 1", ErrorCode::PolicyDenied),
        // Only the shell of SQLite has these functions.
        ("SELECT readfile('/etc/passwd')", ErrorCode::InvalidArgs),
        ("SELECT writefile('/tmp/x', 'y')", ErrorCode::InvalidArgs),
    };
    all_refused(&queries.map(|(query, code)| (query.to_owned(), code))).await;
}

#[tokio::test]
async fn h84_a_gigabyte_in_one_value_is_refused_at_once() {
    let queries = [
        "SELECT length(randomblob(1000000000))",
        "SELECT hex(zeroblob(1000000000))",
        "SELECT printf('%.*c', 1000000000, 'x')",
        "SELECT replace(hex(zeroblob(8000000)), '0', 'xxxxxxxx')",
    ];
    all_refused(&queries.map(|query| (query.to_owned(), ErrorCode::TooLarge))).await;
}

#[tokio::test]
async fn h87_two_statements_are_refused() {
    let queries = [
        ("SELECT 1; SELECT 2", ErrorCode::InvalidArgs),
        ("SELECT 1; DROP TABLE users", ErrorCode::PolicyDenied),
        ("SELECT 1; ATTACH 'x' AS y", ErrorCode::PolicyDenied),
    ];
    all_refused(&queries.map(|(query, code)| (query.to_owned(), code))).await;
    let setup = SqliteFixture::new(USERS);
    let answer = setup
        .answer(json!({"query": "SELECT ';' AS c; -- SELECT 2;"}))
        .await;
    assert_ends_with!(answer, "[1 row]");
}

#[tokio::test]
async fn h85_a_hostile_trigger_does_nothing_that_its_statement_may_not() {
    let setup = SqliteFixture::new(
        "CREATE TABLE t (a); CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT load_extension('/tmp/x.so'); END;",
    );
    let refused = setup
        .refused(json!({"query": "INSERT INTO t VALUES (1)", "mode": "rw"}))
        .await;
    assert_contains!(refused.model_text(), "load_extension");
    let answer = setup
        .answer(json!({"query": "SELECT count(*) AS n FROM t"}))
        .await;
    assert_starts_with!(answer, "n\n-\n0");
}

#[tokio::test]
async fn h85_a_hostile_view_gets_no_further_than_a_query() {
    let setup = SqliteFixture::new(
        "CREATE VIEW v AS SELECT load_extension('/tmp/x.so'); CREATE VIEW w AS SELECT randomblob(1000000000) AS r; CREATE TABLE t (a); CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT load_extension('/tmp/x.so'); END;",
    );
    let refused = setup.refused(json!({"query": "SELECT * FROM v"})).await;
    assert_contains!(refused.model_text(), "unsafe use of load_extension");
    let error = setup.refused(json!({"query": "SELECT * FROM w"})).await;
    assert_error!(error, TooLarge);
    assert_error!(
        setup
            .refused(json!({"query": "INSERT INTO t VALUES (1)"}))
            .await,
        PolicyDenied
    );
}

#[tokio::test]
async fn h83_a_query_without_end_stops_at_its_time_and_when_cancelled() {
    let setup = SqliteFixture::new(USERS);
    let bomb =
        "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c) SELECT count(*) FROM c";
    let refused = setup
        .refused(json!({"query": bomb, "timeout_ms": 50}))
        .await;
    assert_error!(refused, Timeout);
    let cx = ToolContext::for_detached_call(RequestId::new());
    let cancel = cx.cancel.clone();
    let running = call_with(
        &setup.tools,
        "SqliteQuery",
        json!({"database_path": "app.db", "query": bomb, "timeout_ms": 600_000}),
        cx,
    );
    let (answer, ()) = tokio::join!(running, async { cancel.cancel() });
    assert_error!(answer.expect_err("a cancel"), Cancelled);
}

#[tokio::test]
async fn h89_text_that_is_no_text_is_shown_safely() {
    let setup = SqliteFixture::new(
        "CREATE TABLE t (a); INSERT INTO t VALUES (CAST(x'61ff00621b5b316d' AS TEXT)), (printf('%.*c', 5000, 'x'));",
    );
    let reply = setup
        .ask(json!({"query": "SELECT a FROM t"}))
        .await
        .expect("an answer");
    let answer = reply_text(&reply);
    assert_contains!(answer, "a\u{FFFD}\\0b\\u{1b}[1m", "... (5,000 characters)");
    assert_lacks!(answer, "\0", "\u{1b}");
    assert_eq!(reply.meta.lossy_chars, Some(1));
}

#[tokio::test]
async fn one_function_over_megabytes_does_not_outlast_the_time_limit() {
    let setup = SqliteFixture::new(USERS);
    // Each is a single step of SQLite that takes minutes or hours.
    let endless = [
        "SELECT instr(zeroblob(15000000), CAST(zeroblob(7000000) || x'01' AS BLOB))",
        "SELECT replace(hex(zeroblob(1000000)), hex(zeroblob(500000)) || '1', '')",
    ];
    for query in endless {
        with_enough_time(50, async |limit| {
            let args = json!({"query": query, "timeout_ms": limit});
            let refused = setup.refused(args).await;
            assert_error!(refused, Timeout; "{query}");
            // A query whose limit ends before this step begins can still be interrupted.
            let words = "cannot interrupt";
            refused.model_text().contains(words).then_some(())
        })
        .await;
    }
    for (query, part) in [
        (
            "SELECT hex(zeroblob(1000000)) LIKE '%' || hex(zeroblob(4900)) || '%'",
            "instr()",
        ),
        (
            "SELECT hex(zeroblob(1000000)) GLOB '*' || hex(zeroblob(4900)) || '*'",
            "200 bytes",
        ),
    ] {
        assert_error!(setup.refused(json!({"query": query})).await, InvalidArgs: part; "{query}");
    }
}

#[tokio::test]
async fn a_change_that_is_killed_within_one_step_changes_nothing() {
    let setup = SqliteFixture::new("CREATE TABLE t (a); INSERT INTO t VALUES (1), (2);");
    let query = "UPDATE t SET a = iif(a = 1, 7, instr(zeroblob(15000000), CAST(zeroblob(7000000) || x'01' AS BLOB))) WHERE 1";
    let refused = setup
        .refused(json!({"query": query, "mode": "rw", "timeout_ms": 50}))
        .await;
    assert_error!(refused, Timeout);
    assert_ends_with!(
        refused.model_text(),
        "Nothing is changed: the transaction was not committed."
    );
    let cx = ToolContext::for_detached_call(RequestId::new());
    let cancel = cx.cancel.clone();
    let args =
        json!({"database_path": "app.db", "query": query, "mode": "rw", "timeout_ms": 600_000});
    let running = call_with(&setup.tools, "SqliteQuery", args, cx);
    let (answer, ()) = tokio::join!(running, async {
        while !setup.path("app.db-journal").exists() {
            tokio::task::yield_now().await;
        }
        cancel.cancel();
    });
    assert_error!(answer.expect_err("a cancel"), Cancelled);
    let answer = setup
        .answer(json!({"query": "SELECT group_concat(a) AS a FROM t"}))
        .await;
    assert_contains!(answer, "1,2");
    setup
        .answer(json!({"query": "UPDATE t SET a = a + 1 WHERE 1", "mode": "rw"}))
        .await;
    let answer = setup
        .answer(json!({"query": "SELECT group_concat(a) AS a FROM t"}))
        .await;
    assert_contains!(answer, "2,3");
    assert_eq!(setup.files().len(), 1, "no journal is left");
}

#[tokio::test]
async fn indexes_and_views_that_use_such_functions_work_as_ever() {
    let setup = SqliteFixture::new(
        "CREATE TABLE t (a, b AS (trim(a, 'x')), CHECK (instr(a, '!') = 0));
         CREATE INDEX i ON t (replace(a, 'x', 'y')); CREATE VIEW v AS SELECT ltrim(a, 'x') AS l FROM t;
         INSERT INTO t (a) VALUES ('xax');",
    );
    setup
        .answer(json!({"query": "INSERT INTO t (a) VALUES ('xxbx')", "mode": "rw"}))
        .await;
    let answer = setup
        .answer(json!({"query": "SELECT b FROM t WHERE replace(a, 'x', 'y') = 'yyby'"}))
        .await;
    assert_contains!(answer, "\nb\n");
    let answer = setup
        .answer(json!({"query": "SELECT l FROM v ORDER BY 1"}))
        .await;
    assert_contains!(answer, "ax\nbx");
    let refused = setup
        .refused(json!({"query": "INSERT INTO t (a) VALUES ('!')", "mode": "rw"}))
        .await;
    assert_contains!(refused.model_text(), "CHECK");
    let answer = setup
        .answer(json!({"query": "PRAGMA integrity_check"}))
        .await;
    assert_contains!(answer, "ok");
}
