//! Background shells at the end of a runner: a crash ends none of them, a stop ends all.

use serde_json::json;

use crate::harness::running::{is_alive, processes_with_argument};
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::{wait_for_some, wait_until};

/// Prints a line for each new file `goN`, and writes its process id.
const COUNTER: &str = "echo $$ > pid; n=0; while :; do until [ -e go$n ]; do sleep 0.02; done; echo line $n; n=$((n+1)); done";

async fn begin_shell(setup: &RunnerFixture, command: &str) -> String {
    let args = json!({"command": command, "run_in_background": true, "description": "A test"});
    let begun = setup.call_tool("Bash", &args).await;
    begun.expect_ok();
    begun.text()
}

async fn shell_status(setup: &RunnerFixture, args: serde_json::Value) -> String {
    setup.call_tool("ShellStatus", &args).await.text()
}

/// Asks for the status until it contains these words: one call waits for half a minute at most.
async fn status_with(setup: &RunnerFixture, args: serde_json::Value, words: &str) -> String {
    wait_for_some(words, async || {
        let shown = shell_status(setup, args.clone()).await;
        shown.contains(words).then_some(shown)
    })
    .await
}

async fn waited_for(setup: &RunnerFixture, pattern: &str) -> String {
    let args = json!({"shell_id": "sh_1", "pattern": pattern, "wait_ms": 30_000});
    let line = pattern.trim_start_matches('^').trim_end_matches('$');
    status_with(setup, args, &format!("\n{line}\n")).await
}

