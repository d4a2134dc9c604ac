//! The arguments of run_command: a line for bash, or a program with its arguments.

use super::*;
use crate::harness::program::make_program;

async fn run_bash(args: Value) -> String {
    EditorBench::new().text("run_command", args).await
}

#[tokio::test]
async fn without_arguments_it_is_a_line_with_its_quotes_taken_off() {
    assert_eq!(
        run_bash(json!({"command": "echo plain words"})).await,
        "plain words"
    );
    assert_eq!(
        run_bash(json!({"command": "printf '%s|' 'two words' \"and more\" three"})).await,
        "two words|and more|three|"
    );
    assert_eq!(
        run_bash(json!({"command": "pwd"})).await.lines().count(),
        1,
        "a single word is a line, too"
    );
}

#[tokio::test]
async fn with_arguments_nothing_is_split() {
    let odd = json!({"command": "printf", "args": ["%s|", "two words", "'quoted'"]});
    assert_eq!(run_bash(odd).await, "two words|'quoted'|");
    let bench = EditorBench::new();
    let line = bench
        .refused("run_command", json!({"command": "echo two", "args": []}))
        .await;
    assert_contains!(line.model_text(), "no program");
}

#[tokio::test]
async fn an_unbalanced_quote_is_bashs_own_error() {
    let bench = EditorBench::new();
    let reply = bench
        .ok("run_command", json!({"command": "echo 'never closed"}))
        .await;
    assert!(
        reply.meta.exit_code.is_some_and(|code| code != 0),
        "{reply:?}"
    );
    assert_contains!(tools::reply_text(&reply), "unexpected EOF");
}

#[tokio::test]
async fn a_program_whose_path_has_a_blank_runs_with_arguments() {
    let bench = EditorBench::new();
    let program = bench.root.join("a program.sh");
    make_program(&program, "#!/bin/sh\necho \"ran with $1\"\n");
    let args = json!({"command": program, "args": ["this one"]});
    assert_eq!(bench.text("run_command", args).await, "ran with this one");
}
