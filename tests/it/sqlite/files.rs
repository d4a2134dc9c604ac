//! The files that SqliteQuery opens: only databases inside the workspace, with no new files beside them.

use std::fs;

use punie_tool::request::ErrorCode;
use rusqlite::Connection;
use serde_json::json;

use super::{SqliteFixture, USERS};
#[cfg(target_os = "linux")]
use crate::harness::flip::FlippingNames;
#[cfg(target_os = "linux")]
use crate::harness::tools::reply_text;

#[cfg(unix)]
#[tokio::test]
async fn h86_only_regular_files_inside_are_opened() {
    let setup = SqliteFixture::new(USERS);
    let outside = tempfile::tempdir().expect("a folder");
    Connection::open(outside.path().join("o.db"))
        .expect("a database")
        .execute_batch(USERS)
        .expect("a schema");
    std::os::unix::fs::symlink(outside.path().join("o.db"), setup.path("link.db")).expect("a link");
    std::os::unix::fs::symlink("/dev/zero", setup.path("zero.db")).expect("a link");
    rustix::fs::mkfifoat(rustix::fs::CWD, setup.path("pipe.db"), 0o600.into()).expect("a pipe");
    fs::create_dir(setup.path("folder")).expect("a folder");
    fs::write(
        setup.path("text.db"),
        "this is no database, but it is long enough to be one, were it not for its first bytes. "
            .repeat(3),
    )
    .expect("a file");
    fs::copy(setup.path("app.db"), setup.path("side.db")).expect("a copy");
    std::os::unix::fs::symlink(outside.path().join("o.db"), setup.path("side.db-wal"))
        .expect("a link");
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
        let refused = setup
            .refused(json!({"database_path": path, "query": "SELECT 1"}))
            .await;
        assert_eq!(refused.stable_code(), code, "{path}: {refused}");
    }
    let uri = format!("file:{outside_path}?mode=rwc");
    let refused = setup
        .refused(json!({"database_path": uri, "query": "SELECT 1"}))
        .await;
    assert!(
        [
            ErrorCode::NotFound,
            ErrorCode::InvalidArgs,
            ErrorCode::OutsideWorkspace
        ]
        .contains(&refused.stable_code()),
        "{refused}"
    );
    let refused = setup
        .refused(json!({"database_path": "ap.db", "query": "SELECT 1"}))
        .await;
    assert_contains!(refused.model_text(), "app.db");
}

#[tokio::test]
async fn strange_file_names_open_the_file_of_that_name() {
    let setup = SqliteFixture::new(
        "PRAGMA journal_mode = WAL; CREATE TABLE t (a); INSERT INTO t VALUES (7);",
    );
    for name in [
        "a b.db",
        "q?mode=memory.db",
        "h#x.db",
        "p%41.db",
        "file:x.db",
        "-v.db",
    ] {
        fs::copy(setup.path("app.db"), setup.path(name)).expect("a copy");
        let before = setup.files();
        let answer = setup
            .answer(json!({"database_path": name, "query": "SELECT a FROM t"}))
            .await;
        assert_contains!(answer, "7"; "{name}");
        assert_eq!(setup.files(), before, "{name}");
    }
}

#[tokio::test]
async fn h88_a_wal_database_at_rest_is_read_without_a_trace() {
    let setup = SqliteFixture::new(
        "PRAGMA journal_mode = WAL; CREATE TABLE t (a); INSERT INTO t VALUES (7);",
    );
    let before = setup.files();
    assert_eq!(before.len(), 1, "the last connection removes its WAL");
    let answer = setup.answer(json!({"query": "SELECT a FROM t"})).await;
    assert_contains!(answer, "7");
    assert_lacks!(answer, "snapshot");
    assert_eq!(setup.files(), before);
}

#[tokio::test]
async fn a_wal_database_in_use_shows_what_its_writer_committed() {
    let setup = SqliteFixture::new("PRAGMA journal_mode = WAL; CREATE TABLE t (a);");
    let writer = Connection::open(setup.path("app.db")).expect("a writer");
    writer
        .execute_batch(
            "BEGIN; INSERT INTO t VALUES (41); COMMIT; BEGIN; INSERT INTO t VALUES (99);",
        )
        .expect("writes");
    let names: Vec<String> = setup.files().into_keys().collect();
    let answer = setup.answer(json!({"query": "SELECT a FROM t"})).await;
    assert_contains!(answer, "41");
    assert_lacks!(answer, "99", "snapshot");
    assert_eq!(setup.files().into_keys().collect::<Vec<_>>(), names);
    writer.execute_batch("COMMIT").expect("the writer goes on");
    let answer = setup.answer(json!({"query": "SELECT a FROM t"})).await;
    assert_contains!(answer, "99");
}