/// Returns the output handle that an answer names.
fn find_handle(text: &str) -> String {
    let from = text
        .find("out_")
        .unwrap_or_else(|| panic!("no handle in {text}"));
    text[from..from + 16].to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shell_lives_through_a_crash_and_is_followed_and_ended_by_the_next_life() {
    let setup = RunnerFixture::new().await;
    let runner = setup.run();
    begin_shell(&setup, COUNTER).await;
    let pid = setup.wait_for_line_in("pid").await;
    setup.write("go0", "");
    let before = waited_for(&setup, "line 0").await;
    runner.kill();
    assert!(is_alive(&pid), "a crash does not end it");
    // The shell prints this while no runner reads.
    setup.write("go1", "");

    let runner = setup.run();
    let after = waited_for(&setup, "line 1").await;
    assert_contains!(
        after,
        &format!("Shell sh_1 (pid {pid}): running for "),
        "A test"
    );
    setup.write("go2", "");
    let last = waited_for(&setup, "line 2").await;
    assert_contains!(last, "\nline 2\n");
    let whole = shell_status(&setup, json!({"shell_id": "sh_1"})).await;
    assert_contains!(whole, "\nline 0\nline 1\nline 2\n");
    assert_eq!(
        find_handle(&before),
        find_handle(&last),
        "its output goes on under the same name"
    );
    let args = json!({"handle": find_handle(&last)});
    let kept = setup.call_tool("ReadOutput", &args).await.text();
    assert_contains!(kept, "1\tline 0\n", "3\tline 2\n");

    let task = setup
        .call_tool("TaskOutput", &json!({"task_id": "sh_1"}))
        .await
        .text();
    assert_contains!(task, "running for ", "line 2"; "a shell is a task too");
    let tasks = setup.call_tool("TaskOutput", &json!({})).await.text();
    assert_contains!(tasks, "sh_1");

    // A second shell gets a name of its own.
    assert_starts_with!(begin_shell(&setup, "sleep 600").await, "Shell sh_2 ");
    runner.kill();
    let _runner = setup.run();
    let killed = setup
        .call_tool("KillShell", &json!({"shell_id": "sh_1"}))
        .await;
    assert_contains!(killed.text(), "stopped with SIGTERM");
    assert!(!is_alive(&pid));
    let again = shell_status(&setup, json!({"shell_id": "sh_1"})).await;
    assert_contains!(
        again,
        "exit code not known (the runner was restarted while it ran)"
    );
    let listed = shell_status(&setup, json!({})).await;
    assert_contains!(listed, "sh_2", "running for");
    setup
        .call_tool("KillShell", &json!({"shell_id": "sh_2"}))
        .await;
    wait_until("no named pipe", || {
        std::fs::read_dir(setup.setting.home.join("state/shells"))
            .expect("there")
            .next()
            .is_none()
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn daemons_of_a_shell_that_lived_through_a_crash_are_ended_with_it() {
    let setup = RunnerFixture::new().await;
    let runner = setup.run();
    let marker = format!("7{:07}", std::process::id());
    let daemon =
        format!("(setsid env -i bash -c 'exec 0<&- 1>&- 2>&-; (setsid sleep {marker} &)')");
    begin_shell(&setup, &format!("{daemon}; echo $$ > pid; sleep 600")).await;
    setup.wait_for_line_in("pid").await;
    wait_until("the daemon", || processes_with_argument(&marker).len() == 1).await;
    runner.kill();
    let _runner = setup.run();
    let text = shell_status(&setup, json!({"shell_id": "sh_1"})).await;
    assert_contains!(text, "running for");
    assert_eq!(processes_with_argument(&marker).len(), 1);
    setup
        .call_tool("KillShell", &json!({"shell_id": "sh_1"}))
        .await;
    assert_eq!(processes_with_argument(&marker), Vec::<u32>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_shell_that_ended_while_no_runner_was_there_only_the_exit_code_is_said_not_to_be_known()
 {
    let setup = RunnerFixture::new().await;
    let runner = setup.run();
    begin_shell(&setup, COUNTER).await;
    let pid = setup.wait_for_line_in("pid").await;
    setup.write("go0", "");
    waited_for(&setup, "line 0").await;
    runner.kill();
    let process = pid
        .parse()
        .ok()
        .and_then(rustix::process::Pid::from_raw)
        .expect("a process id");
    rustix::process::kill_process(process, rustix::process::Signal::KILL).expect("it is ours");
    wait_until("its end", || !is_alive(&pid)).await;

    let runner = setup.run();
    let lost = shell_status(&setup, json!({"shell_id": "sh_1"})).await;
    let words = "ended while the runner was not there; last seen running ";
    assert_contains!(
        lost,
        "sh_1",
        words,
        "\nline 0\n",
        "its exit code is not known"
    );
    let kept = setup
        .call_tool("ReadOutput", &json!({"handle": find_handle(&lost)}))
        .await
        .text();
    assert_contains!(kept, "1\tline 0\n");
    let killed = setup
        .call_tool("KillShell", &json!({"shell_id": "sh_1"}))
        .await;
    assert!(
        killed.outcome == "ok" && killed.text().contains("is over: ended while"),
        "{killed:?}"
    );
    assert_contains!(shell_status(&setup, json!({})).await, words);
    // The state is the same after another crash.
    runner.kill();
    let _runner = setup.run();
    assert_contains!(shell_status(&setup, json!({})).await, words);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shell_that_ended_before_a_crash_is_not_lost() {
    let setup = RunnerFixture::new().await;
    let runner = setup.run();
    begin_shell(
        &setup,
        "echo one; until [ -e go ]; do sleep 0.02; done; exit 3",
    )
    .await;
    setup.write("go", "");
    let end = json!({"shell_id": "sh_1", "wait_ms": 30_000});
    status_with(&setup, end, "exit code 3").await;
    let noted = || setup.journal()?.list_shell_rows().ok()?.pop()?.exit.code;
    wait_for_some("its end in the journal", async || noted()).await;
    runner.kill();
    let _runner = setup.run();
    let shown = shell_status(&setup, json!({"shell_id": "sh_1"})).await;
    assert_contains!(
        shown,
        "ended before the runner was restarted, exit code 3",
        "\none\n"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_terminal_that_ended_before_a_crash_says_how_and_reads_as_it_did() {
    let setup = RunnerFixture::new().await;
    let runner = setup.run();
    let command =
        "printf '\\033[32mgreen\\033[0m\\n'; until [ -e go ]; do sleep 0.02; done; exit 3";
    let args = json!({"command": command, "run_in_background": true, "tty": true, "yield_ms": 250});
    setup.call_tool("Bash", &args).await;
    waited_for(&setup, "green").await;
    setup.write("go", "");
    let end = json!({"shell_id": "sh_1", "wait_ms": 30_000});
    status_with(&setup, end, "exit code 3").await;
    let noted = || setup.journal()?.list_shell_rows().ok()?.pop()?.exit.code;
    wait_for_some("its end in the journal", async || noted()).await;
    runner.kill();

    let _runner = setup.run();
    for since in [None, Some(3)] {
        let shown = shell_status(&setup, json!({"shell_id": "sh_1", "since": since})).await;
        assert_contains!(
            shown,
            "ended before the runner was restarted, exit code 3",
            "\ngreen\n"
        );
        assert_lacks!(shown, "\x1b");
        assert_lacks!(shown, "since="; "no cursor counts any more");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_ends_shells_and_the_next_life_says_so() {
    let setup = RunnerFixture::new().await;
    let runner = setup.run();
    begin_shell(&setup, COUNTER).await;
    let pid = setup.wait_for_line_in("pid").await;
    runner.stop().await;
    assert!(!is_alive(&pid), "a stop ends the shell");
    let _runner = setup.run();
    let listed = shell_status(&setup, json!({})).await;
    assert_contains!(listed, "sh_1 ", "ended with the runner, which was stopped ");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_command_in_the_foreground_left_running_is_ended_after_a_crash_and_said_to_be() {
    let setup = RunnerFixture::new().await;
    let runner = setup.run();
    let answer = setup.bash("sleep 600 & echo $! > pid; echo hi").await;
    assert_contains!(answer.text(), "Kept as shell sh_1");
    let pid = setup.wait_for_line_in("pid").await;
    runner.kill();
    assert!(is_alive(&pid), "the test needs an orphan");
    let _runner = setup.run();
    let listed = shell_status(&setup, json!({})).await;
    assert_contains!(
        listed,
        "ended, exit code 0; what it had left running was ended after the runner was killed"
    );
    assert!(!is_alive(&pid));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shell_that_prints_much_while_no_runner_is_there_waits_and_loses_nothing() {
    let setup = RunnerFixture::new().await;
    let runner = setup.run();
    begin_shell(
        &setup,
        "echo $$ > pid; until [ -e go ]; do sleep 0.02; done; seq 1 1000000; echo $? > done; sleep 600",
    )
    .await;
    let pid = setup.wait_for_line_in("pid").await;
    runner.kill();
    setup.write("go", "");
    // Seven megabytes exceed the buffer of any pipe, so the shell waits for a reader.
    assert!(is_alive(&pid) && setup.read("done").is_empty());
    let _runner = setup.run();
    assert_eq!(setup.wait_for_line_in("done").await, "0", "no broken pipe");
    assert_contains!(waited_for(&setup, "^1000000$").await, "\n1000000\n");
    let shown = shell_status(&setup, json!({"shell_id": "sh_1"})).await;
    let args = json!({"handle": find_handle(&shown), "offset": 999_999});
    let kept = setup.call_tool("ReadOutput", &args).await.text();
    assert_contains!(kept, "999999\t999999\n", "1000000\t1000000\n");
    // The shell outlives the runner of this test, so the test ends it.
    setup
        .call_tool("KillShell", &json!({"shell_id": "sh_1"}))
        .await;
    assert!(!is_alive(&pid));
}

/// Answers each typed line, and writes its process id.
const ANSWERER: &str = "echo $$ > pid; while read -r line; do echo \"got $line\"; done";

async fn begin_terminal(setup: &RunnerFixture) -> String {
    let args = json!({"command": ANSWERER, "run_in_background": true, "tty": true});
    setup.call_tool("Bash", &args).await.expect_ok();
    let pid = setup.wait_for_line_in("pid").await;
    type_text(setup, "one").await;
    pid
}

async fn type_text(setup: &RunnerFixture, text: &str) {
    let args = json!({"shell_id": "sh_1", "text": text, "pattern": format!("^got {text}"), "wait_ms": 30_000});
    let answer = setup.call_tool("WriteShell", &args).await.text();
    assert_contains!(answer, &format!("\n{text}\ngot {text}\n"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_terminal_lives_through_a_crash_and_is_typed_into_by_the_next_runner() {
    let setup = RunnerFixture::new().await;
    let runner = setup.run();
    let pid = begin_terminal(&setup).await;
    runner.kill();
    assert!(is_alive(&pid), "a crash does not end it");

    let runner = setup.run();
    type_text(&setup, "two").await;
    // A second crash: the same process still holds the terminal.
    runner.kill();
    let _runner = setup.run();
    type_text(&setup, "three").await;
    let whole = shell_status(&setup, json!({"shell_id": "sh_1"})).await;
    assert_contains!(whole, "\none\ngot one\ntwo\ngot two\nthree\ngot three\n");
    let sockets = || std::fs::read_dir(setup.setting.home.join("state/shells")).expect("there");
    let socket = sockets()
        .next()
        .expect("one")
        .expect("a name")
        .path()
        .display()
        .to_string();
    assert_eq!(
        processes_with_argument(&socket).len(),
        1,
        "the process that holds the terminal"
    );
    let killed = setup
        .call_tool("KillShell", &json!({"shell_id": "sh_1"}))
        .await;
    assert_contains!(killed.text(), "stopped with ");
    assert!(!is_alive(&pid));
    wait_until("no socket", || sockets().next().is_none()).await;
    wait_until("no holder", || processes_with_argument(&socket).is_empty()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_leaves_shells_running_where_the_owner_wants_it() {
    let setup = RunnerFixture::with_config("[limits]\nkeep_shells = true\n").await;
    let runner = setup.run();
    let terminal = begin_terminal(&setup).await;
    begin_shell(&setup, &COUNTER.replace("> pid", "> second")).await;
    let plain = setup.wait_for_line_in("second").await;
    setup.write("go0", "");
    let second = json!({"shell_id": "sh_2", "pattern": "line 0", "wait_ms": 30_000});
    status_with(&setup, second, "line 0").await;
    runner.stop().await;
    assert!(is_alive(&terminal) && is_alive(&plain), "both go on");

    let _runner = setup.run();
    type_text(&setup, "two").await;
    setup.write("go1", "");
    let second = json!({"shell_id": "sh_2", "pattern": "line 1", "wait_ms": 30_000});
    let shown = status_with(&setup, second, "line 1").await;
    assert_contains!(shown, "running for ");
    let whole = shell_status(&setup, json!({"shell_id": "sh_2"})).await;
    assert_contains!(whole, "\nline 0\nline 1\n");
    for shell in ["sh_1", "sh_2"] {
        setup
            .call_tool("KillShell", &json!({"shell_id": shell, "signal": "KILL"}))
            .await;
    }
    assert!(!is_alive(&terminal) && !is_alive(&plain));
}
