//! SqliteQuery with queries that only read: its answers, and its errors for wrong queries.

use std::fs;

use rusqlite::Connection;
use serde_json::{Value, json};

use super::{SECRET, SqliteFixture, USERS};
use crate::harness::tools::reply_text;

#[tokio::test]
async fn rows_come_as_a_table_with_exact_values() {
    let setup = SqliteFixture::new(USERS);
    let before = setup.files();
    let answer = setup
        .answer(json!({"query": "SELECT id, name, big, photo, id FROM users ORDER BY id"}))
        .await;
    assert_eq!(
        answer.lines().collect::<Vec<_>>(),
        [
            "id | name | big              | photo                | id",
            "---+------+------------------+----------------------+---",
            " 1 | ann  | 9007199254740993 | <blob 10 bytes, png> |  1",
            " 2 | bob  | NULL             | NULL                 |  2",
            " 3 | cy   |               -1 | <blob 1 byte, x'01'> |  3",
            "[3 rows]",
        ]
    );
    assert_eq!(setup.files(), before);
}

#[tokio::test]
async fn json_and_csv_are_what_their_readers_expect() {
    let setup = SqliteFixture::new(USERS);
    let answer = setup
        .answer(json!({"query": "SELECT id, big FROM users", "format": "json"}))
        .await;
    let answer: Value = serde_json::from_str(&answer).expect("JSON, and nothing beside it");
    assert_eq!(answer["rows"][0], json!([1, 9_007_199_254_740_993_i64]));
    assert_eq!(answer["row_count"], 3);
    assert_eq!(answer["more"], Value::Null);
    // If the answer is too long, whole rows are left out.
    let many = "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 900) SELECT i, 'xxxxxxxxxx' FROM c";
    let args = json!({"query": many, "format": "json", "limit": 1000, "max_chars": 4_000});
    let answer: Value = serde_json::from_str(&setup.answer(args).await).expect("JSON");
    let shown = answer["rows"].as_array().expect("rows").len();
    assert!(shown > 50 && shown < 900, "{shown}");
    assert_fields!(answer, {"next_offset": shown, "more": true});
    let change = json!({"query": "UPDATE users SET name = 'x' WHERE id = 1 RETURNING id", "mode": "rw", "format": "json"});
    let answer: Value = serde_json::from_str(&setup.answer(change).await).expect("JSON");
    assert_eq!(answer["rows"], json!([[1]]));
    assert_contains!(answer["notes"][0].as_str().expect("a note"), "1 row");
    let answer = setup
        .answer(json!({"query": "SELECT 'a,b' AS x, NULL AS y", "format": "csv"}))
        .await;
    assert_eq!(answer, "x,y\n\"a,b\",\n[1 row]");
}

#[tokio::test]
async fn the_commands_of_sqlites_shell_for_the_schema_answer() {
    let setup = SqliteFixture::new(
        "CREATE TABLE a (x); CREATE TABLE b (y); CREATE VIEW v AS SELECT x FROM a;",
    );
    let answer = setup.answer(json!({"query": ".tables"})).await;
    assert_ends_with!(answer, "2 tables, 1 view\ntable a\ntable b\nview v");
    let answer = setup
        .answer(json!({"query": ".schema b", "mode": "rw", "format": "json"}))
        .await;
    assert_ends_with!(answer, "table b\n  CREATE TABLE b (y)");
    assert_lacks!(answer, "TABLE a");
    let answer = setup.answer(json!({"query": ".schema;"})).await;
    assert_contains!(answer, "TABLE a (x)", "VIEW v");
    let text = setup.answer(json!({"query": ".schema zz"})).await;
    assert_contains!(text, "none of them is called \"zz\"");
    let refused = setup.refused(json!({"query": ".dump"})).await;
    assert_contains!(refused.model_text(), ".tables and .schema are");
}

#[tokio::test]
async fn a_cut_cell_names_the_way_to_the_rest() {
    let setup =
        SqliteFixture::new("CREATE TABLE t (long); INSERT INTO t VALUES (printf('%.300c', 'x'));");
    let answer = setup.answer(json!({"query": "SELECT long FROM t"})).await;
    assert_contains!(answer, "... (300 characters)");
    let way = "1 value cut: format=\"json\" shows 20,000 characters of each, substr(column, 201, 20000) the rest";
    assert_contains!(answer, way);
    let rest = setup
        .answer(json!({"query": "SELECT length(substr(long, 201, 20000)) FROM t"}))
        .await;
    assert_ends_with!(rest, " 100\n[1 row]");
}

