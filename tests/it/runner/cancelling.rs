//! Requests that the caller cancels while they wait, while they run, or while no runner runs.

use crate::harness::caller::ToolCall;
use crate::harness::running::is_alive;
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::wait_until;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_taken_back_while_it_waits_never_runs() {
    let setup = RunnerFixture::new().await;
    let _runner = setup.run();
    let gate = "echo here > began; until [ -e go ]; do sleep 0.02; done";
    let first = setup
        .ask(ToolCall::bash(gate).in_conversation("talk"))
        .await;
    let second = setup
        .ask(ToolCall::bash("echo ran > second").in_conversation("talk"))
        .await;
    let third = setup
        .ask(ToolCall::bash("echo ran > third").in_conversation("talk"))
        .await;
    setup.wait_for_line_in("began").await;
    assert_eq!(setup.caller.cancel(&second).await, "cancelling");
    // The answer comes while the first call still runs: a cancelled call does not wait for its turn.
    let answer = setup.answer(&second).await;
    assert_eq!(answer.verdict(), ("cancelled", "cancelled"));
    assert_contains!(answer.text(), "never ran");
    setup.write("go", "");
    setup.answer(&first).await.expect_ok();
    setup.answer(&third).await.expect_ok();
    assert_eq!(setup.read("second"), "");
    assert_eq!(setup.read("third"), "ran\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_command_taken_back_ends_with_everything_it_started() {
    let setup = RunnerFixture::new().await;
    let _runner = setup.run();
    let command = "echo half of it; sleep 600 & echo $! > child; setsid sleep 600 & wait";
    let id = setup.ask_bash(command).await;
    let child = setup.wait_for_line_in("child").await;
    setup.caller.cancel(&id).await;
    let answer = setup.answer(&id).await;
    assert_eq!(answer.verdict(), ("cancelled", "cancelled"));
    assert_contains!(answer.text(), "half of it"; "the output so far");
    wait_until("the process tree to end", || !is_alive(&child)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_taken_back_while_the_runner_was_away_never_runs() {
    let setup = RunnerFixture::new().await;
    let id = setup.ask_bash("echo ran > effects").await;
    setup.caller.cancel(&id).await;
    setup.once().await;
    assert_eq!(
        setup.answer(&id).await.verdict(),
        ("cancelled", "cancelled")
    );
    assert_eq!(setup.read("effects"), "");
}
