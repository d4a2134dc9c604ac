//! Shells in the background: left there, sent there, followed and ended.

use punie_text::redact::MASK;

use super::*;

#[tokio::test]
async fn what_holds_the_output_is_named_kept_and_ended() {
    let bench = Bench::new();
    let (text, meta) = bench
        .bash(&format!("sleep 60 & {}; echo hi", once_it_is("sleep")))
        .await;
    assert_starts_with!(text, "hi\n");
    assert_contains!(text, "Still running: sleep 60 (pid ", "shell sh_1");
    assert!(meta.output_incomplete);
    assert_eq!(meta.exit_code, Some(0));

    let listed = bench.text("ShellStatus", json!({})).await;
    assert_contains!(listed, "sh_1", "still running: sleep 60");
    let pid = text
        .split("(pid ")
        .nth(1)
        .and_then(|rest| rest.split(')').next())
        .expect("a pid")
        .to_owned();
    assert!(is_there(&pid));

    let kill = json!({"shell_id": "sh_1", "grace_ms": 30_000});
    let killed = bench.text("KillShell", kill).await;
    assert_contains!(killed, "stopped with SIGTERM");
    assert!(!is_there(&pid));
    let again = bench.text("KillShell", json!({"shell_id": "sh_1"})).await;
    assert_contains!(again, "had ended already");
}

#[tokio::test]
async fn the_last_words_of_what_was_left_behind_are_in_the_answer_that_ends_it() {
    let bench = Bench::new();
    // In one go and by itself, so that it still stands in the pipe when its writer is gone.
    let words = "trap 'printf \"line %s\\n\" {1..60000}; echo bye; exit' TERM; : > ready; while :; do sleep 0.02; done";
    let (text, _) = bench
        .bash(&format!(
            "({words}) & until [ -e ready ]; do sleep 0.01; done; echo hi"
        ))
        .await;
    assert_contains!(text, "shell sh_1");
    let kill = json!({"shell_id": "sh_1", "grace_ms": 30_000});
    let killed = bench.text("KillShell", kill).await;
    assert_ends_with!(killed, "bye");
    let again = bench.text("KillShell", json!({"shell_id": "sh_1"})).await;
    assert_contains!(again, "had ended already");
}

#[tokio::test]
async fn what_goes_on_quietly_is_named_too() {
    let bench = Bench::new();
    let (text, meta) = bench
        .bash(&format!(
            "sleep 60 > /dev/null 2>&1 & {}; echo hi",
            once_it_is("sleep")
        ))
        .await;
    assert_contains!(text, "Still running: sleep 60 (pid ");
    assert!(!meta.output_incomplete, "all of the output is there");
    bench
        .text("KillShell", json!({"shell_id": "sh_1", "signal": "KILL"}))
        .await;
}

#[tokio::test]
async fn a_shell_in_the_background_is_followed_to_its_end() {
    let bench = Bench::new();
    let checkpoint = Checkpoint::open().await;
    let command = format!(
        "echo one; {}; echo here >&9; read -u 9 word; echo got $word; exit 5",
        checkpoint.connect()
    );
    let start = json!({"command": command, "run_in_background": true, "description": "A test"});
    let begun = bench.text("Bash", start.clone()).await;
    assert_starts_with!(begun, "Shell sh_1 (pid ");
    assert_contains!(begun, ") running");
    let (_, mut stream) = checkpoint.line().await;

    let one = json!({"shell_id": "sh_1", "pattern": "^one"});
    let seen = bench.shows(one, "\none\n").await;
    assert_contains!(seen, "running for", "A test");
    let cursor = cursor(&seen);
    let nothing = bench
        .text("ShellStatus", json!({"shell_id": "sh_1", "since": cursor}))
        .await;
    assert_contains!(nothing, "(nothing new was printed)");

    let args = json!({"shell_id": "sh_1", "since": cursor, "wait_ms": 30_000, "pattern": "^got"});
    let waiting = bench.call("ShellStatus", args);
    let (new, ()) = tokio::join!(waiting, async {
        stream.write_all(b"word\n").await.expect("written");
    });
    let new = new.expect("new output");
    assert_contains!(tools::reply_text(&new), "got word\n");
    assert_lacks!(tools::reply_text(&new), "\none\n");

    bench
        .shows(json!({"shell_id": "sh_1"}), "exit code 5")
        .await;
    let text = bench.text("KillShell", json!({"shell_id": "sh_1"})).await;
    assert_contains!(text, "had ended already: exit code 5");
    assert_contains!(bench.text("ShellStatus", json!({})).await, "exit code 5");

    let missing = bench
        .call("KillShell", json!({"shell_id": "sh_9"}))
        .await
        .expect_err("no such shell");
    assert_error!(missing, NotFound: "sh_1");
}

