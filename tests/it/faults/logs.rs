//! The log's file is renamed, removed or cannot be written: the log goes on where it can, requests always.

use std::os::unix::fs::PermissionsExt as _;

use crate::harness::caller::Ask;
use crate::harness::stage::Stage;
use crate::harness::wait::until;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f64_a_log_that_is_taken_away_is_made_anew_and_one_that_is_full_disturbs_nobody() {
    let stage = Stage::new().await;
    let logs = stage.setting.home.join("logs");
    let log = logs.join("punie-runner.log");
    let read = || std::fs::read_to_string(&log).unwrap_or_default();
    let _runner = stage.run();
    let ask = async || stage.caller.have(Ask::bash("echo ran")).await;
    assert_eq!(ask().await.outcome, "ok");
    until("the answer in the log", || {
        read().contains("a call was answered")
    })
    .await;
    assert_eq!(
        std::fs::metadata(&log).expect("there").permissions().mode() & 0o777,
        0o600
    );
    assert!(!read().contains('\u{1b}'), "no colours in a file");

    std::fs::rename(&log, logs.join("taken")).expect("renamed");
    assert_eq!(ask().await.outcome, "ok");
    until("a new log", || read().contains("a call was answered")).await;
    std::fs::remove_file(&log).expect("removed");
    assert_eq!(ask().await.outcome, "ok");
    until("a new log", || read().contains("a call was answered")).await;
    let shown = stage.command(&["logs", "-n", "1000"]).await;
    assert_eq!(shown.code, Some(0), "{shown:?}");
    assert!(shown.out.contains("a call was answered"), "{shown:?}");

    std::fs::remove_file(&log).expect("removed");
    std::os::unix::fs::symlink("/dev/full", &log).expect("a full disk");
    for _ in 0..3 {
        assert_eq!(ask().await.outcome, "ok");
    }
    std::fs::remove_dir_all(&logs).expect("removed");
    assert_eq!(ask().await.outcome, "ok");
}
