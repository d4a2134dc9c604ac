//! The store of outputs, and in `sealing` the sealing of a reply. ReadOutput is tested in `state`.

mod sealing;

use std::path::Path;
use std::time::{Duration, SystemTime};

use punie_core::clock::{Clock, ExpiryClock};
use punie_core::ids::RequestId;
use punie_text::output::{
    FindOutputError, OutputLimits, OutputReadStop, OutputSearchError, OutputSearchQuery,
    OutputStore, OutputWindow,
};
use serde_json::json;
use tempfile::TempDir;

pub fn output_store() -> (TempDir, OutputStore) {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let store =
        OutputStore::open_output_folder(&dir.path().join("outputs")).expect("the store opens");
    (dir, store)
}

pub fn numbered_lines(count: usize) -> String {
    (1..=count).fold(String::new(), |text, n| text + &format!("line {n}\n"))
}

pub fn store_text(store: &OutputStore, content: &str) -> String {
    store
        .store_text(&RequestId::new(), 0, content)
        .expect("the text is stored")
        .as_str()
        .to_owned()
}

#[test]
fn a_handle_is_the_same_after_a_restart_and_names_no_path() {
    let (_dir, store) = output_store();
    let request = RequestId::parse("req-1").expect("an id");
    let handle = OutputStore::handle_for(&request, 0);
    assert_eq!(handle, OutputStore::handle_for(&request, 0));
    assert_ne!(handle, OutputStore::handle_for(&request, 1));
    assert_eq!(handle.as_str().len(), "out_".len() + 12);
    for text in [
        "../../etc/passwd",
        "out_../../../x",
        "out_0123456789AB",
        "out_0123",
        "",
        "out_0123456789ab/",
    ] {
        assert!(
            matches!(store.find(text), Err(FindOutputError::Malformed)),
            "{text}"
        );
    }
    assert!(matches!(
        store.find(handle.as_str()),
        Err(FindOutputError::Unknown)
    ));
}

#[cfg(unix)]
#[test]
fn only_the_owner_can_read_what_is_kept() {
    use std::os::unix::fs::PermissionsExt;
    let (dir, store) = output_store();
    let handle = store_text(&store, "private");
    let mode = |path: &Path| {
        std::fs::metadata(path)
            .expect("it is there")
            .permissions()
            .mode()
            & 0o777
    };
    let folder = dir.path().join("outputs");
    assert_eq!((mode(&folder), mode(&folder.join(handle))), (0o700, 0o600));
    std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o755)).expect("chmod");
    OutputStore::open_output_folder(&folder).expect("it opens again");
    assert_eq!(mode(&folder), 0o700);
}

#[test]
fn what_is_flushed_can_be_read_while_the_rest_is_written() {
    let (_dir, store) = output_store();
    let mut spool = store.create_spool(&RequestId::new(), 0).expect("a spool");
    spool.write(b"first\n");
    spool.flush();
    spool.write(b"second\n");
    let mut kept = store.find(spool.handle().as_str()).expect("it is there");
    assert_eq!(kept.read_totals().expect("read").lines, 1);
    drop(spool);
    assert_eq!(kept.read_totals().expect("read").lines, 2);
}

#[test]
fn one_output_stops_at_its_limit_and_says_so() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let limits = OutputLimits {
        per_output: 100_000,
        ..OutputLimits::default()
    };
    let store = OutputStore::with_limits(dir.path(), limits).expect("the store opens");
    let mut spool = store.create_spool(&RequestId::new(), 0).expect("a spool");
    for _ in 0..300 {
        spool.write(&[b'x'; 999]);
    }
    assert_contains!(
        spool.keep_stop_reason().expect("a reason"),
        "only the first 97 KB"
    );
    let mut kept = store.find(spool.handle().as_str()).expect("it is there");
    assert_eq!(kept.read_totals().expect("read").bytes, 100_000);
}

#[tokio::test]
async fn whoever_reads_an_output_that_was_cut_short_is_told() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let limits = OutputLimits {
        per_output: 100_000,
        ..OutputLimits::default()
    };
    let store = OutputStore::with_limits(dir.path(), limits).expect("the store opens");
    let handle = store_text(&store, &numbered_lines(20_000));
    for args in [
        json!({"offset": 5}),
        json!({"tail": 1}),
        json!({"pattern": "line 7$"}),
    ] {
        let mut args = args;
        args["handle"] = json!(handle);
        let page = crate::state::read_output(&store, args).await;
        assert_ends_with!(
            page,
            "[the output went on, but only the first 97 KB of the output are kept]"
        );
    }
}

#[cfg(target_os = "linux")]
#[test]
#[ignore = "slow: `.ci/run` runs it"]
fn a_disk_that_refuses_loses_the_rest_of_the_output_and_no_answer() {
    let place = tempfile::tempdir().expect("a temporary folder");
    std::fs::create_dir(place.path().join("work")).expect("a folder");
    let script = r#"trap "" XFSZ; ulimit -f 200; exec "$0" --home "$PWD/home" --workspace "$PWD/work" call --json Bash "$1""#;
    let ended = std::process::Command::new("bash")
        .args([
            "-c",
            script,
            env!("CARGO_BIN_EXE_punie-runner"),
            r#"{"command":"seq 1 300000"}"#,
        ])
        .current_dir(place.path())
        .env("PUNIE_HOME", place.path().join("home"))
        .output()
        .expect("bash runs");
    let answer: serde_json::Value = serde_json::from_slice(&ended.stdout).expect("an answer");
    let text = answer["result"].as_str().expect("a text");
    assert_starts_with!(text, "1\n2\n3\n"; "{answer}");
    assert_contains!(text, "\n299999\n300000"; "{answer}");
    assert_eq!(answer["meta"]["exitCode"], 0);
    assert_contains!(
        answer["meta"]["warnings"][0].as_str().expect("a warning"),
        "is not kept"
    );
    let store = OutputStore::open_output_folder(&place.path().join("home/state/outputs"))
        .expect("the store opens");
    let mut kept = store
        .find(answer["meta"]["handle"].as_str().expect("a handle"))
        .expect("the stored part");
    assert_eq!(kept.read_totals().expect("read").bytes, 200 << 10);
}

