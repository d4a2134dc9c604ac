//! Stops of the runner: running calls may finish, the others are answered, and the backend learns that the device is
//! away.

use rustix::process::Signal;

use crate::harness::caller::ToolCall;
use crate::harness::on_terminal::OnTerminal;
use crate::harness::process::RunningProgram;
use crate::harness::running::is_alive;
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::{wait_for_some, wait_until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_may_finish_within_the_grace() {
    let setup = RunnerFixture::with_config("[limits]\ndrain_ms = 3600000\n").await;
    let runner = setup.run();
    let gate = "echo here > began; until [ -e go ]; do sleep 0.02; done; echo the end";
    let id = setup
        .ask(ToolCall::bash(gate).in_conversation("talk"))
        .await;
    setup.wait_for_line_in("began").await;
    let behind = setup
        .ask(ToolCall::bash("echo ran > behind").in_conversation("talk"))
        .await;
    setup
        .wait_for_state(&behind, punie_engine::journal::RequestState::Accepted)
        .await;
    wait_for_some("the device to be online", async || {
        setup.caller.sees_online().await.then_some(())
    })
    .await;
    runner.terminate();
    runner.wait_for_log("asked to stop").await;
    setup.write("go", "");
    let ended = runner.end().await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let answer = setup
        .caller
        .result(&id)
        .await
        .expect("delivered before the end");
    assert!(
        answer.outcome == "ok" && answer.text().contains("the end"),
        "{answer:?}"
    );
    assert!(
        !setup.caller.sees_online().await,
        "the last heartbeat reports the device as away"
    );
    // The call that had not started waits for the next process.
    assert_eq!(setup.read("behind"), "");
    setup.once().await;
    setup.answer(&behind).await.expect_ok();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_does_not_finish_is_ended_and_answered_as_interrupted() {
    let setup = RunnerFixture::with_config("[limits]\ndrain_ms = 0\n").await;
    let runner = setup.run();
    let id = setup
        .ask_bash("echo half of it; sleep 600 & echo $! > child; wait")
        .await;
    let child = setup.wait_for_line_in("child").await;
    runner.terminate();
    let ended = runner.end().await;
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let answer = setup
        .caller
        .result(&id)
        .await
        .expect("delivered before the end");
    assert_contains!(answer.expect_error("interrupted"), "half of it");
    assert!(!is_alive(&child));
    assert!(!setup.caller.sees_online().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stubborn_command_is_killed_and_answered() {
    let setup = RunnerFixture::with_config("[limits]\ndrain_ms = 0\n").await;
    let runner = setup.run();
    let command = "trap '' INT TERM; echo $$ > child; echo half of it; while :; do sleep 1; done";
    let id = setup.ask_bash(command).await;
    let child = setup.wait_for_line_in("child").await;
    runner.stop().await;
    let answer = setup
        .caller
        .result(&id)
        .await
        .expect("delivered before the end");
    answer.expect_error("interrupted");
    assert!(!is_alive(&child));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_request_to_stop_hurries() {
    // Without the second signal this would take an hour.
    let setup = RunnerFixture::with_config("[limits]\ndrain_ms = 3600000\n").await;
    let runner = setup.run();
    let command = "trap '' INT TERM; echo $$ > child; while :; do sleep 1; done";
    let id = setup.ask_bash(command).await;
    let child = setup.wait_for_line_in("child").await;
    runner.terminate();
    runner.wait_for_log("asked to stop").await;
    runner.terminate();
    let ended = runner.end().await;
    // On a busy machine the hurried stop may run out of time.
    let is_cut = ended
        .log
        .contains("the stop took too long and is cut short");
    assert_eq!(ended.code, Some(i32::from(is_cut)), "{ended:?}");
    wait_until("the command to end", || !is_alive(&child)).await;
    // The next runner answers the calls that the hurried stop left.
    let _runner = setup.run();
    setup.answer(&id).await.expect_error("interrupted");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f59_a_stop_while_the_backend_is_away_keeps_what_is_undelivered() {
    let mut setup = RunnerFixture::new().await;
    let runner = setup.run();
    let gate = "echo ran >> began; until [ -e go ]; do sleep 0.02; done; echo the end";
    let id = setup.ask_bash(gate).await;
    setup.wait_for_line_in("began").await;
    setup.stop_backend().await;
    runner.terminate();
    runner.wait_for_log("asked to stop").await;
    setup.write("go", "");
    assert_eq!(runner.end().await.code, Some(0));
    setup.start_backend().await;
    assert_eq!(setup.once().await["delivered"], 1);
    assert_contains!(setup.answer(&id).await.text(), "the end");
    assert_eq!(setup.read("began"), "ran\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runner_that_was_started_with_hangups_ignored_outlives_its_terminal() {
    let setup = RunnerFixture::new().await;
    for words in ["trap '' HUP", "trap '' HUP INT"] {
        let runner = RunningProgram::start_after(&setup.setting, words, &["run"]);
        runner.wait_for_log("the runner is up").await;
        runner.signal(Signal::HUP);
        if words.contains("INT") {
            runner.signal(Signal::INT);
        }
        setup.bash("echo still here").await.expect_ok();
        runner.terminate();
        let ended = runner.end().await;
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert_eq!(
            ended.log.matches("asked to stop").count(),
            1,
            "{}",
            ended.log
        );
    }
    // A runner that does not ignore hangups ends with its terminal. The tests themselves may run with hangups ignored.
    let not_ignored = if cfg!(target_os = "linux") {
        "exec env --default-signal=HUP \"$0\" \"$@\""
    } else {
        ""
    };
    let runner = RunningProgram::start_after(&setup.setting, not_ignored, &["run"]);
    runner.wait_for_log("the runner is up").await;
    runner.signal(Signal::HUP);
    assert_eq!(runner.end().await.code, Some(0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_terminal_shows_what_a_stop_waits_for() {
    let setup = RunnerFixture::new().await;
    let mut runner = OnTerminal::start(&setup.setting, &["run"]);
    runner.shows("Connected. Waiting for requests.").await;
    let id = setup.ask_bash("echo here > began; sleep 600").await;
    setup.wait_for_line_in("began").await;
    runner.interrupt();
    runner
        .shows("Stopping. 1 call still runs: waiting up to 10 s. Ctrl-C again ends it.\n")
        .await;
    runner.interrupt();
    assert_eq!(runner.end().await, Some(0), "{}", runner.shown());
    runner.shows("Stopped.\n").await;
    setup.answer(&id).await;
}
