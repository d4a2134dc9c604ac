//! SqliteQuery on real databases: what it answers, what it refuses, and that it leaves no trace.
#![expect(clippy::disallowed_methods, reason = "tests make their own files and processes")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use punie_runner::acp::Workspace;
use punie_runner::handlers::sqlite::{SqliteDeps, tools};
use punie_runner::ids::RequestId;
use punie_runner::request::{ErrorCode, Reply};
use punie_runner::tool::{Registry, ToolCx, ToolError};
use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;

#[cfg(target_os = "linux")]
use crate::harness::flip::Flip;
use crate::harness::tools::{call, call_with, registry, text};

const USERS: &str = "
    CREATE TABLE users (id INTEGER PRIMARY KEY, name TEXT NOT NULL, big INTEGER, photo BLOB);
    CREATE INDEX users_by_name ON users (name);
    CREATE VIEW names AS SELECT name FROM users;
    INSERT INTO users VALUES (1, 'ann', 9007199254740993, x'89504e470d0a1a0a0000'), (2, 'bob', NULL, NULL), (3, 'cy', -1, x'01');
";

struct Desk {
    dir: TempDir,
    scratch: TempDir,
    tools: Registry,
}

impl Desk {
    fn new(sql: &str) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        let scratch = tempfile::tempdir().expect("a folder");
        let connection = Connection::open(dir.path().join("app.db")).expect("a database");
        connection.execute_batch(sql).expect("a schema");
        drop(connection);
        let workspace = Workspace::open(&[dir.path().to_owned()]).expect("a workspace");
        let tools = registry(tools(SqliteDeps { workspace, scratch: scratch.path().join("deeper") }));
        Self { dir, scratch, tools }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    async fn ask(&self, mut args: Value) -> Result<Reply, ToolError> {
        let map = args.as_object_mut().expect("an object");
        map.entry("database_path").or_insert(json!("app.db"));
        call(&self.tools, "SqliteQuery", args).await
    }

    async fn answer(&self, args: Value) -> String {
        text(&self.ask(args).await.expect("an answer")).to_owned()
    }

    async fn refused(&self, args: Value) -> ToolError {
        match self.ask(args.clone()).await {
            Err(error) => error,
            Ok(reply) => panic!("{args} was answered: {}", text(&reply)),
        }
    }

    /// Every file of the workspace with its size: to see that nothing was left or changed.
    fn files(&self) -> BTreeMap<String, Vec<u8>> {
        contents(self.dir.path())
    }
}

fn contents(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    fs::read_dir(dir)
        .expect("a folder")
        .map(|entry| entry.expect("an entry"))
        .filter(|entry| entry.file_type().expect("a kind").is_file())
        .map(|entry| {
            (entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path()).expect("a file"))
        })
        .collect()
}

#[tokio::test]
async fn rows_come_as_a_table_with_exact_values() {
    let desk = Desk::new(USERS);
    let before = desk.files();
    let answer =
        desk.answer(json!({"query": "SELECT id, name, big, photo, id FROM users ORDER BY id"})).await;
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
    assert_eq!(desk.files(), before);
}

#[tokio::test]
async fn json_and_csv_are_what_their_readers_expect() {
    let desk = Desk::new(USERS);
    let answer = desk.answer(json!({"query": "SELECT id, big FROM users", "format": "json"})).await;
    let body = answer.rsplit_once('\n').expect("a footer").0;
    assert_eq!(
        serde_json::from_str::<Value>(body).expect("JSON")["rows"][0],
        json!([1, 9_007_199_254_740_993_i64])
    );
    let answer = desk.answer(json!({"query": "SELECT 'a,b' AS x, NULL AS y", "format": "csv"})).await;
    assert_eq!(answer, "x,y\n\"a,b\",\n[1 row]");
}

