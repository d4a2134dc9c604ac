//! Snapshots of databases that other processes hold.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use tempfile::tempdir;

use super::*;
use crate::test_places::open_database as open;

/// Where the other process finds the database, and what it does with it.
const DATABASE: &str = "PUNIE_TEST_DATABASE";
const SCRIPT: &str = "PUNIE_TEST_SCRIPT";
const REPEATED: &str = "PUNIE_TEST_REPEATED";
const TABLE: &str = "CREATE TABLE t (a); INSERT INTO t VALUES ('old');";

fn budget() -> Budget {
    Budget::begin(Duration::from_mins(10), 1_000_000, Arc::default())
}

/// Another process that has run a script on the database and keeps the connection open: locks are the process's.
struct OtherProcess(Child);

impl OtherProcess {
    fn start(database: &Path, script: &str) -> Self {
        Self::start_writer(database, script, "")
    }

    /// Starts a process that repeats a second script after the first.
    fn start_writer(database: &Path, script: &str, repeated: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("this program"))
            .args(["--exact", "--ignored", "--nocapture", "--test-threads=1"])
            .arg("snapshot::tests::only_by_name_other_process")
            .env(DATABASE, database)
            .envs([(SCRIPT, script), (REPEATED, repeated)])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process");
        let output = BufReader::new(child.stdout.take().expect("its output"));
        let mut lines = output.lines().map_while(Result::ok);
        assert!(lines.any(|line| line.ends_with("ready")), "it did not run");
        Self(child)
    }
}

impl Drop for OtherProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
#[ignore = "run as another process"]
#[expect(clippy::print_stdout, reason = "the test waits for this line")]
fn only_by_name_other_process() {
    let path = std::env::var_os(DATABASE).expect("a database");
    let script = std::env::var(SCRIPT).expect("a script");
    let connection = open(path.as_ref());
    connection.execute_batch(&script).expect("a script");
    println!("ready");
    let repeated = std::env::var(REPEATED).expect("a script");
    // An end, if the test cannot kill this process.
    for _ in 0..if repeated.is_empty() { 0 } else { 10_000 } {
        connection.execute_batch(&repeated).expect("a script");
    }
    let _ = io::stdin().lines().next();
    drop(connection);
}

fn values(snapshot: &Snapshot) -> Vec<String> {
    let mut select = snapshot
        .database
        .prepare("SELECT a FROM t")
        .expect("a query");
    let rows = select.query_map([], |row| row.get(0)).expect("rows");
    rows.map(|value| value.expect("a value")).collect()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let name = |entry: io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
    let mut names: Vec<String> = entries
        .map(|entry| name(entry).into_string().expect("a name"))
        .collect();
    names.sort();
    names
}

/// Takes a snapshot while another process holds the database, and checks that nothing is written beside it or left.
fn snapshot_beside(script: &str, expected: &[&str]) {
    let (folder, scratch) = (tempdir().expect("a folder"), tempdir().expect("a folder"));
    let database = folder.path().join("some 100% real?#.sqlite");
    let other = OtherProcess::start(&database, &format!("{TABLE}{script}"));
    let before = names(folder.path());
    let snapshot = Snapshot::take(&database, scratch.path(), &budget()).expect("a snapshot");
    assert_eq!(values(&snapshot), expected, "{script}");
    assert_eq!(snapshot.problem, None);
    drop(snapshot);
    drop(other);
    assert_eq!(names(folder.path()), before, "{script}");
    assert_eq!(names(scratch.path()), Vec::<String>::new());
}

#[test]
fn a_snapshot_has_the_log_that_is_not_checkpointed() {
    let script =
        "PRAGMA journal_mode = wal; PRAGMA wal_autocheckpoint = 0; INSERT INTO t VALUES ('new');";
    snapshot_beside(script, &["old", "new"]);
    // Firefox holds its database like this: the index of the log is in its memory only.
    let script = format!("PRAGMA locking_mode = exclusive; {script}");
    snapshot_beside(&script, &["old", "new"]);
}

#[test]
fn a_locked_database_is_copied_as_it_was_committed() {
    // Chromium holds its database like this.
    let script = "PRAGMA locking_mode = exclusive; INSERT INTO t VALUES ('new');";
    snapshot_beside(script, &["old", "new"]);
    // Changes that are not committed are in the file already, and taken back by its journal.
    let script = "PRAGMA cache_size = 1; PRAGMA cache_spill = 1; BEGIN EXCLUSIVE; UPDATE t SET a = 'not yet'; \
        CREATE TABLE filler (b); \
        INSERT INTO filler WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c LIMIT 5000) \
        SELECT randomblob(100) FROM c;";
    snapshot_beside(script, &["old"]);
}

#[test]
fn a_copy_beside_a_writer_has_whole_transactions() {
    // Between two transactions the program is busy for some time.
    let update = "BEGIN; UPDATE t SET a = a + 1 WHERE rowid = 1; UPDATE t SET a = a + 1 WHERE rowid = 2; COMMIT; \
        WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c LIMIT 400000) SELECT count(*) FROM c;";
    for mode in ["delete", "truncate", "wal"] {
        let (folder, scratch) = (tempdir().expect("a folder"), tempdir().expect("a folder"));
        let database = folder.path().join("written.sqlite");
        // The two rows are on different pages, and the log begins anew often.
        let script = format!(
            "PRAGMA locking_mode = exclusive; PRAGMA journal_mode = {mode}; PRAGMA synchronous = off; \
            PRAGMA wal_autocheckpoint = 8; CREATE TABLE t (a, b); \
            INSERT INTO t VALUES (0, zeroblob(50000)), (0, zeroblob(50000));"
        );
        let writer = OtherProcess::start_writer(&database, &script, update);
        for _ in 0..5 {
            let snapshot = match Snapshot::take(&database, scratch.path(), &budget()) {
                Ok(snapshot) => snapshot,
                Err(reason) => {
                    assert!(reason.contains("changed while it was copied"), "{reason}");
                    continue;
                }
            };
            let check = "SELECT max(a) - min(a), (SELECT * FROM pragma_integrity_check) FROM t";
            let checked = snapshot
                .database
                .query_row(check, [], |row| Ok((row.get(0)?, row.get(1)?)));
            let checked: (i64, String) = checked.expect("a row");
            assert_eq!(checked, (0, "ok".to_owned()), "{mode}");
        }
        drop(writer);
    }
}

