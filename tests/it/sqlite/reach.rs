//! The files and the memory that SQLite uses besides the database of a statement. Examples are a journal that names
//! another file, sorts on the disk, and large values.

use std::fs;
use std::path::{Path, PathBuf};

use punie_tool::request::ErrorCode;
use rusqlite::Connection;
use serde_json::json;

use super::SqliteFixture;

const JOURNAL_MAGIC: [u8; 8] = [0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7];
const SECTOR: usize = 512;

/// Builds a hot rollback journal: the first page unchanged, and the name of a super-journal if `names` is given.
/// SQLite's description of its file format has this layout under "The Rollback Journal".
fn hot_journal(database: &Path, names: Option<&Path>) -> Vec<u8> {
    let bytes = fs::read(database).expect("a database");
    let page_size = u32::from(u16::from_be_bytes([bytes[16], bytes[17]]));
    let size = usize::try_from(page_size).expect("a size");
    let pages = u32::try_from(bytes.len() / size).expect("a number");
    let nonce = 7_u32;
    let sector = u32::try_from(SECTOR).expect("a number");
    let mut out = JOURNAL_MAGIC.to_vec();
    for number in [1, nonce, pages, sector, page_size] {
        out.extend(number.to_be_bytes());
    }
    out.resize(SECTOR, 0);
    let page = &bytes[..size];
    let sum = (1..size)
        .rev()
        .filter(|at| (size - at) % 200 == 0)
        .map(|at| u32::from(page[at]));
    out.extend(1_u32.to_be_bytes());
    out.extend(page);
    out.extend(sum.fold(nonce, u32::wrapping_add).to_be_bytes());
    if let Some(path) = names {
        let name = path.to_str().expect("a name").as_bytes();
        out.extend((0x4000_0000 / page_size + 1).to_be_bytes());
        out.extend(name);
        out.extend(u32::try_from(name.len()).expect("a length").to_be_bytes());
        out.extend(
            name.iter()
                .map(|byte| u32::from(*byte))
                .sum::<u32>()
                .to_be_bytes(),
        );
        out.extend(JOURNAL_MAGIC);
    }
    out
}

/// Sets up a database, and a folder and a file outside of the workspace that its journal may name.
fn hostile_desk() -> (SqliteFixture, tempfile::TempDir, PathBuf) {
    let setup = SqliteFixture::new("CREATE TABLE t (x); INSERT INTO t VALUES (41);");
    let outside = tempfile::tempdir().expect("a folder");
    let victim = outside.path().join("notes.txt");
    fs::write(&victim, "what the owner wrote").expect("a file");
    (setup, outside, victim)
}

#[tokio::test]
async fn a_journal_that_names_a_file_outside_gets_it_neither_read_nor_deleted() {
    let (setup, _outside, victim) = hostile_desk();
    fs::write(
        setup.path("app.db-journal"),
        hot_journal(&setup.path("app.db"), Some(&victim)),
    )
    .expect("a journal");
    let before = setup.files();
    for args in [
        json!({"query": "SELECT x FROM t"}),
        json!({}),
        json!({"query": "INSERT INTO t VALUES (2)", "mode": "rw"}),
    ] {
        let refused = setup.refused(args.clone()).await;
        assert_error!(refused, PolicyDenied; "{args}");
        for part in ["several databases", "notes.txt", "its own program"] {
            assert_contains!(refused.model_text(), part; "{args}");
        }
        assert_eq!(
            fs::read_to_string(&victim).expect("the file is there"),
            "what the owner wrote",
            "{args}"
        );
        assert_eq!(setup.files(), before, "{args}");
    }
}

#[tokio::test]
async fn a_journal_that_names_a_file_which_is_not_there_is_refused_alike() {
    let (setup, outside, _victim) = hostile_desk();
    let named = outside.path().join("gone");
    fs::write(
        setup.path("app.db-journal"),
        hot_journal(&setup.path("app.db"), Some(&named)),
    )
    .expect("a journal");
    let refused = setup.refused(json!({"query": "SELECT x FROM t"})).await;
    assert_error!(refused, PolicyDenied);
}

#[cfg(unix)]
#[tokio::test]
async fn a_journal_that_names_a_pipe_does_not_stop_the_query() {
    let (setup, outside, _victim) = hostile_desk();
    let pipe = outside.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, 0o600.into()).expect("a pipe");
    fs::write(
        setup.path("app.db-journal"),
        hot_journal(&setup.path("app.db"), Some(&pipe)),
    )
    .expect("a journal");
    for mode in ["ro", "rw"] {
        let query = if mode == "ro" {
            "SELECT x FROM t"
        } else {
            "INSERT INTO t VALUES (2)"
        };
        let refused = setup
            .refused(json!({"query": query, "mode": mode, "timeout_ms": 120_000}))
            .await;
        assert_error!(refused, PolicyDenied; "{mode}");
    }
    assert!(pipe.exists());
}