#[tokio::test]
async fn a_wal_that_was_left_behind_is_read_from_a_snapshot() {
    let setup = SqliteFixture::new("PRAGMA journal_mode = WAL; CREATE TABLE t (a);");
    let writer = Connection::open(setup.path("app.db")).expect("a writer");
    writer
        .execute_batch("INSERT INTO t VALUES (41)")
        .expect("a write");
    // The files of a killed program without its -shm, as after a copy of the folder.
    for ending in ["", "-wal"] {
        fs::copy(
            setup.path(&format!("app.db{ending}")),
            setup.path(&format!("left.db{ending}")),
        )
        .expect("a copy");
    }
    drop(writer);
    let before = setup.files();
    let answer = setup
        .answer(json!({"database_path": "left.db", "query": "SELECT a FROM t"}))
        .await;
    assert_contains!(answer, "41", "snapshot");
    assert_eq!(setup.files(), before);
    let left: Vec<_> = fs::read_dir(setup.scratch.path().join("deeper"))
        .expect("the scratch folder")
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn h24_a_folder_exchanged_for_a_link_never_lets_outside_rows_in() {
    let setup = SqliteFixture::new("CREATE TABLE t (a); INSERT INTO t VALUES ('plain');");
    let outside = tempfile::tempdir().expect("a folder");
    fs::create_dir(setup.path("sub")).expect("a folder");
    for (folder, word, mode) in [
        (setup.path("sub"), "plain", "DELETE"),
        (outside.path().to_owned(), "secret", "WAL"),
    ] {
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
    std::os::unix::fs::symlink(outside.path(), setup.path("link")).expect("a link");
    let flip = FlippingNames::start(&setup.path("sub"), &setup.path("link"));
    let mut found = 0;
    for turn in 0..2_000 {
        let name = if turn % 2 == 0 {
            "sub/rollback.db"
        } else {
            "sub/mixed.db"
        };
        if let Ok(reply) = setup
            .ask(json!({"database_path": name, "query": "SELECT a FROM t"}))
            .await
        {
            assert_lacks!(reply_text(&reply), "secret"; "turn {turn}");
            found += u32::from(reply_text(&reply).contains("plain"));
        }
    }
    drop(flip);
    assert!(
        found > 0,
        "at least one query returns the row inside the workspace"
    );
}

#[tokio::test]
async fn a_database_that_stays_locked_is_read_from_a_snapshot() {
    let setup = SqliteFixture::new("CREATE TABLE t (a); INSERT INTO t VALUES (7);");
    let other = Connection::open(setup.path("app.db")).expect("a program");
    other
        .execute_batch("PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE;")
        .expect("a lock");
    let before = setup.files();
    let answer = setup.answer(json!({"query": "SELECT a FROM t"})).await;
    assert_contains!(answer, "7", "snapshot", "locked");
    assert_eq!(setup.files(), before);
    other
        .execute_batch("COMMIT")
        .expect("the other program goes on");
    drop(other);
    let answer = setup.answer(json!({"query": "SELECT a FROM t"})).await;
    assert_contains!(answer, "7");
    assert_lacks!(answer, "snapshot");
}

#[tokio::test]
async fn what_a_killed_program_left_unfinished_is_not_shown() {
    let setup = SqliteFixture::new("CREATE TABLE t (a); INSERT INTO t VALUES (7);");
    let other = Connection::open(setup.path("app.db")).expect("a program");
    // With a cache of two pages, SQLite writes into the database before the transaction ends.
    other
        .execute_batch("PRAGMA cache_size = 2; BEGIN; UPDATE t SET a = 8; CREATE TABLE u (b); INSERT INTO u WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c WHERE i < 300) SELECT randomblob(1000) FROM c;")
        .expect("a change under way");
    for ending in ["", "-journal"] {
        fs::copy(
            setup.path(&format!("app.db{ending}")),
            setup.path(&format!("left.db{ending}")),
        )
        .expect("a copy");
    }
    drop(other);
    let before = setup.files();
    assert!(
        before["left.db-journal"].len() > 512,
        "the journal holds pages to roll back"
    );
    let answer = setup
        .answer(json!({"database_path": "left.db", "query": "SELECT a FROM t"}))
        .await;
    assert_contains!(answer, "7", "snapshot", "killed");
    assert_eq!(setup.files(), before);
}

#[cfg(unix)]
#[tokio::test]
async fn a_companion_that_is_a_second_name_of_another_file_is_refused() {
    let setup = SqliteFixture::new(
        "PRAGMA journal_mode = WAL; CREATE TABLE t (a); INSERT INTO t VALUES (7);",
    );
    let kept = Connection::open(setup.path("app.db")).expect("a program");
    kept.execute_batch("INSERT INTO t VALUES (8)")
        .expect("a log");
    for (name, others) in [
        ("one", ["-wal", "-shm"]),
        ("two", ["-shm", "-wal"]),
        ("three", ["-journal", "-wal"]),
    ] {
        let database = format!("{name}.db");
        fs::copy(setup.path("app.db"), setup.path(&database)).expect("a copy");
        let notes = setup.path(&format!("{name}.txt"));
        fs::write(&notes, "what the owner wrote").expect("a file");
        let [linked, copied] = others.map(|ending| format!("{database}{ending}"));
        fs::hard_link(&notes, setup.path(&linked)).expect("a link");
        fs::copy(
            setup.path(&format!("app.db{}", others[1])),
            setup.path(&copied),
        )
        .expect("a copy");
        for mode in ["ro", "rw"] {
            let ask = json!({"database_path": database, "query": "SELECT a FROM t", "mode": mode});
            assert_error!(setup.refused(ask).await, PolicyDenied: "hard link"; "{linked}");
            assert_eq!(
                fs::read_to_string(&notes).expect("a file"),
                "what the owner wrote",
                "{linked}"
            );
        }
    }
}

#[tokio::test]
async fn no_copy_is_made_with_a_journal_that_is_too_large() {
    let setup = SqliteFixture::new("CREATE TABLE t (a); INSERT INTO t VALUES (7);");
    let other = Connection::open(setup.path("app.db")).expect("a program");
    other.execute_batch("BEGIN EXCLUSIVE").expect("a lock");
    let journal = fs::File::create(setup.path("app.db-journal")).expect("a journal");
    journal.set_len(129 << 20).expect("a size");
    let refused = setup.refused(json!({"query": "SELECT a FROM t"})).await;
    assert_error!(refused, TooLarge: "of its journal are more than the 128");
    assert!(
        !setup.scratch.path().join("deeper").exists(),
        "nothing was copied"
    );
}
