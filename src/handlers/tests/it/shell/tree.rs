//! The whole tree dies: daemons by every trick of becoming one, each with an argument of its own by which it is looked
//! for afterwards among all processes.

use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

use punie_host::terminals::StopSequence;

use super::*;
use crate::harness::running::processes_with_argument;
use crate::harness::wait::wait_until;

/// Ways to move away from the command that started one. `@` stands for the marker.
pub const TRICKS: &[&str] = &[
    "sleep @ > /dev/null 2>&1 &",
    "setsid sleep @ < /dev/null > /dev/null 2>&1 &",
    "env -i sleep @ < /dev/null > /dev/null 2>&1 &",
    "nohup sleep @ > /dev/null 2>&1 & disown",
    "(setsid bash -c 'trap \"\" HUP INT TERM; sleep @' < /dev/null > /dev/null 2>&1 &)",
    "(setsid env -i bash -c '(setsid sleep @ &)' < /dev/null > /dev/null 2>&1 &)",
    "(cd / && exec setsid env -i bash -c 'exec 0<&- 1>&- 2>&-; (setsid bash -c \"trap : TERM; (sleep @ &)\" &)') &",
];

/// A number of seconds that nobody else sleeps.
fn marker() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    format!(
        "9{:07}{:03}",
        std::process::id(),
        NEXT.fetch_add(1, Ordering::Relaxed)
    )
}

/// All the tricks, each with a marker, and words that wait until all of them have been done.
fn daemons() -> (String, Vec<String>) {
    let markers: Vec<String> = TRICKS.iter().map(|_| marker()).collect();
    let done = |(trick, marker): (&&str, &String)| format!("{}\n", trick.replace('@', marker));
    let seen = |marker: &String| format!("{}\n", once_there(marker));
    let line = TRICKS
        .iter()
        .zip(&markers)
        .map(done)
        .chain(markers.iter().map(seen))
        .collect();
    (line, markers)
}

/// Words that wait until a process has this among its arguments.
fn once_there(marker: &str) -> String {
    // In brackets, so that what looks does not find itself.
    format!(
        "until grep -qzx '[9]{}' /proc/[0-9]*/cmdline 2> /dev/null; do :; done",
        &marker[1..]
    )
}

fn left(markers: &[String]) -> Vec<String> {
    markers
        .iter()
        .filter(|marker| !processes_with_argument(marker).is_empty())
        .cloned()
        .collect()
}

#[tokio::test]
async fn kill_shell_ends_daemons_by_every_trick_and_nothing_of_another_command() {
    let bench = Bench::new();
    let (line, markers) = daemons();
    let (other_line, others) = daemons();
    let start = |line: String| json!({"command": format!("{line} echo ready; sleep 600"), "run_in_background": true});
    bench.text("Bash", start(line)).await;
    bench.text("Bash", start(other_line)).await;
    for id in ["sh_1", "sh_2"] {
        let ready = json!({"shell_id": id, "pattern": "ready"});
        bench.shows(ready, "\nready\n").await;
    }
    let killed = bench
        .text("KillShell", json!({"shell_id": "sh_1", "grace_ms": 500}))
        .await;
    assert_contains!(killed, "stopped with SIG");
    assert_eq!(left(&markers), Vec::<String>::new());
    assert_eq!(left(&others), others, "another command's are not touched");
    bench
        .text("KillShell", json!({"shell_id": "sh_2", "signal": "KILL"}))
        .await;
    assert_eq!(left(&others), Vec::<String>::new());
}

#[tokio::test]
async fn a_command_over_its_time_is_ended_with_its_daemons() {
    let bench = Bench::new();
    let mut timeout = 2_000;
    loop {
        let (line, markers) = daemons();
        let args = json!({"command": format!("{line} echo ready; sleep 600"), "timeout": timeout});
        let stopped = bench.call("Bash", args).await.expect_err("over its time");
        assert_error!(stopped, Timeout: "all its processes were stopped with SIGKILL");
        assert_eq!(left(&markers), Vec::<String>::new());
        // A slow machine may not have come so far that there was anything to find.
        if stopped.model_text().contains("ready") {
            return;
        }
        timeout *= 3;
    }
}

#[tokio::test]
async fn a_cancelled_command_is_ended_with_its_daemons() {
    let bench = Bench::new();
    let (line, markers) = daemons();
    let cx = ToolContext::for_detached_call(RequestId::new());
    let cancel = cx.cancel.clone();
    let args = json!({"command": format!("{line} sleep 600")});
    let (answer, ()) = tokio::join!(
        within(tools::call_with(&bench.registry, "Bash", args, cx)),
        async {
            wait_until("all daemons", || left(&markers).len() == markers.len()).await;
            cancel.cancel();
        }
    );
    assert_error!(answer.expect_err("cancelled"), Cancelled);
    assert_eq!(left(&markers), Vec::<String>::new());
}