#[tokio::test]
async fn pages_say_whether_there_is_more() {
    let desk = Desk::new(
        "CREATE TABLE n (i); WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 250) INSERT INTO n SELECT i FROM c;",
    );
    let answer = desk.answer(json!({"query": "SELECT i FROM n ORDER BY i"})).await;
    assert!(answer.ends_with("[100 rows (1-100); more rows exist: offset=100]"), "{answer}");
    let answer = desk.answer(json!({"query": "SELECT i FROM n ORDER BY i;  -- all\n", "offset": 200})).await;
    assert!(answer.ends_with("[50 rows (201-250)]"), "{answer}");
    let answer = desk.answer(json!({"query": "SELECT i FROM n", "offset": 900})).await;
    assert!(answer.contains("there are 250 rows"), "{answer}");
    let answer = desk.answer(json!({"query": "SELECT i FROM n LIMIT 3", "limit": 3})).await;
    assert!(answer.ends_with("[3 rows]"), "{answer}");
}

#[tokio::test]
async fn parameters_are_bound_and_checked() {
    let desk = Desk::new(USERS);
    let answer = desk
        .answer(json!({"query": "SELECT name FROM users WHERE id = ? OR name = ?", "params": [1, "bob"]}))
        .await;
    assert!(answer.contains("ann") && answer.contains("bob") && answer.contains("[2 rows]"), "{answer}");
    let answer =
        desk.answer(json!({"query": "SELECT name FROM users WHERE id = :id", "params": {"id": 3}})).await;
    assert!(answer.contains("cy"), "{answer}");
    for (query, params) in [
        ("SELECT ?", json!([1, 2])),
        ("SELECT ?", json!({"a": 1})),
        ("SELECT :a", json!({"b": 1})),
        ("SELECT :a", json!({"a": 1, "b": 1})),
        ("SELECT ?", json!([[1]])),
        ("SELECT ?", json!([u64::MAX])),
    ] {
        let refused = desk.refused(json!({"query": query, "params": params})).await;
        assert_eq!(refused.code(), ErrorCode::InvalidArgs, "{refused}");
    }
    assert_eq!(desk.refused(json!({"query": "SELECT ?"})).await.code(), ErrorCode::InvalidArgs);
}

#[tokio::test]
async fn an_empty_query_shows_the_schema() {
    let desk = Desk::new(USERS);
    let answer = desk.answer(json!({})).await;
    assert!(answer.contains("1 table, 1 view") && answer.contains("table users: 3 rows"), "{answer}");
    assert!(
        answer.contains("CREATE TABLE users (id INTEGER") && answer.contains("CREATE INDEX users_by_name"),
        "{answer}"
    );
    assert!(answer.contains("view names\n  CREATE VIEW names"), "{answer}");
}

#[tokio::test]
async fn reading_of_every_kind_is_allowed() {
    let desk = Desk::new(
        "CREATE VIRTUAL TABLE docs USING fts5(body); INSERT INTO docs VALUES ('the quick fox'), ('slow'); CREATE TABLE t (j); INSERT INTO t VALUES ('{\"a\": [1, 2]}');",
    );
    for (query, part) in [
        ("SELECT highlight(docs, 0, '<', '>') FROM docs WHERE docs MATCH 'quick'", "the <quick> fox"),
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
    ] {
        let answer = desk.answer(json!({"query": query})).await;
        assert!(answer.contains(part), "{query}: {answer}");
    }
}

#[tokio::test]
async fn hostile_statements_are_refused() {
    let desk = Desk::new(USERS);
    let outside = desk.scratch.path().join("written.db");
    let before = desk.files();
    for (query, code) in [
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
    ] {
        let refused = desk.refused(json!({"query": query})).await;
        assert_eq!(refused.code(), code, "{}: {refused}", &query[..query.len().min(80)]);
    }
    assert_eq!(desk.files(), before);
    assert!(!outside.exists());
}

