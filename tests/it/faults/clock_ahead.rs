//! Starts of the whole program with this machine's clock far ahead (`clock_ahead.c`).

use std::ffi::OsStr;

use serde_json::{Value, json};

use super::preload::compile_library;
use crate::harness::caller::ToolCall;
use crate::harness::process::RunningProgram;
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::wait_until;

const DAYS_AHEAD: i64 = 400;

/// Returns the records that a clean-up could delete. They are the audit's first row number, the request's state, its
/// undo's exit code, and the numbers of output and call files.
async fn list_kept(
    setup: &RunnerFixture,
    request: &str,
) -> (Value, Value, Option<i32>, usize, usize) {
    let audit = setup.command(&["--json", "audit", "verify"]).await.json();
    let history = setup.command(&["--json", "history", request]).await.json();
    let undo = setup.command(&["undo", request, "--dry-run"]).await;
    let files = |name: &str| {
        let folder = std::fs::read_dir(setup.setting.home.join(name)).expect("a folder");
        folder.count()
    };
    (
        audit["firstSeq"].clone(),
        history["request"]["state"].clone(),
        undo.code,
        files("state/outputs"),
        files("state/calls"),
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f53_a_start_with_the_clock_far_ahead_deletes_nothing() {
    let mut setup = RunnerFixture::new().await;
    let runner = setup.run();
    let write = ToolCall::new("Write", &json!({"file_path": "new.txt", "content": "x"}));
    let request = setup.ask(write).await;
    setup.answer(&request).await.expect_ok();
    setup.bash("seq 100000").await.expect_ok();
    runner.terminate();
    runner.end().await;
    let kept = list_kept(&setup, &request).await;
    assert_eq!((&kept.0, kept.2), (&json!(1), Some(0)), "{kept:?}");
    assert!(kept.3 > 0 && kept.4 > 0, "{kept:?}");
    let library = compile_library("clock_ahead");
    let seconds = (DAYS_AHEAD * 86_400).to_string();
    let variables: [(&str, &OsStr); 2] = [
        ("LD_PRELOAD", library.as_ref()),
        ("CLOCK_AHEAD_S", seconds.as_ref()),
    ];
    // Twice while the backend is away, then once while it answers.
    setup.stop_backend().await;
    for has_backend in [false, false, true] {
        if has_backend {
            setup.start_backend().await;
        }
        // The clean-up of the trash deletes this file: its absence shows that the clean-up has run.
        let doomed = setup.setting.home.join("state/trash/doomed/looked");
        std::fs::write(&doomed, "").expect("written");
        let runner = RunningProgram::start_with(&setup.setting, &["run"], &variables);
        wait_until("the trash was looked through", || !doomed.exists()).await;
        if has_backend {
            let read = ToolCall::new("Read", &json!({"file_path": "new.txt"}));
            setup.call(read).await.expect_ok();
            runner
                .wait_for_log("this device's clock is not the backend's")
                .await;
        }
        runner.terminate();
        runner.end().await;
        let still = list_kept(&setup, &request).await;
        assert_eq!((&still.0, &still.1, still.2), (&kept.0, &kept.1, kept.2));
        assert!(still.3 >= kept.3 && still.4 >= kept.4, "{still:?} {kept:?}");
    }
}