#[tokio::test]
async fn a_journal_that_names_no_other_file_is_rolled_back_as_ever() {
    let (setup, _outside, _victim) = hostile_desk();
    let journal = hot_journal(&setup.path("app.db"), None);
    // The journal holds the page from before an unfinished change.
    let mut damaged = fs::read(setup.path("app.db")).expect("a database");
    damaged[100..300].fill(0xff);
    fs::write(setup.path("app.db"), damaged).expect("a database");
    fs::write(setup.path("app.db-journal"), journal).expect("a journal");
    let before = setup.files();
    let answer = setup.answer(json!({"query": "SELECT x FROM t"})).await;
    assert_contains!(answer, "41", "snapshot");
    assert_eq!(
        setup.files(),
        before,
        "a reader leaves it to whoever may write"
    );
    let answer = setup
        .answer(json!({"query": "INSERT INTO t VALUES (2)", "mode": "rw"}))
        .await;
    assert_contains!(answer, "1 row affected");
    assert!(!setup.path("app.db-journal").exists());
    let count: i64 = Connection::open(setup.path("app.db"))
        .expect("a database")
        .query_row("SELECT sum(x) FROM t", [], |row| row.get(0))
        .expect("a sum");
    assert_eq!(count, 43);
}

#[tokio::test]
async fn an_empty_file_with_a_log_beside_it_keeps_both() {
    let setup = SqliteFixture::new("CREATE TABLE t (x);");
    fs::write(setup.path("empty.db"), "").expect("a file");
    for ending in ["-wal", "-shm"] {
        fs::write(setup.path(&format!("empty.db{ending}")), "left by somebody").expect("a file");
    }
    let before: Vec<String> = setup.files().into_keys().collect();
    let answer = setup
        .answer(json!({"database_path": "empty.db", "query": "SELECT 7 AS n"}))
        .await;
    assert_contains!(answer, "7");
    assert_eq!(setup.files().into_keys().collect::<Vec<_>>(), before);
}

#[tokio::test]
async fn a_sort_that_would_fill_the_disk_is_stopped_and_says_what_to_do() {
    let setup = SqliteFixture::new("CREATE TABLE t (x);");
    // The rows to sort are some 400 MB.
    let query = "WITH RECURSIVE c(x) AS (VALUES (1) UNION ALL SELECT x + 1 FROM c WHERE x < 1000)
        SELECT x, hex(zeroblob(200000)) y FROM c ORDER BY y DESC, x DESC";
    let refused = setup
        .refused(json!({"query": query, "timeout_ms": 120_000}))
        .await;
    assert_error!(refused, TooLarge: "256 MB", "temporary", "index", "LIMIT");
    // A sort below the limit still uses the disk.
    let query = query.replace("1000)", "300)");
    let answer = setup
        .answer(json!({"query": query, "timeout_ms": 120_000, "limit": 1}))
        .await;
    assert_contains!(answer, "300 | 0000");
}

#[tokio::test]
async fn many_large_values_in_one_row_are_refused_before_they_fill_the_memory() {
    let setup = SqliteFixture::new("CREATE TABLE t (x); INSERT INTO t VALUES (1);");
    let wide = |one: &str| vec![one; 200].join(", ");
    for query in [
        format!(
            "SELECT {}",
            wide("replace(hex(zeroblob(500000)), '00', 'aaaa')")
        ),
        format!("SELECT {}", wide("length(hex(zeroblob(1000000)) || x)")) + " FROM t",
        format!(
            "WITH a AS MATERIALIZED (SELECT hex(zeroblob(1000000)) z) SELECT {} FROM a",
            wide("z || z")
        ),
    ] {
        let refused = setup
            .refused(json!({"query": query, "timeout_ms": 120_000}))
            .await;
        assert_eq!(
            refused.stable_code(),
            ErrorCode::TooLarge,
            "{}: {refused}",
            &query[..60]
        );
        assert_contains!(refused.model_text(), "substr()", "fewer");
    }
    // A statement with few functions may use the whole limit for one value.
    let answer = setup
        .answer(json!({"query": "SELECT length(hex(zeroblob(7500000))) AS n"}))
        .await;
    assert_contains!(answer, "15000000");
    // As many columns with values of usual sizes are accepted.
    let query = format!(
        "SELECT {}",
        wide("replace(hex(zeroblob(1000)), '00', 'aaaa')")
    );
    let answer = setup
        .answer(json!({"query": query, "format": "csv", "max_chars": 200_000}))
        .await;
    assert_contains!(answer, "aaaa");
}

#[tokio::test]
async fn one_long_value_in_many_columns_is_stopped_before_it_fills_the_memory() {
    let long = "hex(zeroblob(3750000))";
    let setup = SqliteFixture::new(&format!(
        "CREATE TABLE t (a, b); INSERT INTO t VALUES ({long}, {long});"
    ));
    let many = vec!["a, b"; 300].join(", ");
    let refused = setup
        .refused(json!({"query": format!("SELECT {many} FROM t")}))
        .await;
    assert_error!(refused, TooLarge: "256 MB", "fewer", "substr()");
    let answer = setup
        .answer(json!({"query": "SELECT a, b, a, b FROM t"}))
        .await;
    assert_contains!(answer, "7,500,000 characters");
}