#[tokio::test]
async fn a_call_that_is_dropped_and_a_stop_of_everything_end_daemons_too() {
    let bench = Bench::new();
    let (line, markers) = daemons();
    let call = bench.call("Bash", json!({"command": format!("{line} sleep 600")}));
    tokio::select! {
        _ = call => panic!("it runs for ten minutes"),
        () = wait_until("all daemons", || left(&markers).len() == markers.len()) => {}
    }
    wait_until("none of them", || left(&markers).is_empty()).await;

    let (line, markers) = daemons();
    bench.text("Bash", json!({"command": line})).await;
    assert_eq!(left(&markers), markers, "they go on as a shell");
    bench
        .terminals
        .stop_all_commands(StopSequence::kill_at_once())
        .await;
    assert_eq!(left(&markers), Vec::<String>::new());
}

#[tokio::test]
async fn a_call_that_is_dropped_while_its_command_starts_leaves_no_daemon() {
    let bench = Bench::new();
    let marker = marker();
    let command = format!("setsid sleep {marker} > /dev/null 2>&1 & sleep 600");
    {
        let mut call = pin!(bench.call("Bash", json!({"command": command})));
        let mut unheard = Context::from_waker(Waker::noop());
        // The thread of the runtime is held up, so that the call is never told of the process before it is dropped.
        while {
            assert!(
                call.as_mut().poll(&mut unheard).is_pending(),
                "it runs for ten minutes"
            );
            let polled = Instant::now();
            while processes_with_argument(&marker).is_empty()
                && polled.elapsed() < Duration::from_millis(100)
            {}
            processes_with_argument(&marker).is_empty()
        } {
            tokio::task::yield_now().await;
        }
    }
    wait_until("no daemon", || processes_with_argument(&marker).is_empty()).await;
}

#[tokio::test]
async fn what_a_program_leaves_behind_ends_with_its_call() {
    let bench = Bench::new();
    let (line, markers) = daemons();
    let args = json!({"command": format!("{line} echo done")});
    let text = bench.text("run_command", args).await;
    assert_contains!(text, "done", "Ended with the command: ");
    assert_eq!(left(&markers), Vec::<String>::new());
}

#[tokio::test]
async fn a_command_that_leaves_something_running_answers_while_it_lives() {
    let bench = Bench::new();
    for (n, trick) in ["sleep @ &"].iter().chain(TRICKS).enumerate() {
        let marker = marker();
        let wait = once_there(&marker);
        let (text, meta) = bench
            .bash(&format!("{}\n{wait}; echo hi", trick.replace('@', &marker)))
            .await;
        assert_eq!(
            processes_with_argument(&marker).len(),
            1,
            "it lives while the answer is here: {trick}"
        );
        let pid = processes_with_argument(&marker)[0];
        let id = n + 1;
        assert!(
            text.starts_with("hi\n") && meta.exit_code == Some(0),
            "{trick}: {text}"
        );
        assert_contains!(text, &format!("(pid {pid})"); "{trick}");
        assert_contains!(text, &format!("Kept as shell sh_{id}"); "{trick}");
        let args = json!({"shell_id": format!("sh_{id}"), "grace_ms": 200});
        let killed = bench.text("KillShell", args).await;
        assert_contains!(killed, "stopped with SIG"; "{trick}");
        assert_eq!(
            processes_with_argument(&marker),
            Vec::<u32>::new(),
            "{trick}"
        );
    }
}

#[tokio::test]
async fn what_never_stays_is_ended_too() {
    let bench = Bench::new();
    let marker = marker();
    // Each starts its successor in another session and is gone: whoever is looked at is not there any more.
    let hop = format!("export HOP='setsid bash -c \"$HOP\" {marker} > /dev/null 2>&1 &'");
    let start = format!(
        "{hop}; for n in 1 2 3 4 5; do bash -c \"$HOP\" {marker} & done; wait; echo begun; sleep 600"
    );
    bench
        .text("Bash", json!({"command": start, "run_in_background": true}))
        .await;
    wait_until("one of them", || {
        !processes_with_argument(&marker).is_empty()
    })
    .await;
    let killed = bench
        .text("KillShell", json!({"shell_id": "sh_1", "signal": "KILL"}))
        .await;
    assert_contains!(killed, "stopped with SIGKILL");
    for _ in 0..20 {
        assert_eq!(processes_with_argument(&marker), Vec::<u32>::new());
    }
}
