//! Bash: its arguments, commands that go on by themselves, and commands with a terminal. How commands end, what they
//! get and how they are stopped is in the files beside this one.

use std::sync::atomic::{AtomicU32, Ordering};

use super::*;
use crate::harness::wait::with_enough_time;

#[tokio::test]
async fn every_name_that_models_use_for_an_argument_is_taken() {
    let bench = Bench::new();
    std::fs::create_dir(bench.workspace.path().join("sub")).expect("a folder");
    for (args, expected) in cases! {
        (json!({"cmd": "echo 1"}), "1"),
        (json!({"script": "echo 1"}), "1"),
        (json!({"command": "basename $PWD", "workingDirectory": "sub"}), "sub"),
        (json!({"command": "basename $PWD", "directory": "sub"}), "sub"),
        (json!({"command": "basename $PWD", "cwd": "./sub/"}), "sub"),
        (json!({"command": "echo $A", "environment": {"A": "x"}}), "x"),
        (json!({"command": "cat", "input": "read"}), "read"),
        (
            json!({"command": "echo 1", "timeoutMs": "5000", "maxOutputChars": 1000, "description": null}),
            "1",
        ),
    } {
        assert_eq!(bench.text("Bash", args.clone()).await, expected, "{args}");
    }
    let here = bench
        .text("Bash", json!({"command": "pwd", "cwd": "."}))
        .await;
    assert_eq!(here, bench.bash("pwd").await.0);
}

#[tokio::test]
async fn arguments_that_cannot_be_meant_are_refused_before_anything_runs() {
    let bench = Bench::new();
    for (args, words) in cases! {
        (json!({}), "command"),
        (json!({"command": ["ls"]}), "command"),
        (json!({"command": "touch ran", "colour": true}), "colour"),
        (json!({"command": "touch ran", "timeout": 0}), "timeout"),
        (json!({"command": "touch ran", "timeout": -5}), "timeout"),
        (json!({"command": "touch ran", "timeout": "soon"}), "timeout"),
        (json!({"command": "touch ran", "yield_ms": 249}), "250 to 60000"),
        (json!({"command": "touch ran", "yield_ms": 60_001}), "250 to 60000"),
        (json!({"command": "touch ran", "tty": true, "stdin": "x"}), "WriteShell"),
        (json!({"command": "touch ran", "cols": 80}), "tty=true"),
        (json!({"command": "touch ran", "tty": true, "cols": 19}), "20 to 500"),
        (json!({"command": "touch ran", "tty": true, "rows": 201}), "5 to 200"),
        (json!({"command": "touch ran", "cwd": "a\u{0}b"}), "NUL"),
    } {
        assert_error!(bench.call("Bash", args).await.expect_err(words), InvalidArgs: words);
    }
    assert!(!bench.workspace.path().join("ran").exists());
}

#[tokio::test]
async fn entries_that_would_change_what_runs_are_refused_by_name() {
    let bench = Bench::new();
    for name in [
        "BASH_ENV",
        "ENV",
        "PROMPT_COMMAND",
        "LD_PRELOAD",
        "LD_LIBRARY_PATH",
        "DYLD_INSERT_LIBRARIES",
        "GIT_EXTERNAL_DIFF",
        "NODE_OPTIONS",
        "PYTHONSTARTUP",
        "SSH_AUTH_SOCK",
        "DOCKER_HOST",
        "DBUS_SESSION_BUS_ADDRESS",
        "AWS_SECRET_ACCESS_KEY",
        "DB_PASSWORD",
    ] {
        let args = json!({"command": "touch ran", "env": {name: "x"}});
        let refused = bench.call("Bash", args).await.expect_err(name);
        assert_error!(refused, PolicyDenied: name, "Nothing was run");
    }
    for (name, value) in [
        ("BASH_FUNC_ls%%", "() { touch ran; }"),
        ("A=B", "x"),
        ("A", "x\u{0}y"),
    ] {
        let args = json!({"command": "ls", "env": {name: value}});
        assert_error!(bench.call("Bash", args).await.expect_err(name), InvalidArgs);
    }
    assert!(!bench.workspace.path().join("ran").exists());
}

#[tokio::test]
async fn a_link_out_of_the_workspace_is_no_folder_to_run_in() {
    let bench = Bench::new();
    std::os::unix::fs::symlink("/tmp", bench.workspace.path().join("out")).expect("a link");
    let refused = bench
        .call("Bash", json!({"command": "pwd", "cwd": "out"}))
        .await
        .expect_err("outside");
    assert_error!(refused, OutsideWorkspace: "/tmp");
}

