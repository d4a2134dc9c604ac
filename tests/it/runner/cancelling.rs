//! Requests that the caller takes back: before they begin, while they run, when they are over, and when they never
//! were.

use crate::harness::caller::ToolCall;
use crate::harness::running::is_alive;
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::wait_until;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_taken_back_while_it_waits_never_runs() {
    let stage = RunnerFixture::new().await;
    let _runner = stage.run();
    let gate = "echo here > began; until [ -e go ]; do sleep 0.02; done";
    let first = stage.ask(ToolCall::bash(gate).of("talk")).await;
    let second = stage
        .ask(ToolCall::bash("echo ran > second").of("talk"))
        .await;
    let third = stage
        .ask(ToolCall::bash("echo ran > third").of("talk"))
        .await;
    stage.line("began").await;
    assert_eq!(stage.caller.cancel(&second).await, "cancelling");
    // It is answered while the first still runs: nobody waits for a call that will not come.
    let answer = stage.answer(&second).await;
    assert_eq!(answer.verdict(), ("cancelled", "cancelled"));
    assert!(answer.text().contains("never ran"), "{answer:?}");
    stage.write("go", "");
    assert_eq!(stage.answer(&first).await.outcome, "ok");
    assert_eq!(stage.answer(&third).await.outcome, "ok");
    assert_eq!(
        (stage.read("second"), stage.read("third")),
        (String::new(), "ran\n".to_owned())
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_running_command_taken_back_ends_with_everything_it_started() {
    let stage = RunnerFixture::new().await;
    let _runner = stage.run();
    let command = "echo half of it; sleep 600 & echo $! > child; setsid sleep 600 & wait";
    let id = stage.ask(ToolCall::bash(command)).await;
    let child = stage.line("child").await;
    stage.caller.cancel(&id).await;
    let answer = stage.answer(&id).await;
    assert_eq!(answer.verdict(), ("cancelled", "cancelled"));
    assert!(
        answer.text().contains("half of it"),
        "what had been done: {answer:?}"
    );
    wait_until("the process tree to end", || !is_alive(&child)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_taken_back_while_the_runner_was_away_never_runs() {
    let stage = RunnerFixture::new().await;
    let id = stage.ask(ToolCall::bash("echo ran > effects")).await;
    stage.caller.cancel(&id).await;
    stage.once().await;
    assert_eq!(
        stage.answer(&id).await.verdict(),
        ("cancelled", "cancelled")
    );
    assert_eq!(stage.read("effects"), "");
}
