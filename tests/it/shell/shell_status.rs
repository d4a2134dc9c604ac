//! ShellStatus: what it refuses, its limits, and a cancel while it waits. What it shows is in `background` and `ports`.

use super::*;

#[tokio::test]
async fn what_cannot_be_answered_is_refused() {
    let bench = Bench::new();
    assert_eq!(bench.text("ShellStatus", json!({})).await, "There are no background shells.");
    let refused = bench.call("ShellStatus", json!({"shell_id": "sh_1"})).await.expect_err("no shell");
    assert_eq!(refused.code(), ErrorCode::NotFound);
    for about_one in ["since", "wait_ms", "tail_lines"] {
        let refused = bench.call("ShellStatus", json!({about_one: 1})).await.expect_err(about_one);
        assert_eq!(refused.code(), ErrorCode::InvalidArgs);
        assert!(refused.text().contains("shell_id"), "{refused}");
    }
    bench.text("Bash", json!({"command": "echo one", "run_in_background": true})).await;
    let refused = bench.call("ShellStatus", json!({"shell_id": "sh_1", "pattern": "("})).await;
    assert_eq!(refused.expect_err("no pattern").code(), ErrorCode::InvalidArgs);
}

#[tokio::test]
async fn the_last_lines_are_shown_and_those_before_them_counted() {
    let bench = Bench::new();
    bench.text("Bash", json!({"command": "seq 1 200", "run_in_background": true})).await;
    let shown = bench.text("ShellStatus", json!({"shell_id": "sh_1", "wait_ms": 30_000})).await;
    assert!(shown.contains("[150 lines before these]\n151\n") && shown.contains("\n200\n"), "{shown}");
    let three = bench.text("ShellStatus", json!({"shell_id": "sh_1", "lines": 3})).await;
    assert!(three.contains("[197 lines before these]\n198\n199\n200\n"), "{three}");
}

#[tokio::test]
async fn a_cancel_ends_the_waiting_and_not_the_shell() {
    let bench = Bench::new();
    bench.text("Bash", json!({"command": "echo one; sleep 600", "run_in_background": true})).await;
    let cx = ToolCx::detached(RequestId::new());
    let cancel = cx.cancel.clone();
    let args = json!({"shell_id": "sh_1", "pattern": "never", "wait_ms": 30_000});
    let (answer, ()) =
        tokio::join!(within(tools::call_with(&bench.registry, "ShellStatus", args, cx)), async {
            cancel.cancel();
        });
    assert_eq!(answer.expect_err("cancelled").code(), ErrorCode::Cancelled);
    assert!(bench.text("ShellStatus", json!({})).await.contains("running for"));
    bench.text("KillShell", json!({"shell_id": "sh_1", "signal": "KILL"})).await;
}