#[tokio::test]
async fn a_hostile_view_gets_no_further_than_a_query() {
    let desk = Desk::new(
        "CREATE VIEW v AS SELECT load_extension('/tmp/x.so'); CREATE VIEW w AS SELECT randomblob(1000000000) AS r; CREATE TABLE t (a); CREATE TRIGGER g AFTER INSERT ON t BEGIN SELECT load_extension('/tmp/x.so'); END;",
    );
    let refused = desk.refused(json!({"query": "SELECT * FROM v"})).await;
    assert!(refused.text().contains("unsafe use of load_extension"), "{refused}");
    assert_eq!(desk.refused(json!({"query": "SELECT * FROM w"})).await.code(), ErrorCode::TooLarge);
    assert_eq!(
        desk.refused(json!({"query": "INSERT INTO t VALUES (1)"})).await.code(),
        ErrorCode::PolicyDenied
    );
}

#[tokio::test]
async fn a_query_without_end_stops_at_its_time_and_when_cancelled() {
    let desk = Desk::new(USERS);
    let bomb = "WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c) SELECT count(*) FROM c";
    let refused = desk.refused(json!({"query": bomb, "timeout_ms": 50})).await;
    assert_eq!(refused.code(), ErrorCode::Timeout, "{refused}");
    let cx = ToolCx::detached(RequestId::new());
    let cancel = cx.cancel.clone();
    let running = call_with(
        &desk.tools,
        "SqliteQuery",
        json!({"database_path": "app.db", "query": bomb, "timeout_ms": 600_000}),
        cx,
    );
    let (answer, ()) = tokio::join!(running, async { cancel.cancel() });
    assert_eq!(answer.expect_err("a cancel").code(), ErrorCode::Cancelled);
}

#[cfg(unix)]
#[tokio::test]
async fn only_regular_files_inside_are_opened() {
    let desk = Desk::new(USERS);
    let outside = tempfile::tempdir().expect("a folder");
    Connection::open(outside.path().join("o.db"))
        .expect("a database")
        .execute_batch(USERS)
        .expect("a schema");
    std::os::unix::fs::symlink(outside.path().join("o.db"), desk.path("link.db")).expect("a link");
    std::os::unix::fs::symlink("/dev/zero", desk.path("zero.db")).expect("a link");
    rustix::fs::mkfifoat(rustix::fs::CWD, desk.path("pipe.db"), 0o600.into()).expect("a pipe");
    fs::create_dir(desk.path("folder")).expect("a folder");
    fs::write(
        desk.path("text.db"),
        "this is no database, but it is long enough to be one, were it not for its first bytes. ".repeat(3),
    )
    .expect("a file");
    fs::copy(desk.path("app.db"), desk.path("side.db")).expect("a copy");
    std::os::unix::fs::symlink(outside.path().join("o.db"), desk.path("side.db-wal")).expect("a link");
    let outside_path = outside.path().join("o.db").display().to_string();
    for (path, code) in [
        ("link.db", ErrorCode::OutsideWorkspace),
        ("zero.db", ErrorCode::OutsideWorkspace),
        ("/dev/zero", ErrorCode::OutsideWorkspace),
        (outside_path.as_str(), ErrorCode::OutsideWorkspace),
        ("pipe.db", ErrorCode::InvalidArgs),
        ("folder", ErrorCode::IsDirectory),
        ("text.db", ErrorCode::NotText),
        ("side.db", ErrorCode::PolicyDenied),
        ("ap.db", ErrorCode::NotFound),
        (":memory:", ErrorCode::NotFound),
    ] {
        let refused = desk.refused(json!({"database_path": path, "query": "SELECT 1"})).await;
        assert_eq!(refused.code(), code, "{path}: {refused}");
    }
    let uri = format!("file:{outside_path}?mode=rwc");
    let refused = desk.refused(json!({"database_path": uri, "query": "SELECT 1"})).await;
    assert!(
        [ErrorCode::NotFound, ErrorCode::InvalidArgs, ErrorCode::OutsideWorkspace].contains(&refused.code()),
        "{refused}"
    );
    let refused = desk.refused(json!({"database_path": "ap.db", "query": "SELECT 1"})).await;
    assert!(refused.text().contains("app.db"), "{refused}");
}

