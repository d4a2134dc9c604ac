//! release_terminal: ended and forgotten.

use super::*;

#[tokio::test]
async fn what_runs_is_ended_and_the_id_forgotten() {
    let bench = Bench::new();
    let checkpoint = Checkpoint::open().await;
    start(
        &bench,
        &format!(
            "echo begun; {}; echo $$ >&9; exec sleep 60",
            checkpoint.connect()
        ),
    )
    .await;
    let (pid, _) = checkpoint.line().await;
    let reply = call(&bench, "one", "release_terminal", term(0))
        .await
        .expect("released");
    assert_eq!(tools::reply_text(&reply), "Released terminal term-0");
    assert_contains!(reply.meta.warnings[0], "was ended");
    assert_eq!(reply.meta.signal.as_deref(), Some("SIGTERM"));
    assert!(!is_there(&pid));
    for tool in [
        "get_terminal_output",
        "wait_for_terminal_exit",
        "kill_terminal",
        "release_terminal",
    ] {
        let unknown = call(&bench, "one", tool, term(0)).await.expect_err(tool);
        assert_error!(unknown, NotFound);
    }
    let handle = reply.meta.handle.expect("a handle");
    let kept = text(&bench, "ReadOutput", json!({"handle": handle})).await;
    assert_contains!(kept, "begun");
}

#[tokio::test]
async fn one_that_has_ended_is_released_without_a_warning() {
    let bench = Bench::new();
    start(&bench, "exit 2").await;
    text(&bench, "wait_for_terminal_exit", term(0)).await;
    let reply = call(&bench, "one", "release_terminal", term(0))
        .await
        .expect("released");
    assert_eq!(tools::reply_text(&reply), "Released terminal term-0");
    assert!(reply.meta.warnings.is_empty());
    assert_eq!(
        meta_of(
            call(&bench, "one", "release_terminal", term(0))
                .await
                .expect_err("gone")
        )
        .exit_code,
        None
    );
}

#[tokio::test]
async fn strangers_are_refused() {
    refuses_strangers("release_terminal").await;
}
