//! wait_for_terminal_exit: the end of a command.

use super::*;

#[tokio::test]
async fn it_tells_the_exit_code_or_the_signal() {
    let bench = Bench::new();
    start(&bench, "exit 0").await;
    assert_eq!(
        text(&bench, "wait_for_terminal_exit", term(0)).await,
        "Terminal exited with code 0"
    );
    start(&bench, "exit 5").await;
    let reply = call(&bench, "one", "wait_for_terminal_exit", term(1))
        .await
        .expect("the end");
    assert_eq!(tools::reply_text(&reply), "Terminal exited with code 5");
    assert_eq!(reply.meta.exit_code, Some(5));
    start(&bench, "kill -SEGV $$").await;
    let reply = call(&bench, "one", "wait_for_terminal_exit", term(2))
        .await
        .expect("the end");
    assert_eq!(
        tools::reply_text(&reply),
        "Terminal was ended by the signal SIGSEGV"
    );
    assert_eq!(reply.meta.signal.as_deref(), Some("SIGSEGV"));
}

#[tokio::test]
async fn a_command_that_does_not_end_in_time_goes_on() {
    let bench = Bench::new();
    start(&bench, "sleep 60").await;
    let args = json!({"terminal_id": "term-0", "timeout_ms": 10});
    let late = call(&bench, "one", "wait_for_terminal_exit", args)
        .await
        .expect_err("it runs");
    assert_error!(late, Timeout: "Nothing was stopped");
    let said = text(&bench, "get_terminal_output", term(0)).await;
    assert_contains!(said, "[running for ");
}

#[tokio::test]
async fn a_cancel_ends_the_waiting_only() {
    let bench = Bench::new();
    start(&bench, "sleep 60").await;
    let cx = cx("one");
    cx.cancel.cancel();
    let wait = tools::call_with(&bench.registry, "wait_for_terminal_exit", term(0), cx);
    assert_error!(within(wait).await.expect_err("cancelled"), Cancelled);
    let said = text(&bench, "get_terminal_output", term(0)).await;
    assert_contains!(said, "[running for ");
}

#[tokio::test]
async fn what_a_command_left_running_is_named() {
    let bench = Bench::new();
    start(&bench, "sleep 60 & exit 0").await;
    let reply = call(&bench, "one", "wait_for_terminal_exit", term(0))
        .await
        .expect("the end");
    assert_eq!(tools::reply_text(&reply), "Terminal exited with code 0");
    assert_contains!(reply.meta.warnings[0], "left running");
    assert_eq!(
        text(&bench, "kill_terminal", term(0)).await,
        "Killed terminal term-0"
    );
}

#[tokio::test]
async fn strangers_are_refused() {
    refuses_strangers("wait_for_terminal_exit").await;
}