#[tokio::test]
async fn pages_say_whether_there_is_more() {
    let setup = SqliteFixture::new(
        "CREATE TABLE n (i); WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 250) INSERT INTO n SELECT i FROM c;",
    );
    let answer = setup
        .answer(json!({"query": "SELECT i FROM n ORDER BY i"}))
        .await;
    assert_ends_with!(answer, "[100 rows (1-100); more rows exist: offset=100]");
    let answer = setup
        .answer(json!({"query": "SELECT i FROM n ORDER BY i;  -- all\n", "offset": 200}))
        .await;
    assert_ends_with!(answer, "[50 rows (201-250)]");
    let answer = setup
        .answer(json!({"query": "SELECT i FROM n", "offset": 900}))
        .await;
    assert_contains!(answer, "there are 250 rows");
    let answer = setup
        .answer(json!({"query": "SELECT i FROM n LIMIT 3", "limit": 3}))
        .await;
    assert_ends_with!(answer, "[3 rows]");
}

#[tokio::test]
async fn parameters_are_bound_and_checked() {
    let setup = SqliteFixture::new(USERS);
    let answer = setup
        .answer(json!({"query": "SELECT name FROM users WHERE id = ? OR name = ?", "params": [1, "bob"]}))
        .await;
    assert_contains!(answer, "ann", "bob", "[2 rows]");
    let answer = setup
        .answer(json!({"query": "SELECT name FROM users WHERE id = :id", "params": {"id": 3}}))
        .await;
    assert_contains!(answer, "cy");
    for (query, params) in [
        ("SELECT ?", json!([1, 2])),
        ("SELECT ?", json!({"a": 1})),
        ("SELECT :a", json!({"b": 1})),
        ("SELECT :a", json!({"a": 1, "b": 1})),
        ("SELECT ?", json!([[1]])),
        ("SELECT ?", json!([u64::MAX])),
    ] {
        let refused = setup
            .refused(json!({"query": query, "params": params}))
            .await;
        assert_error!(refused, InvalidArgs);
    }
    let error = setup.refused(json!({"query": "SELECT ?"})).await;
    assert_error!(error, InvalidArgs);
}

#[tokio::test]
async fn an_empty_query_shows_the_schema() {
    let setup = SqliteFixture::new(USERS);
    let answer = setup.answer(json!({})).await;
    assert_contains!(answer, "1 table, 1 view", "table users: 3 rows");
    assert_contains!(
        answer,
        "CREATE TABLE users (id INTEGER",
        "CREATE INDEX users_by_name"
    );
    assert_contains!(answer, "view names\n  CREATE VIEW names");
}

#[tokio::test]
async fn reading_of_every_kind_is_allowed() {
    let setup = SqliteFixture::new(
        "CREATE VIRTUAL TABLE docs USING fts5(body); INSERT INTO docs VALUES ('the quick fox'), ('slow'); CREATE TABLE t (j); INSERT INTO t VALUES ('{\"a\": [1, 2]}');",
    );
    for (query, part) in cases! {
        (
            "SELECT highlight(docs, 0, '<', '>') FROM docs WHERE docs MATCH 'quick'",
            "the <quick> fox",
        ),
        ("SELECT value FROM t, json_each(t.j, '$.a') WHERE value > 1", "2"),
        ("SELECT j ->> '$.a[0]' FROM t", "1"),
        (
            "WITH RECURSIVE c(i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM c LIMIT 5) SELECT sum(i) OVER () FROM c",
            "15",
        ),
        ("EXPLAIN QUERY PLAN SELECT * FROM t", "SCAN t"),
        ("PRAGMA table_info(t)", "j"),
        ("PRAGMA user_version", "0"),
        ("SELECT name FROM pragma_table_list WHERE name = 't'", "t"),
        ("VALUES (1, 'x')", "x"),
        ("SELECT strftime('%Y', '2020-01-01'), upper('a'), printf('%05d', 7)", "00007"),
    } {
        let answer = setup.answer(json!({"query": query})).await;
        assert_contains!(answer, part; "{query}");
    }
}

#[tokio::test]
async fn a_misspelt_name_gets_the_near_one() {
    let setup = SqliteFixture::new(USERS);
    let refused = setup
        .refused(json!({"query": "SELECT nmae FROM user"}))
        .await;
    assert_error!(refused, InvalidArgs: "`nmae`: did you mean `name`?");
    assert_contains!(refused.model_text(), "`user`: did you mean `users`?");
    let refused = setup.refused(json!({"query": "SELEC 1"})).await;
    assert_contains!(refused.model_text(), "^");
}

