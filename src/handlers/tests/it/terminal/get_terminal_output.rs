//! get_terminal_output: what was printed, and how the command is.

use super::*;
use crate::harness::wait::wait_for_some;

#[tokio::test]
async fn it_shows_what_was_printed_and_how_the_command_is() {
    let bench = Bench::new();
    let checkpoint = Checkpoint::open().await;
    start(
        &bench,
        &format!(
            "{}; echo 1 >&9; read -u 9; echo one; echo 2 >&9; read -u 9; exit 4",
            checkpoint.connect()
        ),
    )
    .await;
    let (_, mut stream) = checkpoint.line().await;
    let nothing = text(&bench, "get_terminal_output", term(0)).await;
    assert_starts_with!(nothing, "[running for ");
    assert_contains!(nothing, "nothing was printed yet");
    step(&mut stream).await;
    // It was printed; when it is read is another matter.
    wait_for_some("the line", async || {
        let one = text(&bench, "get_terminal_output", term(0)).await;
        (one.starts_with("one\n[running for ") && !one.contains("nothing")).then_some(())
    })
    .await;
    tokio::io::AsyncWriteExt::write_all(&mut stream, b"\n")
        .await
        .expect("written");
    text(&bench, "wait_for_terminal_exit", term(0)).await;
    let over = call(&bench, "one", "get_terminal_output", term(0))
        .await
        .expect("it stays");
    assert_starts_with!(tools::reply_text(&over), "one\nExit code 4 (");
    assert_eq!(over.meta.exit_code, Some(4));
}

/// Lets the command go on and waits until it has come to its next stop.
async fn step(stream: &mut tokio::io::BufReader<tokio::net::TcpStream>) {
    use tokio::io::{AsyncBufReadExt, AsyncWriteExt};
    stream.write_all(b"\n").await.expect("written");
    within(stream.read_line(&mut String::new()))
        .await
        .expect("a line");
}

#[tokio::test]
async fn a_success_says_so() {
    let bench = Bench::new();
    start(&bench, "echo fine").await;
    text(&bench, "wait_for_terminal_exit", term(0)).await;
    let shown = text(&bench, "get_terminal_output", term(0)).await;
    assert_starts_with!(shown, "fine\n[exited with code 0 after ");
    start(&bench, "true").await;
    text(&bench, "wait_for_terminal_exit", term(1)).await;
    assert_eq!(
        text(&bench, "get_terminal_output", term(1)).await,
        "Command completed successfully (no output)."
    );
}

#[tokio::test]
async fn long_output_keeps_both_ends_and_names_where_the_rest_is() {
    let bench = Bench::new();
    start(&bench, "seq 1 100000").await;
    text(&bench, "wait_for_terminal_exit", term(0)).await;
    let reply = call(&bench, "one", "get_terminal_output", term(0))
        .await
        .expect("the output");
    let shown = tools::reply_text(&reply);
    assert_starts_with!(shown, "1\n2\n");
    assert_contains!(shown, "\n100000\n[exited");
    assert!(shown.chars().count() <= 30_000 && reply.meta.truncated);
    let handle = reply.meta.handle.clone().expect("a handle");
    assert_contains!(shown, &handle);
    let page = text(
        &bench,
        "ReadOutput",
        json!({"handle": handle, "offset": 50_000, "limit": 1}),
    )
    .await;
    assert_contains!(page, "50000");
}

#[tokio::test]
async fn strangers_are_refused() {
    refuses_strangers("get_terminal_output").await;
}
