//! run_command: from start to end, and on a terminal that lasts.

use super::*;
use crate::harness::program::make_program;
use punie_tool::request::ErrorCode;

#[tokio::test]
async fn a_command_line_is_read_by_bash_and_a_program_by_nobody() {
    let bench = Bench::new();
    assert_eq!(
        text(
            &bench,
            "run_command",
            json!({"command": "echo $((6 * 7)) | cat"})
        )
        .await,
        "42"
    );
    let args = json!({"command": "printf", "args": ["%s|", "a b", "$HOME", "; exit 9"]});
    assert_eq!(
        text(&bench, "run_command", args).await,
        "a b|$HOME|; exit 9|"
    );
    let empty = text(
        &bench,
        "run_command",
        json!({"command": "true", "args": []}),
    )
    .await;
    assert_eq!(empty, "Command completed successfully (no output).");
}

#[tokio::test]
async fn the_exit_code_is_told_and_is_no_error() {
    let bench = Bench::new();
    let reply = call(
        &bench,
        "one",
        "run_command",
        json!({"command": "echo half; exit 3"}),
    )
    .await
    .expect("an answer");
    assert_starts_with!(tools::reply_text(&reply), "half\nExit code 3 (");
    assert_eq!(reply.meta.exit_code, Some(3));
    let reply = call(
        &bench,
        "one",
        "run_command",
        json!({"command": "kill -TERM $$"}),
    )
    .await
    .expect("an answer");
    assert_contains!(tools::reply_text(&reply), "Killed by SIGTERM");
}

#[tokio::test]
async fn what_cannot_be_started_is_an_error_that_says_why() {
    let bench = Bench::new();
    let folder = bench.workspace.path();
    make_program(&folder.join("no-interpreter"), "#!/no/such/interpreter\n");
    make_program(&folder.join("no-program"), "just text\n");
    std::fs::write(folder.join("no-permission"), "#!/bin/sh\n").expect("a file");
    for (command, code, words) in cases! {
        ("no-such-program", ErrorCode::NotFound, "no program"),
        ("./no-interpreter", ErrorCode::NotFound, "interpreter"),
        ("./no-program", ErrorCode::Io, "#!"),
        ("./no-permission", ErrorCode::PermissionDenied, "may not be executed"),
    } {
        let args = json!({"command": command, "args": []});
        let refused = call(&bench, "one", "run_command", args)
            .await
            .expect_err(command);
        assert_eq!(refused.stable_code(), code, "{refused}");
        assert_contains!(refused.model_text(), words, "Nothing was run");
    }
}

#[tokio::test]
async fn what_it_leaves_running_is_ended_with_it() {
    let bench = Bench::new();
    let told = text(
        &bench,
        "run_command",
        json!({"command": "sleep 60 & echo $!"}),
    )
    .await;
    let (pid, rest) = told.split_once('\n').expect("two lines");
    assert_starts_with!(rest, "Ended with the command: "; "{told}");
    assert_contains!(rest, pid; "{told}");
    assert!(!is_there(pid));
}

#[tokio::test]
async fn a_cancelled_command_is_stopped() {
    let bench = Bench::new();
    let checkpoint = Checkpoint::open().await;
    let command = format!("{}; echo $$ >&9; exec 9>&-; sleep 60", checkpoint.connect());
    let cx = cx("one");
    let cancel = cx.cancel.clone();
    let run = tools::call_with(
        &bench.registry,
        "run_command",
        json!({"command": command}),
        cx,
    );
    let (answer, pid) = tokio::join!(within(run), async {
        let (pid, _) = checkpoint.line().await;
        cancel.cancel();
        pid
    });
    assert_error!(answer.expect_err("cancelled"), Cancelled);
    assert!(!is_there(&pid));
}

#[tokio::test]
async fn in_the_background_it_is_named_from_term_0_on_whatever_else_runs() {
    let bench = Bench::new();
    bench.text("Bash", json!({"command": "true"})).await;
    text(&bench, "run_command", json!({"command": "true"})).await;
    let told = start(&bench, "sleep 60").await;
    assert_starts_with!(told, "Terminal term-0 (pid ");
    assert_contains!(
        told,
        ") running\n",
        "wait_for_terminal_exit",
        "release_terminal"
    );
    assert_starts_with!(start(&bench, "sleep 60").await, "Terminal term-1 ");
    let refused = call(
        &bench,
        "one",
        "run_command",
        json!({"command": "x", "args": [], "background": true}),
    )
    .await;
    assert_error!(refused.expect_err("no such program"), NotFound);
    assert_starts_with!(start(&bench, "sleep 60").await, "Terminal term-2 ");
}

#[tokio::test]
async fn a_call_without_a_conversation_is_told_that_others_cannot_reach_its_terminal() {
    let bench = Bench::new();
    let args = json!({"command": "sleep 60", "background": true});
    let cx = ToolContext::for_detached_call(RequestId::parse("alone").expect("an id"));
    let alone = tools::call_with(&bench.registry, "run_command", args.clone(), cx);
    let alone = within(alone).await.expect("it runs");
    assert_contains!(alone.meta.warnings[0], "conversation of its own");
    let namesake = call(&bench, "alone", "get_terminal_output", term(0)).await;
    let refused = namesake.expect_err("a conversation that is named like the call");
    assert_error!(refused, NotFound);
    let together = call(&bench, "one", "run_command", args)
        .await
        .expect("it runs");
    assert!(together.meta.warnings.is_empty());
}

#[tokio::test]
async fn terminals_that_have_ended_make_room_and_those_that_run_do_not() {
    let bench = Bench::new();
    for _ in 0..99 {
        start(&bench, "read < /dev/null; exec sleep 60").await;
    }
    start(&bench, "true").await;
    text(&bench, "wait_for_terminal_exit", term(99)).await;
    assert_starts_with!(start(&bench, "sleep 60").await, "Terminal term-100 ");
    let gone = call(&bench, "one", "get_terminal_output", term(99))
        .await
        .expect_err("it made room");
    assert_error!(gone, NotFound);
    let busy = call(
        &bench,
        "one",
        "run_command",
        json!({"command": "touch ran", "background": true}),
    )
    .await;
    assert_error!(busy.expect_err("all run"), Busy: "release_terminal");
    assert!(!bench.workspace.path().join("ran").exists());
}
