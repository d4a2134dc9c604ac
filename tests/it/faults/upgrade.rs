//! Journals of other versions. An older one is upgraded with all its rows, after a backup, and in one step or not at
//! all. A newer one is left unchanged.

use std::path::{Path, PathBuf};

use punie_core::ids::RequestId;
use punie_engine::journal::{Journal, JournalReader, RequestState};
use rusqlite::Connection;
use serde_json::json;

use crate::harness::caller::ToolCall;
use crate::harness::process::RunningProgram;
use crate::harness::stage::RunnerFixture;

/// The tables of each version as shipped, and the rows in every state that its runners left.
const VERSIONS: &[(&str, &str)] = &[
    (
        include_str!("../../../migrations/journal/0001_requests.sql"),
        include_str!("../fixtures/journal/rows_1.sql"),
    ),
    (
        include_str!("../../../migrations/journal/0002_shells.sql"),
        include_str!("../fixtures/journal/rows_2.sql"),
    ),
    (
        include_str!("../../../migrations/journal/0003_life.sql"),
        include_str!("../fixtures/journal/rows_3.sql"),
    ),
    (
        include_str!("../../../migrations/journal/0004_signature.sql"),
        include_str!("../fixtures/journal/rows_4.sql"),
    ),
    (
        include_str!("../../../migrations/journal/0005_backends.sql"),
        include_str!("../fixtures/journal/rows_5.sql"),
    ),
    (
        include_str!("../../../migrations/journal/0006_periodic.sql"),
        include_str!("../fixtures/journal/rows_6.sql"),
    ),
    (
        include_str!("../../../migrations/journal/0007_task_names.sql"),
        include_str!("../fixtures/journal/rows_7.sql"),
    ),
    (
        include_str!("../../../migrations/journal/0008_titles.sql"),
        include_str!("../fixtures/journal/rows_8.sql"),
    ),
    (
        include_str!("../../../migrations/journal/0009_denials.sql"),
        include_str!("../fixtures/journal/rows_9.sql"),
    ),
    (
        include_str!("../../../migrations/journal/0010_caller.sql"),
        include_str!("../fixtures/journal/rows_10.sql"),
    ),
    (
        include_str!("../../../migrations/journal/0011_session.sql"),
        include_str!("../fixtures/journal/rows_11.sql"),
    ),
];

/// Writes a journal as a runner of this version left it.
fn make_journal(file: &Path, version: usize) {
    let raw = Connection::open(file).expect("opens");
    raw.pragma_update(None, "journal_mode", "wal").expect("set");
    for (tables, rows) in &VERSIONS[..version] {
        raw.execute_batch(tables).expect("tables");
        raw.execute_batch(rows).expect("rows");
    }
    set_version(&raw, version);
}

fn set_version(raw: &Connection, version: usize) {
    raw.pragma_update(None, "user_version", u32::try_from(version).expect("small"))
        .expect("set");
}

fn journal_of(setup: &RunnerFixture) -> PathBuf {
    setup.setting.home.join("state/journal.sqlite3")
}

fn request_state(reader: &JournalReader, id: &str) -> Option<RequestState> {
    reader
        .request_record(&RequestId::parse(id).expect("an id"))
        .expect("reads")
        .map(|life| life.state)
}

fn version_of(file: &Path) -> usize {
    let raw = Connection::open(file).expect("opens");
    let version: u32 = raw
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .expect("reads");
    version as usize
}

fn quick_check(file: &Path) -> String {
    let raw = Connection::open(file).expect("opens");
    raw.query_row("pragma quick_check", [], |row| row.get(0))
        .expect("reads")
}

