//! Histories and bookmarks that are damaged, endless, locked, or no files.

use super::*;
use crate::test_places::open_database;

#[test]
fn one_damaged_profile_takes_nothing_from_the_others() {
    let home = tempfile::tempdir().expect("a folder");
    let root = ".config/chromium";
    make_database(
        home.path(),
        &format!("{root}/Default/History"),
        &chromium_script("a.example"),
    );
    write(
        home.path(),
        &format!("{root}/Profile 1/History"),
        [b"SQLite format 3\0".as_slice(), &[0xff; 5000]].concat(),
    );
    write(
        home.path(),
        &format!("{root}/Profile 2/Bookmarks"),
        "{\"roots\": [[[",
    );
    make_database(
        home.path(),
        &format!("{root}/Profile 3/History"),
        "CREATE TABLE urls (id INTEGER, url TEXT)",
    );
    let report = collect("chromium", home.path(), System::Linux);
    assert_eq!(report.state, SourceState::Read);
    assert_eq!(report.sections[0].markdown, CHROMIUM_TEXT);
    assert_eq!(report.problems.len(), 3, "{:?}", report.problems);
    assert!(
        report.problems[0].starts_with("a history could not be read: "),
        "{:?}",
        report.problems
    );
    assert_eq!(
        report.problems[1],
        "a file of bookmarks could not be read: it is no valid JSON"
    );
    assert!(report.problems[2].ends_with("not one that this version of punie-runner knows"));
}

#[test]
fn a_history_that_never_ends_stops_with_the_budget() {
    let home = tempfile::tempdir().expect("a folder");
    let endless = "CREATE VIEW urls AS WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
            SELECT i AS id, 'https://a.example/' AS url, 'T' AS title, 1 AS visit_count, 0 AS hidden FROM n;
        CREATE TABLE visits (id INTEGER PRIMARY KEY, url INTEGER, visit_time INTEGER, transition INTEGER);
        INSERT INTO visits VALUES (1, 1, 99999999999999999, 0x30000000);";
    make_database(home.path(), ".config/chromium/Default/History", endless);
    let limits = Budget::begin(
        std::time::Duration::from_millis(300),
        1000,
        std::sync::Arc::default(),
    );
    let report = collect_chromium(
        "chromium",
        &CHROMIUM,
        &places(home.path(), System::Linux),
        &limits,
    );
    assert!(limits.is_exceeded(), "{report:?}");
}

#[test]
fn values_of_other_types_and_huge_ones_do_no_harm() {
    let home = tempfile::tempdir().expect("a folder");
    let script = format!(
        "{CHROMIUM_SCHEMA}
        INSERT INTO urls (id, url, title, visit_count, last_visit_time) VALUES (1, x'ff00', 7, 'many', 0), (2, NULL, NULL, -5, 0),
            (3, 'https://a.example/', CAST(x'fffe41' AS TEXT), 9223372036854775807, 0),
            (4, 'https://a.example/2', hex(zeroblob(1000000)), 9223372036854775807, 0),
            (5, 'https://b.example/' || hex(zeroblob(1000000)), 'Long', 1, 0);"
    );
    make_database(home.path(), ".config/chromium/Default/History", &script);
    let report = collect("chromium", home.path(), System::Linux);
    let text = only_text(&report);
    assert!(
        text.contains("- a.example (18446744073709551614)\n") && text.len() < 1000,
        "{text}"
    );
}

#[cfg(unix)]
#[test]
fn a_history_that_is_a_pipe_or_a_device_is_not_opened() {
    let home = tempfile::tempdir().expect("a folder");
    write(home.path(), ".config/chromium/Default/x", "");
    let link = |name: &str, target: &str| {
        let path = home.path().join(".config/chromium/Default").join(name);
        std::os::unix::fs::symlink(target, path).expect("a link");
    };
    link("History", "/dev/zero");
    link("Bookmarks", "/dev/zero");
    let report = collect("chromium", home.path(), System::Linux);
    assert!(matches!(report.state, SourceState::Failed(_)), "{report:?}");
}

#[cfg(unix)]
#[test]
fn a_browser_that_cannot_be_looked_at_is_not_absent() {
    for (source, system, root) in [
        ("chromium", System::Linux, ".config/chromium"),
        ("firefox", System::Linux, ".mozilla/firefox"),
        ("safari", System::MacOs, "Library/Safari"),
    ] {
        let home = tempfile::tempdir().expect("a folder");
        let root = home.path().join(root);
        write(home.path(), ".config/x", "");
        write(home.path(), ".mozilla/x", "");
        write(home.path(), "Library/x", "");
        std::os::unix::fs::symlink(&root, &root).expect("a link");
        let report = collect(source, home.path(), system);
        assert!(matches!(report.state, SourceState::Failed(_)), "{report:?}");
    }
}

#[test]
fn a_history_in_a_log_and_under_lock_is_read() {
    let home = tempfile::tempdir().expect("a folder");
    let path = ".config/chromium/Default/History";
    make_database(home.path(), path, CHROMIUM_SCHEMA);
    let browser = open_database(&home.path().join(path));
    browser.execute_batch("PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0;").expect("WAL");
    let rows = chromium_rows("a.example");
    browser.execute_batch(&rows).expect("rows in the log only");
    let report = collect("chromium", home.path(), System::Linux);
    assert_eq!(only_text(&report), CHROMIUM_TEXT);
    drop(browser);
}