#[tokio::test]
async fn a_second_shell_with_the_same_command_is_pointed_out() {
    let bench = Bench::new();
    let start = json!({"command": "sleep 60", "run_in_background": true});
    let first = bench.text("Bash", start.clone()).await;
    assert_lacks!(first, "already");
    let second = bench.text("Bash", start).await;
    assert_starts_with!(second, "Shell sh_2");
    assert_contains!(second, "as shell sh_1");
    for id in ["sh_1", "sh_2"] {
        bench
            .text("KillShell", json!({"shell_id": id, "signal": "INT"}))
            .await;
    }
}

#[tokio::test]
async fn a_short_shell_in_the_background_is_reported_whole() {
    let bench = Bench::new();
    let args = json!({"command": "echo quick; exit 2", "background": true, "yield_ms": 60_000});
    let text = bench.text("Bash", args).await;
    assert_starts_with!(text, "Shell sh_1 (pid ");
    assert_contains!(text, "has ended already\nquick\nExit code 2");
}

#[tokio::test]
async fn a_prompt_is_new_once_and_then_waited_on() {
    let bench = Bench::new();
    let checkpoint = Checkpoint::open().await;
    let command = format!(
        "echo one; printf promp; {}; echo here >&9; read -u 9 word; echo \"t: $word\"; sleep 60",
        checkpoint.connect()
    );
    let args = json!({"command": command, "run_in_background": true});
    bench.text("Bash", args).await;
    let (_, mut stream) = checkpoint.line().await;
    let prompt = json!({"shell_id": "sh_1", "pattern": "^promp$"});
    let shown = bench.shows(prompt, "\npromp\n").await;
    let first = bench
        .text("ShellStatus", json!({"shell_id": "sh_1", "since": 4}))
        .await;
    assert!(
        first.contains("\npromp\n") && cursor(&first) == cursor(&shown),
        "{first}"
    );
    let since = cursor(&shown);
    let nothing = bench
        .text("ShellStatus", json!({"shell_id": "sh_1", "since": since}))
        .await;
    assert!(
        nothing.contains("(nothing new was printed)") && cursor(&nothing) == since,
        "{nothing}"
    );

    let next = json!({"shell_id": "sh_1", "since": since});
    let waiting = bench.shows(next, "\nprompt: word\n");
    let (new, ()) = tokio::join!(waiting, async {
        stream.write_all(b"word\n").await.expect("written");
    });
    assert!(cursor(&new) > since, "{new}");
    bench
        .text("KillShell", json!({"shell_id": "sh_1", "signal": "KILL"}))
        .await;
}

#[tokio::test]
async fn what_may_become_a_secret_is_shown_while_it_is_short_and_then_said_to_be_held_back() {
    let bench = Bench::masking("t0p-secret-value");
    let checkpoint = Checkpoint::open().await;
    let command = format!(
        "printf prompt; {}; echo 1 >&9; read -u 9; printf 0p-s; read -u 9; echo ecret-value",
        checkpoint.connect()
    );
    let args = json!({"command": command, "run_in_background": true});
    bench.text("Bash", args).await;
    let (_, mut stream) = checkpoint.line().await;
    let prompt = json!({"shell_id": "sh_1", "pattern": "promp"});
    let shown = bench.shows(prompt, "\nprompt\n").await;
    assert_lacks!(shown, "held back");

    stream.write_all(b"\n").await.expect("written");
    let next = json!({"shell_id": "sh_1", "since": cursor(&shown)});
    let held = bench
        .shows(next, "\npromp\n(then 5 characters, held back ")
        .await;
    assert_lacks!(held, "t0p");

    stream.write_all(b"\n").await.expect("written");
    let next = json!({"shell_id": "sh_1", "since": cursor(&held), "pattern": "^promp."});
    let masked = bench.shows(next, &format!("\npromp{MASK}\n")).await;
    assert_lacks!(masked, "held back");
}

#[tokio::test]
async fn an_escape_sequence_after_a_prompt_is_not_held_back() {
    // The last letter of a colour's sequence begins a value.
    let bench = Bench::masking("m0nkey-business-42");
    let checkpoint = Checkpoint::open().await;
    let command = format!(
        "printf '\\e[32m$ \\e[0m'; {}; echo 1 >&9; read -u 9; printf '0nkey-bus\\e[32m$ \\e[0mm0nkey\\e[0m-business-42'",
        checkpoint.connect()
    );
    let args = json!({"command": command, "run_in_background": true});
    bench.text("Bash", args).await;
    let (_, mut stream) = checkpoint.line().await;
    let prompt = json!({"shell_id": "sh_1", "pattern": r"\$"});
    let shown = bench.shows(prompt, "\n$ \n").await;
    assert_lacks!(shown, "held back");

    stream.write_all(b"\n").await.expect("written");
    let end = json!({"shell_id": "sh_1"});
    let whole = bench.shows(end, "exit code 0").await;
    assert_lacks!(whole, "business");
    assert_contains!(whole, &format!("$ {MASK}"); "a value behind the sequence is masked");
}
