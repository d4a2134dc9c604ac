//! ShellStatus: what it refuses, its limits, and a cancel while it waits. What it shows is in `background` and `ports`.

use super::*;

#[tokio::test]
async fn what_cannot_be_answered_is_refused() {
    let bench = Bench::new();
    assert_eq!(
        bench.text("ShellStatus", json!({})).await,
        "There are no background shells."
    );
    assert_error!(
        bench
            .call("ShellStatus", json!({"shell_id": "sh_1"}))
            .await
            .expect_err("no shell"),
        NotFound
    );
    for about_one in ["since", "wait_ms", "tail_lines"] {
        let refused = bench
            .call("ShellStatus", json!({about_one: 1}))
            .await
            .expect_err(about_one);
        assert_error!(refused, InvalidArgs: "shell_id");
    }
    let args = json!({"command": "echo one", "run_in_background": true});
    bench.text("Bash", args).await;
    let refused = bench
        .call("ShellStatus", json!({"shell_id": "sh_1", "pattern": "("}))
        .await;
    assert_error!(refused.expect_err("no pattern"), InvalidArgs);
}

#[tokio::test]
async fn the_last_lines_are_shown_and_those_before_them_counted() {
    let bench = Bench::new();
    let args = json!({"command": "seq 1 200", "run_in_background": true});
    bench.text("Bash", args).await;
    let shown = bench
        .shows(json!({"shell_id": "sh_1"}), "exit code 0")
        .await;
    assert_contains!(shown, "[150 lines before these]\n151\n", "\n200\n");
    let three = bench
        .text("ShellStatus", json!({"shell_id": "sh_1", "lines": 3}))
        .await;
    assert_contains!(three, "[197 lines before these]\n198\n199\n200\n");
}

#[tokio::test]
async fn a_cancel_ends_the_waiting_and_not_the_shell() {
    let bench = Bench::new();
    let args = json!({"command": "echo one; sleep 600", "run_in_background": true});
    bench.text("Bash", args).await;
    let cx = ToolContext::for_detached_call(RequestId::new());
    let cancel = cx.cancel.clone();
    let args = json!({"shell_id": "sh_1", "pattern": "never", "wait_ms": 30_000});
    let (answer, ()) = tokio::join!(
        within(tools::call_with(&bench.registry, "ShellStatus", args, cx)),
        async {
            cancel.cancel();
        }
    );
    assert_error!(answer.expect_err("cancelled"), Cancelled);
    assert_contains!(bench.text("ShellStatus", json!({})).await, "running for");
    bench
        .text("KillShell", json!({"shell_id": "sh_1", "signal": "KILL"}))
        .await;
}

#[tokio::test]
async fn the_list_begins_with_what_runs_and_shows_ten_that_have_ended() {
    let bench = Bench::new();
    for number in 1..=13 {
        let command = if number == 5 {
            "sleep 600".to_owned()
        } else {
            format!("exit {number}")
        };
        let args = json!({"command": command, "run_in_background": true, "yield_ms": 250});
        bench.text("Bash", args).await;
        if number != 5 {
            let end = json!({"shell_id": format!("sh_{number}")});
            bench.shows(end, &format!("exit code {number}")).await;
        }
    }
    let list = bench.text("ShellStatus", json!({})).await;
    let shown: Vec<&str> = list
        .lines()
        .filter_map(|line| line.split([' ', ':']).next())
        .collect();
    let expected = [
        "sh_5", "sh_13", "sh_12", "sh_11", "sh_10", "sh_9", "sh_8", "sh_7", "sh_6", "sh_4", "sh_3",
    ];
    assert_eq!(shown[..11], expected, "{list}");
    assert_ends_with!(
        list,
        "\n[2 more have ended; ShellStatus with a shell_id still shows each]"
    );
    let text = bench.text("ShellStatus", json!({"shell_id": "sh_1"})).await;
    assert_contains!(text, "exit code 1");
    bench
        .text("KillShell", json!({"shell_id": "sh_5", "signal": "KILL"}))
        .await;
}

#[tokio::test]
async fn an_answer_names_a_shell_once_and_a_cursor_only_while_more_may_come() {
    let bench = Bench::new();
    let args = json!({"command": "echo one; sleep 600", "run_in_background": true});
    let begun = bench.text("Bash", args).await;
    assert_eq!(begun.matches("sh_1").count(), 1, "{begun}");
    let one = json!({"shell_id": "sh_1", "pattern": "^one"});
    bench.shows(one, "\none\n").await;
    let running = bench.text("ShellStatus", json!({"shell_id": "sh_1"})).await;
    assert_ends_with!(running, "\none\n[since=4 for what comes next]");
    bench
        .text("KillShell", json!({"shell_id": "sh_1", "signal": "KILL"}))
        .await;
    let ended = bench.text("ShellStatus", json!({"shell_id": "sh_1"})).await;
    assert_ends_with!(ended, "\none"; "nothing more comes, and all was shown");
    let part = bench
        .text("ShellStatus", json!({"shell_id": "sh_1", "pattern": "two"}))
        .await;
    assert_contains!(part, "[ReadOutput handle=\"out_");
    assert_lacks!(part, "since=");
}