#[test]
fn f60_every_version_s_rows_survive_and_are_kept_beside_as_they_were() {
    for version in 1..=VERSIONS.len() {
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("journal.sqlite3");
        make_journal(&file, version);
        let journal = Journal::open_for_last_backend(&file).expect("opens");
        let reader = journal.open_reader().expect("reads");
        let states = [
            ("accepted-write", RequestState::Accepted),
            ("cancelled-bash", RequestState::Accepted),
            ("started-bash", RequestState::Started),
            ("started-read", RequestState::Started),
            ("finished-read", RequestState::Finished),
            ("delivered-bash", RequestState::Delivered),
            ("undeliverable-bash", RequestState::Undeliverable),
        ];
        for (id, was) in states {
            assert_eq!(
                request_state(&reader, id),
                Some(was),
                "version {version}: {id}"
            );
        }
        assert_eq!(
            reader.started_requests_here().expect("reads").len()
                + reader.accepted_requests().expect("reads").len(),
            4
        );
        let history = reader.read_full_history("delivered-bash").expect("reads");
        let entry = history.and_then(|history| history.entry).expect("there");
        let title = (version >= 8).then_some("echo ran");
        assert_eq!(entry.title.as_deref(), title, "version {version}");
        let run_ms = (version >= 9).then_some(14);
        assert_eq!(entry.end.run_ms, run_ms, "version {version}");
        let waiting = RequestId::parse("accepted-write").expect("an id");
        let waiting = reader.unfinished_request(&waiting).expect("reads");
        let waiting = waiting.expect("there").request;
        let client = waiting.session.map(|session| session.client.clone());
        let shown = (version >= 11).then_some("Claude Code");
        assert_eq!(client.as_deref(), shown, "version {version}");
        let caller = waiting.caller;
        let named = (version >= 10).then_some("ci");
        assert_eq!(caller.as_deref(), named, "version {version}");
        assert_eq!(reader.undelivered_requests().expect("reads").len(), 1);
        assert_eq!(reader.child_processes().expect("reads").len(), 1);
        assert_eq!(
            reader.list_shell_rows().expect("reads").len(),
            if version > 1 { 2 } else { 0 }
        );
        assert_eq!(
            reader.read_fact("cursor").expect("reads").as_deref(),
            Some("0")
        );
        let backup = dir.path().join(format!("journal.sqlite3.v{version}"));
        assert_eq!(
            backup.exists(),
            version < VERSIONS.len(),
            "version {version}"
        );
        if backup.exists() {
            assert_eq!(version_of(&backup), version);
            assert_eq!(quick_check(&backup).as_str(), "ok");
            let raw = Connection::open(&backup).expect("opens");
            let rows: u32 = raw
                .query_row("select count(*) from request", [], |row| row.get(0))
                .expect("reads");
            // From version 5 on, one request belongs to another backend.
            assert_eq!(rows as usize, states.len() + usize::from(version >= 5));
        }
        assert_eq!(version_of(&file), VERSIONS.len());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: `.ci/run` runs it"]
async fn f60_what_every_version_left_is_settled_by_the_rules() {
    for version in 1..=VERSIONS.len() {
        let setup = RunnerFixture::new().await;
        setup.write("found.txt", "it is there\n");
        make_private(&journal_of(&setup), version);
        let bash = json!({ "command": "echo ran >> effects" });
        let write = json!({ "file_path": "written.txt", "content": "by the fixture\n" });
        let read = json!({ "file_path": "found.txt" });
        let left = [
            ("accepted-write", "Write", &write),
            ("cancelled-bash", "Bash", &bash),
            ("started-bash", "Bash", &bash),
            ("started-read", "Read", &read),
            ("finished-read", "Read", &read),
        ];
        for (id, tool, args) in left {
            setup
                .ask(
                    ToolCall::new(tool, args)
                        .with("requestId", json!(id))
                        .in_conversation(id),
                )
                .await;
        }
        // The old runner held the lease of the call that it had started.
        let held = "update requests set lease_id = '01890a5d-ac96-774b-bcce-b302099a8057', \
                    lease_expires_at_ms = 9e15 where request_id = 'started-bash'";
        assert_eq!(setup.database().execute(held, []).expect("held"), 1);
        let _runner = setup.run();
        // From version 11 on, a session sent the request, for a folder that this runner does not have.
        let (verdict, written) = if version < 11 {
            (("ok", ""), "by the fixture\n")
        } else {
            (("error", "outside_workspace"), "")
        };
        assert_eq!(setup.answer("accepted-write").await.verdict(), verdict);
        assert_eq!(setup.read("written.txt"), written, "version {version}");
        assert_eq!(setup.answer("cancelled-bash").await.outcome, "cancelled");
        setup
            .answer("started-bash")
            .await
            .expect_error("interrupted");
        assert_contains!(setup.answer("started-read").await.text(), "it is there");
        assert_eq!(
            setup.answer("finished-read").await.text(),
            "as the old version recorded it"
        );
        assert_eq!(setup.read("effects"), "", "version {version}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f60_what_belongs_to_no_known_backend_waits_for_a_configured_one() {
    let setup = RunnerFixture::new().await;
    make_private(&journal_of(&setup), 4);
    let write = json!({ "file_path": "written.txt", "content": "by the fixture\n" });
    setup
        .ask(
            ToolCall::new("Write", &write)
                .with("requestId", json!("accepted-write"))
                .in_conversation("accepted-write"),
        )
        .await;
    let dev = RunningProgram::start(&setup.setting, &["dev", "--json"]);
    dev.wait_for_log("the catalog is published").await;
    let status = setup.status().await;
    let waiting = &status["otherBackends"];
    assert_eq!(waiting.as_array().map(Vec::len), Some(1), "{status}");
    assert_fields!(waiting, {"/0/url": null, "/0/results": 1}; "{status}");
    let words = setup.command(&["status", "-v"]).await.out;
    assert_contains!(
        words,
        "4 requests and 1 result wait until a runner starts with"
    );
    dev.stop().await;
    assert_eq!(setup.state("accepted-write"), Some(RequestState::Accepted));
    let _runner = setup.run();
    setup.answer("accepted-write").await.expect_ok();
    assert_eq!(setup.read("written.txt"), "by the fixture\n");
}

/// Writes the same journal with access for its owner alone, as in a home.
fn make_private(file: &Path, version: usize) {
    make_journal(file, version);
    std::fs::set_permissions(file, std::os::unix::fs::PermissionsExt::from_mode(0o600))
        .expect("set");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f61_a_journal_of_a_newer_version_is_refused_and_left_byte_by_byte() {
    let setup = RunnerFixture::new().await;
    let file = journal_of(&setup);
    make_private(&file, VERSIONS.len());
    // The log has rows that no checkpoint has moved into the file.
    let raw = Connection::open(&file).expect("opens");
    set_version(&raw, VERSIONS.len() + 1);
    raw.execute_batch("create table later (n)").expect("made");
    let log = file.with_file_name("journal.sqlite3-wal");
    let kept = [
        std::fs::read(&file).expect("reads"),
        std::fs::read(&log).expect("reads"),
    ];
    drop(raw);
    std::fs::write(&file, &kept[0]).expect("written");
    std::fs::write(&log, &kept[1]).expect("written");
    assert!(!kept[1].is_empty());

    let ended = setup.run().end().await;
    assert_eq!(ended.code, Some(73), "{ended:?}");
    assert_contains!(ended.log, "newer version");
    assert!(
        std::fs::read(&file).expect("reads") == kept[0],
        "the file is as it was"
    );
    assert!(
        std::fs::read(&log).expect("reads") == kept[1],
        "its log is as it was"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f62_a_crash_amid_the_change_leaves_the_old_tables_and_a_backup() {
    for nth in 1..VERSIONS.len() {
        let setup = RunnerFixture::new().await;
        let file = journal_of(&setup);
        make_private(&file, 1);
        let point = format!("journal.migrating=kill@{nth}");
        let runner = RunningProgram::start_with(
            &setup.setting,
            &["run"],
            &[("PUNIE_FAILPOINTS", point.as_ref())],
        );
        let ended = runner.end().await;
        assert_eq!(ended.code, None, "it was killed: {ended:?}");
        let backup = file.with_file_name("journal.sqlite3.v1");
        assert_eq!(version_of(&backup), 1);
        assert_eq!(quick_check(&backup).as_str(), "ok");
        assert_eq!((version_of(&file), quick_check(&file).as_str()), (1, "ok"));
        let journal = Journal::open_for_last_backend(&file).expect("opens");
        assert_eq!(
            request_state(&journal.open_reader().expect("reads"), "finished-read"),
            Some(RequestState::Finished)
        );
        assert_eq!(version_of(&file), VERSIONS.len());
    }
}
