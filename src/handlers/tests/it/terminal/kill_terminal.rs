//! kill_terminal: the command is ended, its output stays.

use super::*;

#[tokio::test]
async fn the_command_is_ended_and_its_output_stays() {
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
    let reply = call(&bench, "one", "kill_terminal", term(0))
        .await
        .expect("killed");
    assert_eq!(tools::reply_text(&reply), "Killed terminal term-0");
    assert_eq!(reply.meta.signal.as_deref(), Some("SIGTERM"));
    assert!(!is_there(&pid));
    let shown = text(&bench, "get_terminal_output", term(0)).await;
    assert_starts_with!(shown, "begun\nKilled by SIGTERM (");
    let exit = text(&bench, "wait_for_terminal_exit", term(0)).await;
    assert_eq!(exit, "Terminal was ended by the signal SIGTERM");
    let again = text(&bench, "kill_terminal", term(0)).await;
    assert_eq!(
        again,
        "Terminal term-0 had ended already: killed by SIGTERM."
    );
}

#[tokio::test]
async fn it_does_not_wait_behind_one_that_waits_for_the_end() {
    let bench = Bench::new();
    start(&bench, "sleep 60").await;
    let (end, killed) = tokio::join!(
        text(&bench, "wait_for_terminal_exit", term(0)),
        text(&bench, "kill_terminal", term(0))
    );
    assert_eq!(killed, "Killed terminal term-0");
    assert_eq!(end, "Terminal was ended by the signal SIGTERM");
}

#[tokio::test]
async fn strangers_are_refused() {
    refuses_strangers("kill_terminal").await;
}