#[tokio::test]
async fn an_empty_file_is_a_database_without_tables() {
    let setup = SqliteFixture::new(USERS);
    fs::write(setup.path("empty.db"), "").expect("a file");
    let answer = setup.answer(json!({"database_path": "empty.db"})).await;
    assert_contains!(answer, "0 tables");
    assert_eq!(
        fs::metadata(setup.path("empty.db")).expect("a file").len(),
        0
    );
}

#[tokio::test]
async fn a_damaged_table_is_called_damaged_in_the_overview() {
    let setup = SqliteFixture::new(
        "CREATE TABLE whole (a); INSERT INTO whole VALUES (1);
         CREATE TABLE broken (a); INSERT INTO broken VALUES (zeroblob(20000));",
    );
    let connection = Connection::open(setup.path("app.db")).expect("a database");
    let number = |sql: &str| {
        connection
            .query_row(sql, [], |row| row.get::<_, u32>(0))
            .expect("a number") as usize
    };
    let page = number("SELECT rootpage FROM sqlite_schema WHERE name = 'broken'");
    let size = number("PRAGMA page_size");
    drop(connection);
    let mut bytes = fs::read(setup.path("app.db")).expect("a file");
    bytes[(page - 1) * size..page * size].fill(0xEE);
    fs::write(setup.path("app.db"), bytes).expect("a file");
    let reply = setup.ask(json!({})).await.expect("an overview");
    let answer = reply_text(&reply);
    assert_contains!(answer, "table whole: 1 row");
    assert_contains!(
        answer,
        "table broken: rows not counted: database disk image is malformed"
    );
    let warnings = reply.meta.warnings.join("\n");
    assert_contains!(warnings, "damaged", "database disk image is malformed");
}

#[tokio::test]
async fn a_view_without_end_is_described_and_not_counted() {
    let setup = SqliteFixture::new(
        "CREATE VIEW endless AS WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c) SELECT i FROM c;
         CREATE TABLE wide (a); INSERT INTO wide WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 200000) SELECT i FROM c;",
    );
    let answer = setup.answer(json!({})).await;
    assert_contains!(answer, "table wide: 200,000 rows", "view endless");
}

#[tokio::test]
async fn a_secret_is_masked_before_its_text_is_cut() {
    let setup = SqliteFixture::new("CREATE TABLE t (a);");
    // The cut after 200 or 20,000 characters falls inside the secret, and so does the cut of a definition.
    for (before, format) in [(190, "table"), (19_990, "json"), (19_990, "csv")] {
        let long = format!("{}{SECRET}{}", "x".repeat(before), "y".repeat(200));
        let args = json!({"query": "SELECT ? AS a", "params": [long], "format": format, "max_chars": 60_000});
        let reply = setup.ask(args).await.expect("an answer");
        assert_lacks!(reply_text(&reply), &SECRET[..5]; "{format}");
        assert_contains!(reply_text(&reply), "x[REDACTED"; "{format}");
        assert_eq!(reply.meta.redactions, Some(1), "{format}");
    }
    let view = format!(
        "CREATE VIEW v AS SELECT '{}{SECRET}' AS a",
        "x".repeat(1_960)
    );
    setup.answer(json!({"query": view, "mode": "rw"})).await;
    let answer = setup.answer(json!({})).await;
    assert_lacks!(answer, &SECRET[..5]);
    assert_contains!(answer, "x[REDACTED");
}

#[tokio::test]
async fn a_spatial_index_is_read_without_leave_to_write() {
    let setup = SqliteFixture::new(
        "CREATE VIRTUAL TABLE places USING rtree(id, west, east, +name); INSERT INTO places VALUES (1, 2, 3, 'here');",
    );
    let rows = setup
        .answer(json!({"query": "SELECT name FROM places WHERE west < 5"}))
        .await;
    assert_contains!(rows, "here");
    assert_contains!(setup.answer(json!({})).await, "places"; "the overview lists the table");
    let before = setup.files();
    for change in [
        "INSERT INTO places VALUES (2, 2, 3, 'x')",
        "DELETE FROM places_node",
        "DROP TABLE places",
    ] {
        setup.refused(json!({"query": change})).await;
    }
    assert_eq!(setup.files(), before);
}
