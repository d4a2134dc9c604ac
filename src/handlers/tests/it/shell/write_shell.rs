//! WriteShell: typing at a command's terminal.

use punie_text::redact::MASK;

use super::*;
use crate::harness::wait::with_enough_time;

/// Starts a command with a terminal and waits until it has printed this.
async fn started(bench: &Bench, command: &str, until: &str) {
    let args = json!({"command": command, "tty": true, "run_in_background": true, "yield_ms": 250});
    bench.text("Bash", args).await;
    let wait = json!({"shell_id": "sh_1", "pattern": until});
    bench.shows(wait, until).await;
}

/// Types and waits until a line matches.
async fn typed(bench: &Bench, mut args: Value, until: &str) -> String {
    args["shell_id"] = json!("sh_1");
    args["pattern"] = json!(until);
    args["wait_ms"] = json!(30_000);
    bench.text("WriteShell", args).await
}

#[tokio::test]
async fn what_is_typed_is_read_echoed_and_answered() {
    let bench = Bench::new();
    started(
        &bench,
        "printf 'Name: '; read name; echo \"Hello, $name\"; read end",
        "Name:",
    )
    .await;
    let answer = typed(&bench, json!({"text": "Ada"}), "^Hello").await;
    assert_starts_with!(answer, "Shell sh_1 (pid ");
    assert_contains!(answer, "): running for ", "\nName: Ada\nHello, Ada\n");
    let since = cursor(&answer);
    let later = bench
        .text("ShellStatus", json!({"shell_id": "sh_1", "since": since}))
        .await;
    assert_contains!(later, "(nothing new was printed)");
    let ended = typed(&bench, json!({"enter": true}), "never").await;
    assert_contains!(ended, "ended after", "exit code 0");
}

#[tokio::test]
async fn keys_reach_the_program_as_at_a_keyboard() {
    let bench = Bench::new();
    started(
        &bench,
        "trap 'echo interrupted' INT; echo ready; until read -r line; do :; done; cat; echo over",
        "ready",
    )
    .await;
    let args = json!({"keys": ["ctrl-c"]});
    let answer = typed(&bench, args, "^interrupted|C?interrupted").await;
    assert_contains!(answer, "interrupted");
    typed(&bench, json!({"text": "first"}), "first").await;
    // Text and keys: no Enter between, and none after.
    let args = json!({"text": "abx", "keys": ["backspace", "c", "Enter"]});
    let answer = typed(&bench, args, "^abc$").await;
    assert_contains!(answer, "\nabc\n");
    let answer = typed(&bench, json!({"keys": ["ctrl-d"]}), "^over").await;
    assert!(
        answer.contains("exit code 0") || answer.contains("over"),
        "{answer}"
    );
}

#[tokio::test]
async fn cursor_keys_are_those_that_the_program_asked_for() {
    let bench = Bench::new();
    let command = "stty -echo -icanon min 3; printf '\\033[?1h\\n'; echo ready; head -c 3 | od -An -c; \
                   printf '\\033[?1l\\n'; echo again; head -c 3 | od -An -c; sleep 60";
    started(&bench, command, "ready").await;
    let answer = typed(&bench, json!({"keys": ["up"]}), "again").await;
    assert_contains!(answer, "033   O   A");
    let answer = typed(&bench, json!({"keys": ["up"]}), "033").await;
    assert_contains!(answer, "033   [   A");
}

#[tokio::test]
async fn a_password_prompt_is_said_to_be_one_and_shows_nothing() {
    let bench = Bench::new();
    started(
        &bench,
        "read -rsp 'Password: ' word; echo; read -rsp 'Again: ' word; sleep 60",
        "Password:",
    )
    .await;
    let said = async |prompt: &str| {
        // Bash prints its prompt a moment before it turns the echo off.
        wait_for_some("a password prompt", async || {
            let status = bench.text("ShellStatus", json!({"shell_id": "sh_1"})).await;
            let words = "[waits for input without echo, probably a password.";
            status.contains(&format!("{prompt}\n{words}")).then_some(())
        })
        .await;
    };
    said("\nPassword: ").await;
    let answer = typed(&bench, json!({"text": "abc-typed"}), "Again").await;
    assert_lacks!(answer, "abc-typed");
    said("\nAgain: ").await;
}

#[tokio::test]
async fn a_command_that_waits_for_input_is_said_to() {
    let bench = Bench::new();
    // Bash reads by `read`; nothing but the process's own state tells that it waits.
    with_enough_time(1_000, async |timeout| {
        let args =
            json!({"command": "printf 'Name: '; read name", "tty": true, "timeout": timeout});
        let stopped = bench.call("Bash", args).await.expect_err("nobody answers");
        assert_error!(stopped, Timeout);
        let words = "It was waiting for input: give its answers";
        stopped.model_text().contains(words).then_some(())
    })
    .await;

    let bench = with_enough_time(1_000, async |yield_ms| {
        let bench = Bench::new();
        let command = "printf 'Name: '; read name; sleep 600";
        // A command cannot be waited for longer than this.
        let args = json!({"command": command, "tty": true, "yield_ms": yield_ms.min(60_000)});
        let left = bench.text("Bash", args).await;
        let words = "\n[waits for input: WriteShell types it]\n";
        left.contains(words).then_some(bench)
    })
    .await;
    let answer = typed(&bench, json!({"text": "Ada"}), "Ada").await;
    assert_contains!(answer, "Name: Ada");
    wait_for_some("it goes on", async || {
        let now = bench.text("ShellStatus", json!({"shell_id": "sh_1"})).await;
        (!now.contains("waits for input")).then_some(())
    })
    .await;

    // Without a terminal there is no input to wait for.
    let args = json!({"command": "read name; sleep 60", "timeout": 500});
    let stopped = bench.call("Bash", args).await.expect_err("too long");
    assert_lacks!(stopped.model_text(), "waiting for input");
}