#[tokio::test]
async fn a_command_of_one_or_two_megabytes_is_refused_with_a_way_out() {
    let bench = Bench::new();
    for megabytes in [1, 2] {
        let command = format!("touch ran; echo {}", "x".repeat(megabytes << 20));
        let refused = bench
            .call("Bash", json!({"command": command}))
            .await
            .expect_err("too large");
        assert_error!(refused, TooLarge);
        assert!(
            refused.model_text().contains("stdin") && refused.model_text().len() < 400,
            "{refused}"
        );
    }
    assert!(!bench.workspace.path().join("ran").exists());
}

#[tokio::test]
async fn whoever_reads_finds_the_end_of_the_input() {
    let bench = Bench::new();
    for reader in [
        "cat",
        "read -r line || true",
        "cat < /dev/stdin",
        "bash -c 'cat'",
        "sort -",
    ] {
        let (text, _) = bench.bash(reader).await;
        assert_eq!(
            text, "Command completed successfully (no output).",
            "{reader}"
        );
    }
    let (text, _) = bench
        .bash("test -t 0 || echo none; tty; : < /dev/tty")
        .await;
    assert_starts_with!(text, "none\nnot a tty\n");
    assert_contains!(text, "/dev/tty");
}

#[tokio::test]
async fn a_purpose_is_one_short_line_in_the_list() {
    let bench = Bench::new();
    let purpose = format!("first\n  second\u{7} {}", "long ".repeat(100));
    let start = json!({"command": "sleep 60", "run_in_background": true, "description": purpose});
    bench.text("Bash", start).await;
    let listed = bench.text("ShellStatus", json!({})).await;
    assert_eq!(listed.lines().count(), 1, "{listed}");
    assert_contains!(listed, "(first second long long");
    assert_ends_with!(listed, "…)");
}

#[tokio::test]
async fn a_tiny_timeout_is_said_to_be_in_milliseconds() {
    let bench = Bench::new();
    let stopped = bench
        .call("Bash", json!({"command": "sleep 60", "timeout": 60}))
        .await
        .expect_err("too long");
    assert_error!(stopped, Timeout: "in milliseconds", "run_in_background");
    assert_contains!(stopped.model_text(), "Nothing had been printed.");
}

#[tokio::test]
async fn a_command_that_takes_longer_than_wanted_goes_on_as_a_shell() {
    let bench = Bench::new();
    let checkpoint = Checkpoint::open().await;
    let command = format!(
        "echo begun; {}; echo here >&9; read -u 9 word; echo got $word; exit 5",
        checkpoint.connect()
    );
    // The timeout ends with the waiting: it is shorter than what follows.
    let args =
        json!({"command": command, "yield_ms": 3_000, "timeout": 3_500, "description": "A test"});
    let call = bench.call("Bash", args);
    let (reply, (_, mut stream)) = tokio::join!(call, checkpoint.line());
    let reply = reply.expect("it is no error");
    let text = tools::reply_text(&reply);
    assert_contains!(text, "Still running after ");
    assert_contains!(text, "now as shell sh_1 (pid ", "without a time limit");
    assert_contains!(text, "[ShellStatus since=");
    assert_lacks!(text, "WriteShell");
    assert_eq!(reply.meta.exit_code, None);
    assert!(reply.meta.handle.is_some());
    let late = bench
        .text("ShellStatus", json!({"shell_id": "sh_1", "wait_ms": 1_000}))
        .await;
    assert_contains!(late, "running for", "A test");
    stream.write_all(b"word\n").await.expect("written");
    let end = json!({"shell_id": "sh_1", "since": 6, "pattern": "^got"});
    bench.shows(end, "got word\n").await;
    bench
        .shows(json!({"shell_id": "sh_1"}), "exit code 5")
        .await;
}

#[tokio::test]
async fn a_command_that_is_quick_enough_answers_as_ever() {
    let bench = Bench::new();
    let args = json!({"command": "echo done; exit 2", "yield_ms": 60_000});
    let reply = bench.call("Bash", args).await.expect("an answer");
    assert_starts_with!(tools::reply_text(&reply), "done\nExit code 2 (");
    assert_eq!(
        bench.text("ShellStatus", json!({})).await,
        "There are no background shells."
    );
    let args = json!({"command": "sleep 60", "yield_ms": 60_000, "timeout": 1_000});
    assert_error!(
        bench
            .call("Bash", args)
            .await
            .expect_err("its time was over first"),
        Timeout
    );
}

#[tokio::test]
async fn a_call_taken_back_before_it_yields_stops_its_command() {
    let bench = Bench::new();
    let checkpoint = Checkpoint::open().await;
    let cx = ToolContext::for_detached_call(RequestId::new());
    let cancel = cx.cancel.clone();
    let command = format!("{}; echo $$ >&9; exec 9>&-; sleep 60", checkpoint.connect());
    let args = json!({"command": command, "yield_ms": 60_000});
    let call = tools::call_with(&bench.registry, "Bash", args, cx);
    let (answer, pid) = tokio::join!(within(call), async {
        let (pid, _) = checkpoint.line().await;
        cancel.cancel();
        pid
    });
    assert_error!(answer.expect_err("cancelled"), Cancelled);
    assert!(!is_there(&pid));
}

