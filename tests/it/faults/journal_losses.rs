//! A journal that is locked, cut, emptied, removed or changed in its schema before the whole program starts. The
//! program starts all the same, and tells the owner. Not here: the rows carried over from a damaged file (corruption).

use std::path::PathBuf;

use rusqlite::Connection;

use crate::harness::stage::RunnerFixture;

/// Returns a device that was stopped after it answered a request, and the request's id.
async fn stopped_device() -> (RunnerFixture, String) {
    let setup = RunnerFixture::new().await;
    let runner = setup.run();
    let id = setup.ask_bash("true").await;
    setup.answer(&id).await.expect_ok();
    runner.terminate();
    runner.end().await;
    (setup, id)
}

fn journal_file(setup: &RunnerFixture) -> PathBuf {
    setup.setting.home.join("state/journal.sqlite3")
}

/// Starts a runner and waits until it has answered a request.
async fn start_and_answer(setup: &RunnerFixture) -> crate::harness::process::RunningProgram {
    let runner = setup.run();
    let answer = setup.bash("true").await;
    assert_eq!(answer.outcome, "ok", "{answer:?} {}", runner.log());
    runner
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_waits_for_a_journal_that_another_process_keeps_locked_and_says_so() {
    let (setup, _) = stopped_device().await;
    for mode in ["normal", "exclusive"] {
        let holder = Connection::open(journal_file(&setup)).expect("opens");
        holder
            .execute_batch(&format!("pragma locking_mode = {mode}; begin exclusive"))
            .expect("locked");
        if mode == "exclusive" {
            // An exclusive lock keeps readers out too.
            let status = setup.command(&["status"]).await;
            assert_contains!(
                status.log,
                "another process, such as a backup program, keeps the journal locked"
            );
        }
        let runner = setup.run();
        runner
            .wait_for_log("keeps this file locked; waiting for it up to 30 s")
            .await;
        holder.execute_batch("commit").expect("unlocked");
        drop(holder);
        setup.bash("true").await.expect_ok();
        runner.terminate();
        runner.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_schema_with_one_changed_byte_is_named_by_doctor_and_repaired_at_the_start() {
    for (object, from, to) in [
        ("request", "deadline_ms", b"deadlinf_ms".as_slice()),
        ("request", "deadline_ms", b"deadlin\xe5_ms"),
        ("request", "'accepted'", b"'acce`ted'"),
        ("kv", "value text", b"valuf text"),
        ("request_closed", "(closed_at_ms)", b"(started_at_ms)"),
    ] {
        let (setup, id) = stopped_device().await;
        let damaged = Connection::open(journal_file(&setup)).expect("opens");
        let update =
            "update sqlite_schema set sql = replace(sql, ?, cast(? as text)) where name = ?";
        damaged
            .execute_batch("pragma writable_schema = on")
            .expect("set");
        let changed = damaged
            .execute(update, (from, to, object))
            .expect("changed");
        assert_eq!(changed, 1, "{object}");
        drop(damaged);
        let doctor = setup.command(&["doctor"]).await.out;
        assert_contains!(doctor, "its stored schema differs in", object);
        let runner = start_and_answer(&setup).await;
        assert_contains!(runner.log(), "the journal was damaged"; "{object}");
        let status = setup.command(&["status"]).await.out;
        assert_contains!(status, "1 requests were carried over, none was lost"; "{object}");
        let life = setup.command(&["--json", "history", &id]).await.json();
        assert_eq!(life["request"]["outcome"], "ok", "{object}: {life}");
        runner.terminate();
        runner.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_journal_that_was_cut_emptied_or_removed_is_told_until_the_owner_acknowledges_it() {
    let (setup, _) = stopped_device().await;
    for loss in ["cut", "emptied", "removed"] {
        let file = journal_file(&setup);
        let bytes = std::fs::read(&file).expect("reads");
        for name in ["journal.sqlite3-wal", "journal.sqlite3-shm"] {
            let _ = std::fs::remove_file(file.with_file_name(name));
        }
        match loss {
            "cut" => std::fs::write(&file, &bytes[..bytes.len() / 2]).expect("written"),
            "emptied" => std::fs::write(&file, "").expect("written"),
            _ => std::fs::remove_file(&file).expect("removed"),
        }
        let runner = start_and_answer(&setup).await;
        let words = if loss == "cut" {
            "The journal was damaged"
        } else {
            "The journal was missing or empty"
        };
        assert_contains!(runner.log(), words; "{loss}");
        for command in [["status"].as_slice(), &["doctor"], &["ack"]] {
            let told = setup.command(command).await;
            assert_contains!(told.out, words; "{loss}: {command:?}");
        }
        let status = setup.command(&["--json", "status"]).await.json();
        assert_eq!(status["degraded"], serde_json::json!([]), "{loss}");
        runner.terminate();
        runner.end().await;
        let runner = start_and_answer(&setup).await;
        let status = setup.command(&["status"]).await.out;
        assert_lacks!(status, words; "{loss}: told again");
        runner.terminate();
        runner.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_home_that_was_put_back_from_an_older_copy_is_told() {
    let (setup, _) = stopped_device().await;
    let home = &setup.setting.home;
    let copy = setup.setting.home.with_extension("copy");
    let copy_folder = |from: &std::path::Path, to: &std::path::Path| {
        let copied = std::process::Command::new("cp")
            .arg("-a")
            .args([from, to])
            .status();
        assert!(copied.expect("cp runs").success());
    };
    copy_folder(home, &copy);
    let runner = setup.run();
    let later = setup.ask_bash("echo ran >> later").await;
    setup.answer(&later).await.expect_ok();
    runner.terminate();
    runner.end().await;
    std::fs::remove_dir_all(home).expect("removed");
    copy_folder(&copy, home);
    let words = "The backend has answers that this home does not know";
    let runner = start_and_answer(&setup).await;
    runner.wait_for_log(words).await;
    for command in [["status"].as_slice(), &["doctor"], &["ack"]] {
        let told = setup.command(command).await;
        assert_contains!(told.out, words; "{command:?}");
    }
    assert_eq!(setup.read("later"), "ran\n");
    let status = setup.command(&["status"]).await.out;
    assert_lacks!(status, words);
}
