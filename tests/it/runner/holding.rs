//! A runner that the owner has paused, or that is in safe mode after crashes. It starts nothing new, but accepts
//! requests, lets running calls go on, and delivers recorded results.

use std::time::Duration;

use punie_engine::journal::RequestState;
use punie_home::{Home, OwnerSwitch, OwnerSwitches, SwitchState};
use punie_tool::ToolRegistry;
use serde_json::json;

use crate::harness::caller::ToolCall;
use crate::harness::inside::{RunnerInProcess, settings_with};
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::{wait_for_some, wait_until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pause_delays_new_requests_across_a_restart_and_lets_running_ones_finish() {
    let setup = RunnerFixture::new().await;
    let runner = setup.run();
    let running = setup
        .ask(
            ToolCall::bash("echo on >> on; until [ -e go ]; do sleep 0.02; done")
                .in_conversation("a"),
        )
        .await;
    setup.wait_for_line_in("on").await;
    let paused = setup
        .command(&["--json", "pause", "--reason", "lunch"])
        .await
        .json();
    assert_fields!(paused, {"paused": true, "changed": true, "inFlight": 1});
    runner.wait_for_log("nothing new is begun").await;
    let new = setup
        .ask(ToolCall::bash("echo new >> effects").in_conversation("b"))
        .await;
    let read = setup
        .ask(ToolCall::new("Glob", &json!({ "pattern": "*" })).in_conversation("c"))
        .await;
    let unwanted = setup
        .ask(ToolCall::bash("echo unwanted >> effects").in_conversation("d"))
        .await;
    setup
        .wait_for_state(&unwanted, RequestState::Accepted)
        .await;
    // The runner still handles a cancel, and a running call finishes.
    setup.caller.cancel(&unwanted).await;
    assert_eq!(setup.answer(&unwanted).await.outcome, "cancelled");
    setup.write("go", "");
    setup.answer(&running).await.expect_ok();
    setup
        .wait_for_state(&running, RequestState::Delivered)
        .await;
    wait_for_some("a heartbeat that reports the pause", async || {
        let health = setup.caller.health().await;
        (health["degraded"] == json!(["paused"]) && health["undelivered"] == 0).then_some(health)
    })
    .await;
    let status = setup.command(&["--json", "status"]).await.json();
    assert_fields!(status, {
        "/paused/reason": "lunch",
        "degraded": ["paused"],
        "/waiting/count": 2,
    });

    runner.kill();
    let pass = setup.command(&["--once", "--json"]).await;
    assert_eq!(pass.code, Some(1), "{pass:?}");
    assert_eq!(pass.json()["pending"], 2, "{pass:?}");
    let _runner = setup.run();
    let later = setup
        .ask(ToolCall::bash("echo later >> effects").in_conversation("b"))
        .await;
    setup.wait_for_state(&later, RequestState::Accepted).await;
    for id in [&new, &read, &later] {
        assert_eq!(setup.state(id), Some(RequestState::Accepted));
    }
    let resumed = setup.command(&["resume"]).await;
    assert_contains!(resumed.out, "Resumed", "3 requests begin now");
    for id in [&new, &read, &later] {
        setup.answer(id).await.expect_ok();
    }
    assert_eq!(setup.read("effects"), "new\nlater\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_three_crashes_it_begins_nothing_until_the_owner_resumes() {
    let setup = RunnerFixture::new().await;
    let config = setup.setting.home.join("config.toml");
    let text = std::fs::read_to_string(&config)
        .expect("there")
        .replace("crashes = 0", "crashes = 3");
    std::fs::write(&config, text).expect("written");
    // A stop does not count as a crash.
    setup.once().await;
    for _ in 0..3 {
        let runner = setup.run();
        runner.wait_for_log("the catalog is published").await;
        runner.kill();
    }
    let _runner = setup.run();
    let id = setup.ask_bash("echo ran >> effects").await;
    setup.wait_for_state(&id, RequestState::Accepted).await;
    let status = setup.command(&["--json", "status"]).await.json();
    assert_eq!(status["degraded"], json!(["safe_mode"]), "{status}");
    assert_eq!(status["safeMode"]["reason"], "3 crashes within 5 min");
    let shown = setup.command(&["status"]).await;
    assert_contains!(shown.out, "Attention    Safe mode for ");
    assert_eq!(setup.read("effects"), "");
    let resumed = setup.command(&["resume"]).await;
    assert_contains!(resumed.out, "Safe mode is over");
    setup.answer(&id).await.expect_ok();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn safe_mode_ends_by_itself_after_a_quiet_time() {
    let setup = RunnerFixture::new().await;
    let switches = OwnerSwitches::in_home(&Home::open_home(&setup.setting.home).expect("a home"));
    let on = SwitchState {
        since_ms: 1,
        reason: None,
    };
    switches
        .switch_on(OwnerSwitch::SafeMode, &on)
        .expect("written");
    let settings = |quiet| {
        settings_with(|settings| {
            settings.housekeeping_interval = Duration::from_millis(20);
            settings.crash_loop.safe_mode_for = quiet;
        })
    };
    let none = || ToolRegistry::new([Vec::new()]).expect("no tools");
    let runner = RunnerInProcess::start(&setup, none(), settings(Duration::from_hours(1)));
    let id = setup.ask(ToolCall::new("None", &json!({}))).await;
    setup.wait_for_state(&id, RequestState::Accepted).await;
    assert!(switches.read_switch(OwnerSwitch::SafeMode).is_some());
    runner.stop().await;
    let runner = RunnerInProcess::start(&setup, none(), settings(Duration::ZERO));
    setup.answer(&id).await.expect_error("unknown_tool");
    wait_until("the switch to be off", || {
        switches.read_switch(OwnerSwitch::SafeMode).is_none()
    })
    .await;
    runner.stop().await;
}