#[tokio::test]
async fn strange_file_names_open_the_file_of_that_name() {
    let desk = Desk::new("PRAGMA journal_mode = WAL; CREATE TABLE t (a); INSERT INTO t VALUES (7);");
    for name in ["a b.db", "q?mode=memory.db", "h#x.db", "p%41.db", "file:x.db", "-v.db"] {
        fs::copy(desk.path("app.db"), desk.path(name)).expect("a copy");
        let before = desk.files();
        let answer = desk.answer(json!({"database_path": name, "query": "SELECT a FROM t"})).await;
        assert!(answer.contains('7'), "{name}: {answer}");
        assert_eq!(desk.files(), before, "{name}");
    }
}

#[tokio::test]
async fn a_wal_database_at_rest_is_read_without_a_trace() {
    let desk = Desk::new("PRAGMA journal_mode = WAL; CREATE TABLE t (a); INSERT INTO t VALUES (7);");
    let before = desk.files();
    assert_eq!(before.len(), 1, "the last connection removes its WAL");
    let answer = desk.answer(json!({"query": "SELECT a FROM t"})).await;
    assert!(answer.contains('7') && !answer.contains("snapshot"), "{answer}");
    assert_eq!(desk.files(), before);
}

#[tokio::test]
async fn a_wal_database_in_use_shows_what_its_writer_committed() {
    let desk = Desk::new("PRAGMA journal_mode = WAL; CREATE TABLE t (a);");
    let writer = Connection::open(desk.path("app.db")).expect("a writer");
    writer
        .execute_batch("BEGIN; INSERT INTO t VALUES (41); COMMIT; BEGIN; INSERT INTO t VALUES (99);")
        .expect("writes");
    let names: Vec<String> = desk.files().into_keys().collect();
    let answer = desk.answer(json!({"query": "SELECT a FROM t"})).await;
    assert!(answer.contains("41") && !answer.contains("99") && !answer.contains("snapshot"), "{answer}");
    assert_eq!(desk.files().into_keys().collect::<Vec<_>>(), names);
    writer.execute_batch("COMMIT").expect("the writer goes on");
    let answer = desk.answer(json!({"query": "SELECT a FROM t"})).await;
    assert!(answer.contains("99"), "{answer}");
}

#[tokio::test]
async fn a_wal_that_was_left_behind_is_read_from_a_snapshot() {
    let desk = Desk::new("PRAGMA journal_mode = WAL; CREATE TABLE t (a);");
    let writer = Connection::open(desk.path("app.db")).expect("a writer");
    writer.execute_batch("INSERT INTO t VALUES (41)").expect("a write");
    // What a killed program leaves, had its -shm been lost: as after a copy of the folder.
    for ending in ["", "-wal"] {
        fs::copy(desk.path(&format!("app.db{ending}")), desk.path(&format!("left.db{ending}")))
            .expect("a copy");
    }
    drop(writer);
    let before = desk.files();
    let answer = desk.answer(json!({"database_path": "left.db", "query": "SELECT a FROM t"})).await;
    assert!(answer.contains("41") && answer.contains("snapshot"), "{answer}");
    assert_eq!(desk.files(), before);
    let left: Vec<_> =
        fs::read_dir(desk.scratch.path().join("deeper")).expect("the scratch folder").collect();
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test]
async fn text_that_is_no_text_is_shown_safely() {
    let desk = Desk::new(
        "CREATE TABLE t (a); INSERT INTO t VALUES (CAST(x'61ff00621b5b316d' AS TEXT)), (printf('%.*c', 5000, 'x'));",
    );
    let reply = desk.ask(json!({"query": "SELECT a FROM t"})).await.expect("an answer");
    let answer = text(&reply);
    assert!(
        answer.contains("a\u{FFFD}\\0b\\u{1b}[1m") && answer.contains("... (5,000 characters)"),
        "{answer}"
    );
    assert!(!answer.contains('\0') && !answer.contains('\u{1b}'));
    assert_eq!(reply.meta.lossy_chars, Some(1));
}