#[test]
fn a_log_without_a_program_is_read_and_nothing_is_written_beside_it() {
    let (folder, scratch) = (tempdir().expect("a folder"), tempdir().expect("a folder"));
    let database = folder.path().join("left.sqlite");
    let script = format!("{TABLE} PRAGMA journal_mode = wal; INSERT INTO t VALUES ('new');");
    drop(OtherProcess::start(&database, &script));
    let log_index = folder.path().join("left.sqlite-shm");
    fs::remove_file(&log_index).expect("the index of the log");
    let before = names(folder.path());
    let snapshot = Snapshot::take(&database, scratch.path(), &budget()).expect("a snapshot");
    assert_eq!(values(&snapshot), ["old", "new"]);
    assert_eq!(names(folder.path()), before);
}

#[test]
fn a_very_large_database_is_read_in_place() {
    let (folder, scratch) = (tempdir().expect("a folder"), tempdir().expect("a folder"));
    let database = folder.path().join("large?.sqlite");
    let made = open(&database);
    made.execute_batch(TABLE).expect("a table");
    drop(made);
    let file = File::options().write(true).open(&database).expect("it");
    file.set_len(2 << 30).expect("a large file");
    let snapshot = Snapshot::take(&database, scratch.path(), &budget()).expect("a snapshot");
    assert_eq!(values(&snapshot), ["old"]);
    let problem = snapshot.problem.as_deref().expect("a problem");
    assert!(problem.contains("the newest entries may be missing"));
    assert_eq!(names(scratch.path()), Vec::<String>::new());
}

#[test]
fn what_is_no_database_is_refused_with_a_reason() {
    let (folder, scratch) = (tempdir().expect("a folder"), tempdir().expect("a folder"));
    let take = |name: &str, budget: &Budget| {
        let taken = Snapshot::take(&folder.path().join(name), scratch.path(), budget);
        taken.expect_err("no snapshot")
    };
    assert!(take("missing", &budget()).contains("No such file"));
    assert_eq!(take(".", &budget()), "it is no regular file");
    fs::write(folder.path().join("text"), "words ".repeat(1000)).expect("a file");
    assert!(take("text", &budget()).contains("damaged"));
    let made = open(&folder.path().join("cut"));
    made.execute_batch(TABLE).expect("a table");
    drop(made);
    let whole = fs::read(folder.path().join("cut")).expect("its bytes");
    fs::write(folder.path().join("cut"), &whole[..700]).expect("a file");
    assert!(take("cut", &budget()).contains("damaged"));
    let ended = Budget::begin(Duration::ZERO, 1, Arc::default());
    assert!(take("text", &ended).contains("its time ended"));
    assert_eq!(names(scratch.path()), Vec::<String>::new());
}

#[test]
fn a_query_ends_with_the_budget() {
    let (folder, scratch) = (tempdir().expect("a folder"), tempdir().expect("a folder"));
    let database = folder.path().join("views");
    let made = open(&database);
    made.execute_batch(
        "CREATE VIEW t AS WITH RECURSIVE c(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM c) SELECT i AS a FROM c;",
    )
    .expect("a view");
    drop(made);
    let cancelled = Arc::default();
    let budget = Budget::begin(Duration::from_mins(10), 10, Arc::clone(&cancelled));
    let snapshot = Snapshot::take(&database, scratch.path(), &budget).expect("a snapshot");
    cancelled.store(true, std::sync::atomic::Ordering::Relaxed);
    let count = snapshot
        .database
        .query_row("SELECT count(*) FROM t", [], |_| Ok(()));
    assert_eq!(
        error_text(&count.expect_err("no end"), &budget),
        "its time ended"
    );
}

#[test]
fn private_copies_are_closed_to_others_and_swept_after_a_kill() {
    let (folder, scratch) = (tempdir().expect("a folder"), tempdir().expect("a folder"));
    let database = folder.path().join("t.sqlite");
    let made = open(&database);
    made.execute_batch(TABLE).expect("a table");
    drop(made);
    let used = Snapshot::take(&database, scratch.path(), &budget()).expect("a snapshot");
    let used_names = names(scratch.path());
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let private = fs::metadata(scratch.path().join(&used_names[0])).expect("a folder");
        assert_eq!(private.permissions().mode() & 0o777, 0o700);
    }
    let left = scratch.path().join("signals-left");
    fs::create_dir(&left).expect("a folder");
    fs::write(left.join(LOCK_FILE), "").expect("a lock");
    fs::write(left.join("copy.sqlite"), "private").expect("a copy");
    fs::create_dir(scratch.path().join("signals-empty")).expect("a folder");
    fs::create_dir(scratch.path().join("others")).expect("a folder");
    sweep(scratch.path()).expect("a sweep");
    assert_eq!(
        names(scratch.path()),
        [vec!["others".to_owned()], used_names].concat()
    );
    assert_eq!(values(&used), ["old"]);
}
