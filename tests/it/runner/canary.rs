//! The runner's own trial reads, writes and commands, as reported in the health, in `status` and in `doctor`.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use punie_core::ids::RequestId;
use punie_engine::runner::{BackgroundCommands, EndedCommands, EndingCommands, TrialCommand};
use punie_tool::{ErrorCode, ToolError, ToolRegistry};
use serde_json::Value;

use crate::harness::inside::{RunnerInProcess, settings_with};
use crate::harness::stage::RunnerFixture;
use crate::harness::stepped_time::SteppedTime;
use crate::harness::wait::wait_for_some;

/// Waits until the backend has a health with the first trials, and returns it.
async fn reported_health(setup: &RunnerFixture) -> Value {
    let reported = async || {
        let health = setup.caller.health().await;
        health["canary"].is_object().then_some(health)
    };
    wait_for_some("the attempts in the health", reported).await
}

/// Does the same for a runner without failures, since only failures are reported at once. Its next regular heartbeat is
/// a minute away. So each attempt pauses or resumes the runner, which sends a heartbeat at once.
async fn reported_health_with_pauses(setup: &RunnerFixture) -> Value {
    let mut switches = ["pause", "resume"].into_iter().cycle();
    let reported = async || {
        let health = setup.caller.health().await;
        if health["canary"].is_object() {
            return Some(health);
        }
        let ended = setup.command(&[switches.next().expect("endless")]).await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        None
    };
    wait_for_some("the attempts in the health", reported).await
}

fn is_degraded(health: &Value) -> bool {
    let words = health["degraded"].as_array().expect("a list");
    words.contains(&"canary".into())
}

/// Returns the text in `status` and the level in `doctor` about the trials.
async fn told_to_owner(setup: &RunnerFixture) -> (Option<String>, Value) {
    let text_of = |item: &Value| item["text"].as_str().map(str::to_owned);
    let status = setup.status().await;
    let items = status["attention"].as_array().expect("a list");
    let item = items.iter().find(|item| item["about"] == "canary");
    let doctor = setup.command(&["--json", "doctor"]).await.json();
    let mut checks = doctor["checks"].as_array().expect("a list").iter();
    let check = checks.find(|check| check["id"] == "canary");
    (
        item.and_then(text_of),
        check.expect("a check")["level"].clone(),
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_healthy_runner_reads_writes_and_runs_a_command() {
    let setup = RunnerFixture::with_config("").await;
    let _runner = setup.run();
    let health = reported_health_with_pauses(&setup).await;
    for name in ["read", "write", "exec"] {
        assert_eq!(health["canary"][name], "ok", "{health}");
    }
    assert!(health["canary"]["atMs"].as_i64() > Some(0), "{health}");
    assert!(!is_degraded(&health), "{health}");
    assert!(!setup.setting.home.join("state/canary").exists());
    assert_eq!(told_to_owner(&setup).await, (None, "ok".into()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_attempt_is_told_and_stops_nothing() {
    let setup = RunnerFixture::with_config("").await;
    std::fs::create_dir(setup.setting.home.join("state/canary")).expect("made");
    let _runner = setup.run();
    let health = reported_health(&setup).await;
    let write = health["canary"]["write"].as_str().expect("a text");
    assert_contains!(write, "directory"; "{health}");
    assert_eq!(health["canary"]["read"], "ok", "{health}");
    assert!(is_degraded(&health), "{health}");
    setup.bash("true").await.expect_ok();
    let shown = async || match told_to_owner(&setup).await {
        (Some(text), check) => Some((text, check)),
        (None, _) => None,
    };
    let (text, check) = wait_for_some("the failure in `status`", shown).await;
    assert_contains!(text, &format!("failed: write: {write}"));
    assert_eq!(check, "problem");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_that_the_owner_refuses_are_no_failure() {
    let setup =
        RunnerFixture::with_config("[sandbox]\nconfine = false\nrequire = \"full\"\n").await;
    let _runner = setup.run();
    let health = reported_health_with_pauses(&setup).await;
    let exec = health["canary"]["exec"].as_str().expect("a text");
    assert_contains!(exec, "confinement"; "{health}");
    assert!(!is_degraded(&health), "{health}");
}

/// Lets only the second trial command fail.
#[derive(Default)]
struct FailingTrial(AtomicUsize);

impl BackgroundCommands for FailingTrial {
    fn end_commands<'a>(&'a self, _only: Option<&'a str>) -> EndingCommands<'a> {
        Box::pin(std::future::ready(EndedCommands::default()))
    }
    fn kill_processes(&self, _request: &RequestId) -> Vec<String> {
        Vec::new()
    }
    fn run_trial_command(&self) -> TrialCommand<'_> {
        let failed = self.0.fetch_add(1, Ordering::SeqCst) == 1;
        let error = || ToolError::new(ErrorCode::Io, "no process can be made");
        let result = if failed { Err(error()) } else { Ok(()) };
        Box::pin(std::future::ready(result))
    }
}

#[tokio::test]
async fn the_attempts_are_repeated_every_quarter_of_an_hour() {
    let setup = RunnerFixture::with_unheld_polls("").await;
    let mut time = SteppedTime::stop();
    let trials = Arc::new(FailingTrial::default());
    let runner = RunnerInProcess::with_stepped_time(
        &setup,
        &setup.setting.url,
        ToolRegistry::new([]).expect("no names, none twice"),
        settings_with(|_| {}),
        &mut time,
        |parts| parts.background_commands = trials.clone(),
    );
    let step = Duration::from_secs(5);
    let has_made = |count| trials.0.load(Ordering::SeqCst) >= count;
    time.move_until("the first trial", step, || has_made(1))
        .await;
    for (count, recorded) in [(2, "exec: no process can be made"), (3, "")] {
        let waited = time.move_until("a trial", step, || has_made(count)).await;
        let quarter = Duration::from_mins(14)..Duration::from_mins(18);
        assert!(quarter.contains(&waited), "{waited:?}");
        // The result is recorded at once, a quarter of an hour before the next trial can overwrite it.
        time.move_until("the failure in the journal", step, || {
            setup.journal_note("canary").as_deref() == Some(recorded)
        })
        .await;
    }
    drop((runner, time));
}