#[tokio::test]
async fn the_echo_of_a_secret_is_masked() {
    let bench = Bench::masking("t0p-secret-value");
    started(
        &bench,
        "echo ready; read line; echo got it; sleep 60",
        "ready",
    )
    .await;
    let answer = typed(&bench, json!({"text": "t0p-secret-value"}), "got it").await;
    assert_contains!(answer, MASK);
    assert_lacks!(answer, "t0p-secret-value");
}

#[tokio::test]
async fn what_came_before_the_typing_is_shown_when_asked_for() {
    let bench = Bench::new();
    started(
        &bench,
        "echo one; echo two; read line; echo three; sleep 60",
        "two",
    )
    .await;
    let answer = typed(&bench, json!({"enter": true, "since": 0}), "three").await;
    assert_contains!(answer, "\none\ntwo\n\nthree\n");
}

#[tokio::test]
async fn a_shell_that_cannot_be_typed_into_is_refused_with_a_way_out() {
    let bench = Bench::new();
    let type_in = |id: &str| bench.call("WriteShell", json!({"shell_id": id, "text": "x"}));
    assert_error!(type_in("sh_7").await.expect_err("none yet"), NotFound);

    let args = json!({"command": "sleep 60", "run_in_background": true});
    bench.text("Bash", args).await;
    let plain = type_in("sh_1").await.expect_err("no terminal");
    assert_error!(plain, InvalidArgs: "tty=true", "run_in_background");
    let unknown = type_in("sh_7").await.expect_err("not that one");
    assert_contains!(unknown.model_text(), "sh_1");

    let args = json!({"command": "exit 4", "tty": true, "run_in_background": true});
    bench.text("Bash", args).await;
    assert_error!(type_in("sh_2").await.expect_err("it has ended"), InvalidArgs: "exit code 4");
}

#[tokio::test]
async fn arguments_that_type_nothing_or_too_much_are_refused_before_anything_is_typed() {
    let bench = Bench::new();
    started(
        &bench,
        "echo ready; read line; echo \"got $line\"; sleep 60",
        "ready",
    )
    .await;
    for (args, code, words) in cases! {
        (json!({}), ErrorCode::InvalidArgs, "nothing to type"),
        (
            json!({"text": "x", "keys": ["entre", "ctrl-c", "f13"]}),
            ErrorCode::InvalidArgs,
            "\"entre\", \"f13\"",
        ),
        (json!({"keys": ["hyper"]}), ErrorCode::InvalidArgs, "page-down"),
        (json!({"text": "x".repeat((64 << 10) + 1)}), ErrorCode::TooLarge, "65,536"),
        (json!({"keys": vec!["a"; 201]}), ErrorCode::TooLarge, "200"),
        (json!({"text": "x".repeat(5_000)}), ErrorCode::TooLarge, "4095"),
        (json!({"text": "x", "pattern": "("}), ErrorCode::InvalidArgs, "regular expression"),
    } {
        let mut call = args.clone();
        call["shell_id"] = json!("sh_1");
        let refused = bench.call("WriteShell", call).await.expect_err(words);
        assert_eq!(refused.stable_code(), code, "{refused}");
        assert_contains!(refused.model_text(), words);
    }
    let answer = typed(&bench, json!({"text": "fine"}), "^got").await;
    assert_contains!(answer, "got fine\n");
}

#[tokio::test]
async fn what_a_program_does_not_read_is_told() {
    let bench = Bench::new();
    started(&bench, "stty -echo; echo ready; sleep 60", "ready").await;
    let lines = "line\n".repeat(12_000);
    let mut told = None;
    // How much a terminal holds for a program that does not read is the system's affair.
    for _ in 0..20 {
        let args = json!({"shell_id": "sh_1", "text": lines, "wait_ms": 0});
        let call = bench.call("WriteShell", args);
        if let Err(full) = call.await {
            told = Some(full);
            break;
        }
    }
    let told = told.expect("no terminal holds a megabyte");
    assert_error!(told, Io: "of 60,001 bytes were typed");
    assert!(meta_of(told).may_have_run);
}

#[tokio::test]
async fn a_cancel_ends_the_waiting_and_not_the_shell() {
    let bench = Bench::new();
    started(
        &bench,
        "echo ready; read line; echo \"got $line\" > got; echo done; sleep 60",
        "ready",
    )
    .await;
    let cx = ToolContext::for_detached_call(RequestId::new());
    let cancel = cx.cancel.clone();
    let args = json!({"shell_id": "sh_1", "text": "word", "wait_ms": 30_000});
    let call = tools::call_with(&bench.registry, "WriteShell", args, cx);
    let (answer, ()) = tokio::join!(within(call), async {
        let args = json!({"shell_id": "sh_1", "pattern": "^done", "wait_ms": 30_000});
        bench.text("ShellStatus", args).await;
        cancel.cancel();
    });
    assert_error!(answer.expect_err("cancelled"), Cancelled: "was typed");
    let got = std::fs::read_to_string(bench.workspace.path().join("got")).expect("it was typed");
    assert_eq!(got, "got word\n");
    let listed = bench.text("ShellStatus", json!({})).await;
    assert_contains!(listed, "sh_1", "running for");
}