#[tokio::test]
async fn a_shell_in_the_background_says_how_to_go_on_with_it() {
    let bench = with_enough_time(1_000, async |yield_ms| {
        let bench = Bench::new();
        let plain = json!({"command": "echo one; sleep 600", "run_in_background": true,
            "yield_ms": yield_ms.min(60_000)});
        let text = bench.text("Bash", plain).await;
        let words = "running\none\n[ShellStatus since=4 shows what comes next; ";
        text.contains(words).then_some(bench)
    })
    .await;
    let tty = json!({"command": "sleep 60", "run_in_background": true, "tty": true});
    let text = bench.text("Bash", tty).await;
    assert_contains!(text, "WriteShell types into it; KillShell ends it]");
}

#[tokio::test]
async fn a_terminal_is_one_for_the_program_and_its_output_is_clean() {
    let bench = Bench::new();
    let command = "test -t 0 && test -t 1 && test -t 2 && echo all three; echo $TERM; stty size; \
                   printf '\\033[31mred\\033[0m\\n'; printf '10%%\\r100%%\\n'; echo to /dev/tty > /dev/tty; \
                   readlink /proc/$$/fd/0 | grep -c pts; exit 3";
    let reply = bench
        .call("Bash", json!({"command": command, "tty": true}))
        .await
        .expect("an answer");
    let text = tools::reply_text(&reply);
    assert_starts_with!(
        text,
        "all three\nxterm-256color\n40 120\nred\n100%\nto /dev/tty\n1\nExit code 3 ("
    );
    let args = json!({"command": "stty size", "pty": true, "cols": "80", "rows": 24});
    assert_eq!(bench.text("Bash", args).await, "24 80");
    let args = json!({"command": "printf '\\033[31mred\\n'", "tty": true, "raw": true});
    let raw = bench.text("Bash", args).await;
    assert_eq!(raw, "\u{1b}[31mred");
}

#[tokio::test]
async fn the_last_words_of_a_command_on_a_terminal_are_never_lost() {
    let bench = Bench::new();
    for round in 0..40 {
        let command = format!("echo word {round}");
        let expected = format!("word {round}");
        assert_eq!(
            bench
                .text("Bash", json!({"command": command, "tty": true}))
                .await,
            expected
        );
    }
    let args = json!({"command": "seq 1 20000; echo end", "tty": true});
    let long = bench.text("Bash", args).await;
    assert_starts_with!(long, "1\n2\n");
    assert_ends_with!(long, "\n20000\nend");
}

#[tokio::test]
async fn a_command_on_a_terminal_is_stopped_with_its_jobs() {
    let bench = Bench::new();
    let checkpoint = Checkpoint::open().await;
    // With job control each job is a process group of its own.
    let command = format!(
        "set -m; sleep 60 & {}; echo $! >&9; exec 9>&-; sleep 61",
        checkpoint.connect()
    );
    let start = json!({"command": command, "tty": true, "run_in_background": true});
    let (_, (pid, _)) = tokio::join!(bench.text("Bash", start), checkpoint.line());
    assert!(is_there(&pid));
    let killed = bench.text("KillShell", json!({"shell_id": "sh_1"})).await;
    assert_contains!(killed, "stopped with SIG");
    assert!(!is_there(&pid));
    let args = json!({"command": "echo on; cat", "tty": true, "timeout": 3_000});
    let stopped = bench.call("Bash", args).await;
    let stopped = stopped.expect_err("nobody types");
    assert!(
        stopped.stable_code() == ErrorCode::Timeout && stopped.model_text().starts_with("on\n"),
        "{stopped}"
    );
}

#[tokio::test]
async fn warming_up_prepares_and_runs_one_command_and_keeps_nothing_of_it() {
    let bench = Bench::new();
    let captured = Arc::new(AtomicU32::new(0));
    let counter = Arc::clone(&captured);
    let observer = Arc::new(move |_| {
        counter.fetch_add(1, Ordering::Relaxed);
    });
    bench.terminals.set_withheld_observer(observer);
    bench.terminals.warm_up().await;
    assert_eq!(captured.load(Ordering::Relaxed), 1);
    assert_eq!(
        std::fs::read_dir(bench.outputs.path())
            .expect("the store")
            .count(),
        0
    );
    assert_eq!(bench.bash("echo warm").await.0, "warm");
    assert_eq!(captured.load(Ordering::Relaxed), 1);
}