#[tokio::test]
async fn a_misspelt_name_gets_the_near_one() {
    let desk = Desk::new(USERS);
    let refused = desk.refused(json!({"query": "SELECT nmae FROM user"})).await;
    assert_eq!(refused.code(), ErrorCode::InvalidArgs);
    assert!(refused.text().contains("`nmae`: did you mean `name`?"), "{refused}");
    assert!(refused.text().contains("`user`: did you mean `users`?"), "{refused}");
    let refused = desk.refused(json!({"query": "SELEC 1"})).await;
    assert!(refused.text().contains('^'), "{refused}");
}

#[tokio::test]
async fn an_empty_file_is_a_database_without_tables() {
    let desk = Desk::new(USERS);
    fs::write(desk.path("empty.db"), "").expect("a file");
    let answer = desk.answer(json!({"database_path": "empty.db"})).await;
    assert!(answer.contains("0 tables"), "{answer}");
    assert_eq!(fs::metadata(desk.path("empty.db")).expect("a file").len(), 0);
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_folder_exchanged_for_a_link_never_lets_outside_rows_in() {
    let desk = Desk::new("CREATE TABLE t (a); INSERT INTO t VALUES ('plain');");
    let outside = tempfile::tempdir().expect("a folder");
    fs::create_dir(desk.path("sub")).expect("a folder");
    for (folder, word, mode) in
        [(desk.path("sub"), "plain", "DELETE"), (outside.path().to_owned(), "secret", "WAL")]
    {
        for name in ["rollback.db", "mixed.db"] {
            let mode = if name == "mixed.db" { mode } else { "DELETE" };
            Connection::open(folder.join(name))
                .expect("a database")
                .execute_batch(&format!(
                    "PRAGMA journal_mode = {mode}; CREATE TABLE t (a); INSERT INTO t VALUES ('{word}');"
                ))
                .expect("a schema");
        }
    }
    std::os::unix::fs::symlink(outside.path(), desk.path("link")).expect("a link");
    let flip = Flip::start(&desk.path("sub"), &desk.path("link"));
    let mut found = 0;
    for turn in 0..2_000 {
        let name = if turn % 2 == 0 { "sub/rollback.db" } else { "sub/mixed.db" };
        if let Ok(reply) = desk.ask(json!({"database_path": name, "query": "SELECT a FROM t"})).await {
            assert!(!text(&reply).contains("secret"), "turn {turn}: {}", text(&reply));
            found += u32::from(text(&reply).contains("plain"));
        }
    }
    drop(flip);
    assert!(found > 0, "a query that never gives a row shows nothing");
}

#[tokio::test]
async fn a_damaged_table_is_called_damaged_in_the_overview() {
    let desk = Desk::new(
        "CREATE TABLE whole (a); INSERT INTO whole VALUES (1);
         CREATE TABLE broken (a); INSERT INTO broken VALUES (zeroblob(20000));",
    );
    let connection = Connection::open(desk.path("app.db")).expect("a database");
    let number =
        |sql: &str| connection.query_row(sql, [], |row| row.get::<_, u32>(0)).expect("a number") as usize;
    let page = number("SELECT rootpage FROM sqlite_schema WHERE name = 'broken'");
    let size = number("PRAGMA page_size");
    drop(connection);
    let mut bytes = fs::read(desk.path("app.db")).expect("a file");
    bytes[(page - 1) * size..page * size].fill(0xEE);
    fs::write(desk.path("app.db"), bytes).expect("a file");
    let reply = desk.ask(json!({})).await.expect("an overview");
    let answer = text(&reply);
    assert!(answer.contains("table whole: 1 row"), "{answer}");
    assert!(answer.contains("table broken: rows not counted: database disk image is malformed"), "{answer}");
    let warnings = reply.meta.warnings.join("\n");
    assert!(
        warnings.contains("damaged") && warnings.contains("database disk image is malformed"),
        "{warnings}"
    );
}
