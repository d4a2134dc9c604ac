//! How commands are stopped, with all they started.

use punie_host::terminals::{StopSequence, StopStep};
use tokio::sync::mpsc;

use super::*;
use crate::harness::wait::with_enough_time;

/// Passes on what it is told.
struct Notes {
    started: mpsc::UnboundedSender<(RequestId, ProcessIdentity)>,
    ended: mpsc::UnboundedSender<ProcessIdentity>,
}

impl ChildLog for Notes {
    fn record_child_start<'a>(
        &'a self,
        request: &'a RequestId,
        identity: &'a ProcessIdentity,
        _: &'a str,
    ) -> ChildLogFuture<'a> {
        self.started
            .send((request.clone(), identity.clone()))
            .expect("somebody listens");
        Box::pin(std::future::ready(()))
    }
    fn record_child_end(&self, identity: &ProcessIdentity) {
        self.ended.send(identity.clone()).expect("somebody listens");
    }
}

async fn start(bench: &Bench, line: &str) -> TerminalId {
    let folder = bench.workspace.path().to_owned();
    let create = CreateTerminal::new(
        &RequestId::new(),
        CommandLaunch::Shell(line.to_owned()),
        folder,
    );
    bench
        .terminals
        .create_terminal(create)
        .await
        .expect("started")
        .id
}

#[tokio::test]
async fn over_its_time_a_command_is_stopped_and_keeps_what_it_printed() {
    let bench = Bench::new();
    let command = "trap '' TERM; echo $$; echo begun; sleep 600; echo never";
    let stopped = with_enough_time(300, async |timeout| {
        let args = json!({"command": command, "timeout": timeout});
        let stopped = bench.call("Bash", args).await.expect_err("too long");
        assert_error!(stopped, Timeout);
        stopped.model_text().contains("begun").then_some(stopped)
    })
    .await;
    assert_contains!(stopped.model_text(), "SIGKILL", "run_in_background");
    assert_lacks!(stopped.model_text(), "never");
    let pid = stopped
        .model_text()
        .lines()
        .next()
        .expect("a line")
        .to_owned();
    assert!(!is_there(&pid));
    let meta = meta_of(stopped);
    assert!(meta.timed_out);
    assert_eq!(meta.signal.as_deref(), Some("SIGKILL"));
}

#[tokio::test]
async fn what_left_the_session_is_ended_with_the_rest() {
    let bench = Bench::new();
    let command = "setsid sleep 60 & echo one $!; (setsid env -i sleep 61 & echo two $!); sleep 62";
    let args = json!({"command": command, "run_in_background": true});
    bench.text("Bash", args).await;
    let two = json!({"shell_id": "sh_1", "pattern": "^two"});
    bench.shows(two, "\ntwo ").await;
    let begun = bench.text("ShellStatus", json!({"shell_id": "sh_1"})).await;
    let pid = |name: &str| {
        let line = begun
            .lines()
            .find(|line| line.starts_with(name))
            .unwrap_or_else(|| panic!("{name}: {begun}"));
        line.split(' ').nth(1).expect("a pid").to_owned()
    };
    assert!(is_there(&pid("one")) && is_there(&pid("two")), "{begun}");
    bench.text("KillShell", json!({"shell_id": "sh_1"})).await;
    assert!(!is_there(&pid("one")), "found by its mark or its parent");
    assert!(!is_there(&pid("two")), "found by the pipe it holds");
}

#[tokio::test]
async fn a_cancelled_command_is_interrupted_with_all_it_started() {
    let bench = Bench::new();
    let checkpoint = Checkpoint::open().await;
    let command = format!(
        "echo begun; sleep 60 & {}; echo $! $$ >&9; exec 9>&-; sleep 61; echo never",
        checkpoint.connect()
    );
    let cx = ToolContext::for_detached_call(RequestId::new());
    let cancel = cx.cancel.clone();
    let args = json!({"command": command});
    let call = tools::call_with(&bench.registry, "Bash", args, cx);
    let (answer, pids) = tokio::join!(within(call), async {
        let (pids, _) = checkpoint.line().await;
        cancel.cancel();
        pids
    });
    let cancelled = answer.expect_err("cancelled");
    assert_error!(cancelled, Cancelled);
    assert_starts_with!(cancelled.model_text(), "begun\n");
    assert_lacks!(cancelled.model_text(), "never");
    for pid in pids.split(' ') {
        assert!(!is_there(pid), "{pid}");
    }
}

