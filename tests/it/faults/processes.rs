//! Processes that ignore signals, leave their session, or belong to another program.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use punie_host::terminals::StopSequence;
use rustix::process::Signal;
use serde_json::json;

use crate::harness::caller::ToolCall;
use crate::harness::process::copy_program;
use crate::harness::process::{PROGRAM, RunningProgram};
use crate::harness::running::{is_alive, processes_with_argument};
use crate::harness::stage::RunnerFixture;
use crate::harness::tools;
use crate::harness::wait::wait_until;
use crate::harness::whole::all_tools;

/// Returns whether a process is gone or a zombie.
fn is_over(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat"));
    stat.map_or(true, |stat| stat.contains(") Z "))
}

/// Returns a number of seconds that no other process sleeps.
fn process_marker(fault: u32) -> String {
    format!("7{:07}{fault:03}", std::process::id())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f44_a_command_that_ignores_signals_is_dead_when_its_cancel_is_answered() {
    let setup = RunnerFixture::new().await;
    let _runner = setup.run();
    let marker = process_marker(44);
    let command = format!(
        "trap '' INT TERM; echo half of it; (sleep {marker}) & echo $$ > begun; while :; do sleep 1; done"
    );
    let id = setup.ask_bash(&command).await;
    let shell = setup.wait_for_line_in("begun").await;
    wait_until("its child", || processes_with_argument(&marker).len() == 1).await;
    setup.caller.cancel(&id).await;
    let answer = setup.answer(&id).await;
    assert_eq!(
        (is_alive(&shell), processes_with_argument(&marker)),
        (false, Vec::new()),
        "{answer:?}"
    );
    assert_eq!(answer.verdict(), ("cancelled", "cancelled"));
    let text = answer.text();
    assert_contains!(text, "half of it", "stopped with SIGKILL after ");
    assert_eq!(answer.payload["meta"]["mayHaveRun"], true);
    // The sum of these is the longest time that the stop may take.
    let graces: Duration = StopSequence::for_cancel()
        .steps()
        .iter()
        .map(|rung| rung.grace)
        .sum();
    assert_eq!(graces, Duration::from_secs(10));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f45_a_daemon_that_left_its_session_and_its_environment_ends_with_its_command() {
    let setup = RunnerFixture::new().await;
    let _runner = setup.run();
    let marker = process_marker(45);
    let command = format!(
        "(cd / && exec setsid env -i bash -c 'exec 0<&- 1>&- 2>&-; (setsid sleep {marker} &)') & echo begun; sleep 600"
    );
    let id = setup.ask_bash(&command).await;
    wait_until("the daemon", || processes_with_argument(&marker).len() == 1).await;
    setup.caller.cancel(&id).await;
    assert_eq!(
        setup.answer(&id).await.verdict(),
        ("cancelled", "cancelled")
    );
    assert_eq!(processes_with_argument(&marker), Vec::<u32>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_daemon_that_lowers_its_limit_ends_with_its_command() {
    let setup = RunnerFixture::new().await;
    let _runner = setup.run();
    let marker = process_marker(47);
    let command = format!(
        "(ulimit -x 7; setsid bash -c 'exec 0<&- 1>&- 2>&-; (setsid sleep {marker} &)') & echo begun; sleep 600"
    );
    let id = setup.ask_bash(&command).await;
    wait_until("the daemon", || processes_with_argument(&marker).len() == 1).await;
    setup.caller.cancel(&id).await;
    let answer = setup.answer(&id).await;
    assert_eq!(
        processes_with_argument(&marker),
        Vec::<u32>::new(),
        "{answer:?}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_whose_first_thread_has_ended_ends_with_its_command() {
    const CODE: &str = "import ctypes, os, threading, time\n\
        threading.Thread(target=time.sleep, args=(600,)).start()\n\
        open('begun', 'w').write(str(os.getpid()) + '\\n')\n\
        ctypes.CDLL(None).pthread_exit(None)\n";
    let setup = RunnerFixture::new().await;
    let _runner = setup.run();
    setup.write("code.py", CODE);
    let command = "(setsid python3 code.py > /dev/null 2>&1 &); sleep 600";
    let id = setup.ask_bash(command).await;
    let process = setup.wait_for_line_in("begun").await;
    wait_until("the end of its first thread", || is_over(&process)).await;
    assert!(is_alive(&process));
    setup.caller.cancel(&id).await;
    let answer = setup.answer(&id).await;
    assert!(!is_alive(&process), "{answer:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f46_a_grandchild_that_holds_the_output_does_not_hold_the_result() {
    let setup = RunnerFixture::new().await;
    let _runner = setup.run();
    let marker = process_marker(46);
    let answer = setup.bash(&format!("sleep {marker} & echo hi")).await;
    // The process still holds the output when the answer arrives.
    wait_until("the process in the background", || {
        processes_with_argument(&marker).len() == 1
    })
    .await;
    assert!(
        answer.outcome == "ok" && answer.text().starts_with("hi\n"),
        "{answer:?}"
    );
    assert_eq!(
        answer.payload["meta"]["outputIncomplete"], true,
        "{answer:?}"
    );
    let ended = setup
        .call_tool("KillShell", &json!({ "shell_id": "sh_1" }))
        .await;
    assert_eq!(
        (ended.outcome.as_str(), processes_with_argument(&marker)),
        ("ok", Vec::new())
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f50_a_stranger_with_a_recorded_process_id_is_not_signalled() {
    let setup = RunnerFixture::new().await;
    let runner = setup.run();
    let id = setup.ask_bash("echo here > begun; sleep 600").await;
    setup.wait_for_line_in("begun").await;
    let journal = || {
        rusqlite::Connection::open(setup.setting.home.join("state/journal.sqlite3"))
            .expect("the journal")
    };
    let identity = || {
        journal().query_row("select identity from child", [], |row| {
            row.get::<_, String>(0)
        })
    };
    // The command may write its file before the runner has recorded the child.
    wait_until("a record of the child", || identity().is_ok()).await;
    runner.kill();
    let mut stranger = Command::new("sleep").arg("600").spawn().expect("a process");
    let recorded = identity().expect("one child");
    let db = journal();
    // Another process has the id now: same boot, another start time.
    let (boot, _) = recorded.split_once(':').expect("parts");
    let reused = format!("{boot}:{}:1", stranger.id());
    assert_eq!(
        db.execute("update child set identity = ?1", [reused])
            .expect("changed"),
        1
    );
    drop(db);
    let _runner = setup.run();
    setup.answer(&id).await.expect_error("interrupted");
    assert!(
        stranger.try_wait().expect("ours").is_none(),
        "the stranger was ended"
    );
    stranger.kill().expect("ours");
    stranger.wait().expect("ended");
}

#[test]
fn f51_a_command_outlives_the_pool_thread_that_asked_for_it() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_keep_alive(Duration::from_millis(1))
        .enable_all()
        .build()
        .expect("a runtime");
    let marker = process_marker(51);
    let start = json!({ "command": format!("exec sleep {marker}"), "run_in_background": true });
    runtime.block_on(async {
        let whole = std::sync::Arc::new(all_tools());
        let asking = std::sync::Arc::clone(&whole);
        let asked = tokio::task::spawn_blocking(move || {
            let begun = tokio::runtime::Handle::current().block_on(tools::call_tool(
                &asking.registry,
                "Bash",
                start,
            ));
            begun.expect("it starts");
            Path::new("/proc").join(std::fs::read_link("/proc/thread-self").expect("this thread"))
        });
        let thread = asked.await.expect("no panic");
        wait_until("the command", || {
            processes_with_argument(&marker).len() == 1
        })
        .await;
        wait_until("the end of the thread", || !thread.exists()).await;
        assert_eq!(
            processes_with_argument(&marker).len(),
            1,
            "it died with the thread"
        );
        let killed =
            tools::call_tool(&whole.registry, "KillShell", json!({ "shell_id": "sh_1" })).await;
        killed.expect("it ends");
    });
    assert_eq!(processes_with_argument(&marker), Vec::<u32>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f56_a_lock_is_free_when_its_holder_was_killed_and_a_child_of_it_lives() {
    let setup = RunnerFixture::new().await;
    let runner = setup.run();
    let marker = process_marker(56);
    let id = setup
        .ask_bash(&format!("setsid sleep {marker} & echo here > begun; wait"))
        .await;
    setup.wait_for_line_in("begun").await;
    wait_until("the child", || processes_with_argument(&marker).len() == 1).await;
    let background = json!({ "command": "sleep 600", "run_in_background": true });
    setup
        .call(ToolCall::new("Bash", &background).in_conversation("other"))
        .await
        .expect_ok();
    runner.kill();
    assert_eq!(
        processes_with_argument(&marker).len(),
        1,
        "the test needs a child that lives"
    );
    assert_eq!(setup.once().await["pending"], 0);
    setup.answer(&id).await.expect_error("interrupted");
    assert_eq!(processes_with_argument(&marker), Vec::<u32>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn f63_a_runner_whose_program_is_replaced_goes_on() {
    let setup = RunnerFixture::new().await;
    let program = setup.setting.logs.join("runner-under-test");
    copy_program(Path::new(PROGRAM), &program);
    let mut command = Command::new(&program);
    command.arg("run");
    let runner = RunningProgram::launch(&setup.setting, command, &[]);
    setup.bash("echo before").await.expect_ok();
    let other = setup.setting.logs.join("another-version");
    std::fs::write(&other, "not a program").expect("written");
    std::fs::rename(&other, &program).expect("replaced");
    let answer = setup.bash("sleep 0 | cat; echo after").await;
    assert!(
        answer.outcome == "ok" && answer.text().contains("after"),
        "{answer:?}"
    );
    let background = json!({ "command": "echo shell", "run_in_background": true });
    setup.call_tool("Bash", &background).await.expect_ok();
    runner.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commands_that_end_while_the_runner_is_stopped_are_answered_with_their_end() {
    const LIMIT_MS: u64 = 8_000;
    let setup = RunnerFixture::new().await;
    let runner = setup.run();
    let command = |name: &str| {
        format!(
            "echo $$ > begun.{name}; until [ -e go ]; do sleep 0.02; done; echo its end; exit 3"
        )
    };
    let in_background = json!({"command": command("shell"), "run_in_background": true});
    let begun = setup.call_tool("Bash", &in_background).await;
    begun.expect_ok();
    let since = Instant::now();
    let bash = |name: &str, before: &str| {
        let line = format!("{before}{}", command(name));
        ToolCall::new("Bash", &json!({"command": line, "timeout": LIMIT_MS})).in_conversation(name)
    };
    let status = json!({"shell_id": "sh_1", "wait_ms": LIMIT_MS});
    let asked = [
        setup.ask(ToolCall::new("ShellStatus", &status)).await,
        setup.ask(bash("ends", "")).await,
        setup.ask(bash("leaves", "sleep 60 & ")).await,
    ];
    let mut shells = Vec::new();
    for name in ["shell", "ends", "leaves"] {
        shells.push(setup.wait_for_line_in(&format!("begun.{name}")).await);
    }
    // The commands must run well before the limit, also on a slow machine: otherwise the test shows nothing.
    assert!(since.elapsed() < Duration::from_millis(LIMIT_MS));
    runner.signal(Signal::STOP);
    setup.write("go", "");
    wait_until("their end", || shells.iter().all(|shell| is_over(shell))).await;
    wait_until("their limit", || {
        since.elapsed() > Duration::from_millis(LIMIT_MS + 1_000)
    })
    .await;
    runner.signal(Signal::CONT);
    for id in &asked {
        let answer = setup.answer(id).await;
        let text = answer.text().to_lowercase();
        answer.expect_ok();
        assert_contains!(text, "its end", "exit code 3"; "{answer:?}");
    }
}