#[test]
fn a_reading_that_is_halted_ends() {
    let (_dir, store) = output_store();
    let handle = store_text(&store, &numbered_lines(100_000));
    let halt = OutputReadStop::default();
    let mut open = store
        .find(&handle)
        .expect("it is there")
        .with_stop(halt.clone());
    let window = OutputWindow {
        limit: 1,
        column: None,
        max_chars: 1_000,
    };
    assert_eq!(
        open.read_window(90_000, window).expect("a page").lines[0].number,
        90_000
    );
    halt.stop_reading();
    open.read_window(90_000, window).expect_err("no more pages");
    open.read_tail(window).expect_err("no tail either");
    let query = OutputSearchQuery {
        pattern: "x",
        context: 0,
        from: 1,
        limit: 1,
        max_chars: 1_000,
    };
    assert!(matches!(
        open.search_lines(&query),
        Err(OutputSearchError::Io(_))
    ));
}

#[test]
fn a_name_that_is_used_again_is_counted_anew() {
    let (_dir, store) = output_store();
    let request = RequestId::new();
    let handle = store
        .store_text(&request, 0, &numbered_lines(200_000))
        .expect("stored");
    let window = OutputWindow {
        limit: 1,
        column: None,
        max_chars: 1_000,
    };
    let line = |number| {
        let mut open = store.find(handle.as_str()).expect("it is there");
        open.read_window(number, window)
            .expect("a page")
            .lines
            .pop()
            .map(|line| line.text)
    };
    assert_eq!(line(190_000).as_deref(), Some("line 190000"));
    store
        .store_text(&request, 0, &numbered_lines(3))
        .expect("stored again");
    assert_eq!((line(2).as_deref(), line(190_000)), (Some("line 2"), None));
}

#[test]
fn the_oldest_outputs_go_first_but_none_that_is_being_written() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let limits = OutputLimits {
        in_total: 250_000,
        ..OutputLimits::default()
    };
    let store = OutputStore::with_limits(dir.path(), limits).expect("the store opens");
    let mut running = store.create_spool(&RequestId::new(), 0).expect("a spool");
    running.write(&vec![b'r'; 70_000]);
    running.flush();
    let handles: Vec<String> = (0..3)
        .map(|_| store_text(&store, &"x".repeat(80_000)))
        .collect();
    let there = |handle: &str| store.find(handle).is_ok();
    assert!(there(running.handle().as_str()) && !there(&handles[0]));
    assert!(there(&handles[1]) && there(&handles[2]));
    running.write(&vec![b'r'; 190_000]);
    running.flush();
    assert_contains!(running.keep_stop_reason().expect("a reason"), "in all");
    assert!(there(running.handle().as_str()) && !there(&handles[1]) && !there(&handles[2]));
    let refused = store
        .store_text(&RequestId::new(), 0, &"x".repeat(200_000))
        .expect_err("the store is full");
    assert_eq!(refused.kind(), std::io::ErrorKind::QuotaExceeded);
}

#[test]
fn an_output_that_is_too_old_is_gone_after_a_start() {
    let dir = tempfile::tempdir().expect("a temporary folder");
    let store = OutputStore::open_output_folder(dir.path()).expect("the store opens");
    let old = store_text(&store, "old");
    let young = store_text(&store, "young");
    std::fs::write(dir.path().join("notes.txt"), "of someone else").expect("written");
    let week = Duration::from_hours(7 * 24 + 1);
    for name in [old.as_str(), "notes.txt"] {
        let file = std::fs::File::options()
            .write(true)
            .open(dir.path().join(name))
            .expect("opened");
        file.set_modified(SystemTime::now() - week).expect("aged");
    }
    let clock = Clock::system();
    let now_ms = clock.now_ms();
    for (known_ms, is_kept) in [(None, true), (Some(now_ms), false)] {
        let known = ExpiryClock::from_known_time(clock.clone(), known_ms);
        let limits = OutputLimits::by_clock(&known);
        let store = OutputStore::with_limits(dir.path(), limits).expect("the store opens again");
        assert_eq!(store.find(&old).is_ok(), is_kept, "{known_ms:?}");
        assert!(store.find(&young).is_ok());
    }
    assert!(dir.path().join("notes.txt").exists());
}

#[test]
fn recovery_finds_what_a_killed_call_had_printed() {
    let (dir, store) = output_store();
    let request = RequestId::new();
    let mut spool = store.create_spool(&request, 0).expect("a spool");
    spool.write(numbered_lines(5_000).as_bytes());
    spool.flush();
    let again = OutputStore::open_output_folder(&dir.path().join("outputs"))
        .expect("the store opens again");
    let handle = OutputStore::handle_for(&request, 0);
    let tail = again.tail(&handle, 50).expect("read").expect("it is there");
    assert!(
        tail.starts_with("line ") && tail.ends_with("line 4999\nline 5000\n") && tail.len() <= 50,
        "{tail}"
    );
    assert_eq!(
        again
            .tail(&OutputStore::handle_for(&request, 1), 50)
            .expect("read"),
        None
    );
}
