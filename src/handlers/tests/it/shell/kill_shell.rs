//! KillShell: the signal that was asked for, then SIGKILL, and what it refuses. The whole tree is in `tree`.

use super::*;

async fn begin(bench: &Bench, command: &str) {
    let args = json!({"command": command, "run_in_background": true});
    bench.text("Bash", args).await;
    let ready = json!({"shell_id": "sh_1", "pattern": "ready"});
    bench.shows(ready, "\nready\n").await;
}

#[tokio::test]
async fn the_signal_is_the_one_that_was_asked_for() {
    let bench = Bench::new();
    begin(
        &bench,
        "trap 'echo interrupted; exit 4' INT; echo ready; while :; do sleep 0.02; done",
    )
    .await;
    let args = json!({"id": "sh_1", "signal": "SIGINT", "grace_ms": 30_000});
    let killed = bench.text("KillShell", args).await;
    assert_contains!(killed, "stopped with SIGINT", "\ninterrupted");
    let again = bench.text("KillShell", json!({"shell_id": "sh_1"})).await;
    assert_contains!(again, "had ended already: exit code 4");
}

#[tokio::test]
async fn what_ignores_the_signal_is_killed_after_the_grace() {
    let bench = Bench::new();
    begin(
        &bench,
        "trap '' TERM; echo ready; while :; do sleep 0.02; done",
    )
    .await;
    let killed = bench
        .text("KillShell", json!({"shell_id": "sh_1", "grace_ms": 100}))
        .await;
    assert_contains!(killed, "stopped with SIGKILL", "\nready");
}

#[tokio::test]
async fn a_shell_that_was_never_there_and_a_signal_that_stops_nothing_are_refused() {
    let bench = Bench::new();
    let none = bench
        .call("KillShell", json!({"shell_id": "sh_1"}))
        .await
        .expect_err("no shell");
    assert_error!(none, NotFound: "There are no background shells");
    begin(&bench, "echo ready; sleep 600").await;
    let refused = bench
        .call("KillShell", json!({"shell_id": "sh_1", "signal": "STOP"}))
        .await;
    assert_error!(refused.expect_err("no such signal"), InvalidArgs);
    assert_contains!(bench.text("ShellStatus", json!({})).await, "running for"; "it goes on");
    bench
        .text("KillShell", json!({"shell_id": "sh_1", "signal": "KILL"}))
        .await;
}