#[tokio::test]
async fn what_a_shell_made_ignore_the_interrupt_is_not_waited_for() {
    let bench = Bench::new();
    let id = start(
        &bench,
        "sleep 600 & until grep -q sleep /proc/$!/comm; do :; done; echo begun; wait",
    )
    .await;
    within(bench.terminals.wait_for_terminal_output(&id, 0))
        .await
        .expect("it begins");
    let hour = std::time::Duration::from_hours(1);
    let rung = |signal| StopStep {
        signal,
        grace: hour,
    };
    let ladder = StopSequence::from_steps(vec![
        rung(StopSignal::Interrupt),
        rung(StopSignal::Terminate),
    ]);
    let stopped = within(bench.terminals.kill_terminal(&id, ladder))
        .await
        .expect("stopped");
    assert_eq!(
        (stopped.by, stopped.survivors),
        (Some(StopSignal::Terminate), Vec::new())
    );
}

#[tokio::test]
async fn a_call_that_is_dropped_leaves_nothing_running() {
    let bench = Bench::new();
    let checkpoint = Checkpoint::open().await;
    let command = format!("{}; echo $$ >&9; sleep 60", checkpoint.connect());
    let call = bench.call("Bash", json!({"command": command}));
    let (pid, _stream) = tokio::select! {
        _ = call => panic!("it runs for a minute"),
        reported = checkpoint.line() => reported,
    };
    gone(&pid).await;
}

#[tokio::test]
async fn what_a_former_life_left_is_ended_and_a_stranger_never() {
    let (started, mut starts) = mpsc::unbounded_channel();
    let (ended, mut ends) = mpsc::unbounded_channel();
    let bench = Bench::with(base(), Arc::new(Notes { started, ended }));
    let id = start(&bench, "setsid sleep 60 & sleep 61").await;
    let (request, identity) = within(starts.recv()).await.expect("told");
    assert!(identity.is_alive());

    // The same process id with another start time: somebody else.
    let (rest, began) = identity
        .to_string()
        .rsplit_once(':')
        .map(|(rest, began)| (rest.to_owned(), began.to_owned()))
        .expect("parts");
    let later = began.parse::<u64>().expect("a number") + 100_000;
    let stranger: ProcessIdentity = format!("{rest}:{later}").parse().expect("an identity");
    assert!(!stranger.is_alive());
    let wanted = stranger.clone();
    let other = RequestId::new();
    let spared = tokio::task::spawn_blocking(move || kill_survivor(&wanted, &other))
        .await
        .expect("no panic");
    assert_eq!(spared.by, None);
    assert!(identity.is_alive());

    let survivor = identity.clone();
    let stopped = tokio::task::spawn_blocking(move || kill_survivor(&survivor, &request))
        .await
        .expect("no panic");
    assert_eq!(stopped.by, Some(StopSignal::Kill));
    assert!(stopped.survivors.is_empty());
    let exit = within(bench.terminals.wait_for_terminal_exit(&id))
        .await
        .expect("ended");
    assert_eq!(exit.status, ExitStatus::Signal("SIGKILL".to_owned()));
    assert!(!identity.is_alive());
    assert_eq!(within(ends.recv()).await.expect("told"), identity);
    assert!(ends.try_recv().is_err(), "once");
}

#[tokio::test]
async fn a_released_terminal_is_gone_and_a_killed_one_is_not() {
    let bench = Bench::new();
    let id = start(&bench, "sleep 60").await;
    let client: &dyn TerminalClient = &bench.terminals;
    within(client.kill_terminal(&id, punie_host::terminals::StopSequence::kill_at_once()))
        .await
        .expect("killed");
    let exit = within(client.wait_for_terminal_exit(&id))
        .await
        .expect("still known");
    assert_eq!(exit.status, ExitStatus::Signal("SIGKILL".to_owned()));
    client.release_terminal(&id).await.expect("released");
    assert_error!(
        client
            .wait_for_terminal_exit(&id)
            .await
            .expect_err("forgotten"),
        NotFound
    );
}

#[tokio::test]
async fn commands_do_not_outlive_the_thread_that_started_them() {
    let bench = Bench::new();
    let checkpoint = Checkpoint::open().await;
    start(
        &bench,
        &format!("{}; echo $$ >&9; exec sleep 60", checkpoint.connect()),
    )
    .await;
    let (pid, _stream) = checkpoint.line().await;
    assert!(is_there(&pid));
    // The runner is gone as far as the system can tell: nobody stops the command, its parent's thread just ends.
    drop(bench);
    gone(&pid).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn stopping_one_command_never_hits_another() {
    const ROUNDS: usize = 25;
    let bench = Arc::new(Bench::new());
    let mut work = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let (bench, other) = (Arc::clone(&bench), Arc::clone(&bench));
        work.spawn(async move {
            for _ in 0..ROUNDS {
                let id = start(&bench, "sleep 60 | sleep 61").await;
                bench
                    .terminals
                    .release_terminal(&id)
                    .await
                    .expect("released");
            }
        });
        work.spawn(async move {
            for _ in 0..4 * ROUNDS {
                let (text, _) = other.bash("echo one | cat; echo two").await;
                assert_eq!(text, "one\ntwo");
            }
        });
    }
    while let Some(done) = work.join_next().await {
        done.expect("no panic");
    }
}
