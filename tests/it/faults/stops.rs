//! Stops and panics of the runner at a bad moment.

use crate::harness::caller::ToolCall;
use crate::harness::running::is_alive;
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::wait_until;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f49_a_poll_that_panics_is_one_that_failed() {
    let setup = RunnerFixture::new().await;
    let runner = setup.run_after("export PUNIE_FAILPOINTS=poll=panic@2");
    // The backend holds the first poll until there is a request.
    setup.bash("true").await.expect_ok();
    runner.wait_for_log("could not be polled").await;
    setup.bash("echo on").await.expect_ok();
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f58_a_stop_during_five_running_commands_leaves_none_unanswered() {
    let setup = RunnerFixture::with_config("[limits]\ndrain_ms = 2000\n").await;
    let runner = setup.run();
    let commands = [
        "until [ -e go ]; do sleep 0.02; done; echo finished",
        "until [ -e go ]; do sleep 0.02; done; echo finished",
        "sleep 600",
        "trap 'echo asked to end; exit' INT TERM; sleep 600 & wait",
        "trap '' INT TERM; while :; do sleep 1; done",
    ];
    let mut asked = Vec::new();
    for (n, command) in commands.iter().enumerate() {
        let begun = format!("echo half of it; echo $$ > begun.{n}; {command}");
        asked.push(
            setup
                .ask(ToolCall::bash(&begun).in_conversation(&format!("talk-{n}")))
                .await,
        );
    }
    let mut shells = Vec::new();
    for n in 0..commands.len() {
        shells.push(setup.wait_for_line_in(&format!("begun.{n}")).await);
    }
    runner.terminate();
    runner.wait_for_log("asked to stop").await;
    setup.write("go", "");
    assert_eq!(runner.end().await.code, Some(0));
    assert!(
        !shells.iter().any(|shell| is_alive(shell)),
        "nothing runs on"
    );
    for (n, id) in asked.iter().enumerate() {
        let answer = setup
            .caller
            .result(id)
            .await
            .unwrap_or_else(|| panic!("{n} is not delivered"));
        // Two seconds may be too short for the first two commands, which can end by themselves.
        let is_finished = n < 2 && answer.outcome == "ok";
        assert!(
            is_finished || answer.verdict() == ("error", "interrupted"),
            "{n}: {answer:?}"
        );
        assert_contains!(answer.text(), "half of it"; "{n}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_that_hangs_is_cut_short_and_the_next_life_answers() {
    let setup = RunnerFixture::with_config("[limits]\ndrain_ms = 0\n").await;
    let hanging = setup.setting.logs.join("hanging");
    let runner = setup.run_after(&format!(
        "export PUNIE_FAILPOINTS=drain.flush=hold:{}",
        hanging.display()
    ));
    let id = setup.ask_bash("echo $$ > begun; sleep 600").await;
    let shell = setup.wait_for_line_in("begun").await;
    runner.terminate();
    wait_until("the stop to hang", || hanging.exists()).await;
    runner.terminate();
    let ended = runner.end().await;
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(
        ended.log.contains("cut short") && !is_alive(&shell),
        "{ended:?}"
    );
    let next = setup.command(&["--once"]).await;
    assert_eq!(next.code, Some(0), "{next:?}");
    // The owner asked for the stop, so it does not count as a crash towards safe mode.
    assert_lacks!(next.log, "ended without a stop");
    setup.answer(&id).await.expect_error("interrupted");
}
