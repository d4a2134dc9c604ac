//! The owner ends running calls without a caller's token: all with `pause --now`, one call or shell with `stop`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use punie_engine::journal::RequestState;
use punie_engine::runner::RunnerSettings;
use punie_home::{Home, RunnerLock};
use punie_host::terminals::{StopSequence, StopSignal};
use punie_tool::request::{ToolEffect, ToolReply};
use punie_tool::{DeclaredAccess, Tool, ToolContext, ToolError, ToolRegistry, ToolSet};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::harness::caller::ToolCall;
use crate::harness::inside::RunnerInProcess;
use crate::harness::process::RunningProgram;
use crate::harness::relay::{CallFate, Relay};
use crate::harness::running::{is_alive, processes_with_argument};
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::wait_until;

/// Returns a number of seconds that no other process sleeps.
fn process_marker(test: u32) -> String {
    format!("6{:07}{test:02}", std::process::id())
}

/// Returns a command that ignores every signal but SIGKILL, and writes its process id to this file.
fn stubborn_command(file: &str) -> String {
    format!("trap '' INT TERM; echo half of it; echo $$ > {file}; while :; do sleep 1; done")
}

async fn begin_shell(setup: &RunnerFixture, command: &str) {
    let args = json!({ "command": command, "run_in_background": true });
    setup.call_tool("Bash", &args).await.expect_ok();
}

async fn shell_state(setup: &RunnerFixture, id: &str) -> String {
    let ask = ToolCall::new("ShellStatus", &json!({ "shell_id": id }));
    setup.call(ask).await.text()
}

fn sorted_texts(list: &Value) -> Vec<&str> {
    let mut texts: Vec<&str> = list
        .as_array()
        .expect("a list")
        .iter()
        .map(|text| text.as_str().expect("a text"))
        .collect();
    texts.sort_unstable();
    texts
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pause_now_ends_all_that_runs_and_nothing_that_waits() {
    let setup = RunnerFixture::new().await;
    let _runner = setup.run();
    let marker = process_marker(1);
    let deaf = format!("(sleep {marker}) & {}", stubborn_command("deaf"));
    let deaf = setup.ask(ToolCall::bash(&deaf).in_conversation("a")).await;
    let polite = "trap 'echo asked to end; exit' TERM; echo $$ > polite; sleep 600 & wait";
    let polite = setup.ask(ToolCall::bash(polite).in_conversation("b")).await;
    let query =
        "with recursive c(x) as (select 1 union all select x + 1 from c) select count(*) from c";
    rusqlite::Connection::open(setup.file("numbers.db"))
        .and_then(|db| db.execute_batch("create table t (n)"))
        .expect("a database");
    let args = json!({ "database_path": "numbers.db", "query": query, "timeout_ms": 600_000 });
    let query = setup
        .ask(ToolCall::new("SqliteQuery", &args).in_conversation("c"))
        .await;
    begin_shell(&setup, &stubborn_command("shell")).await;
    let args = json!({ "command": stubborn_command("terminal"), "background": true });
    let begun = setup.call(ToolCall::new("run_command", &args).in_conversation("d"));
    begun.await.expect_ok();
    let behind = setup
        .ask(ToolCall::bash("echo ran > behind").in_conversation("a"))
        .await;
    let mut pids = Vec::new();
    for file in ["deaf", "polite", "shell", "terminal"] {
        pids.push(setup.wait_for_line_in(file).await);
    }
    setup.wait_for_state(&query, RequestState::Started).await;
    setup.wait_for_state(&behind, RequestState::Accepted).await;

    let paused = setup.command(&["--json", "pause", "--now"]).await;
    // The processes must be gone by now, not after a while.
    let alive: Vec<_> = pids.iter().filter(|pid| is_alive(pid)).collect();
    assert_eq!(
        (alive.len(), processes_with_argument(&marker)),
        (0, Vec::new())
    );
    assert_eq!(paused.code, Some(0), "{paused:?}");
    let paused = paused.json();
    let ended = &paused["ended"];
    let mut calls = [&*deaf, &*polite, &*query];
    calls.sort_unstable();
    assert_eq!(sorted_texts(&ended["calls"]), calls, "{paused}");
    assert_eq!(
        sorted_texts(&ended["shells"]),
        ["sh_1", "term-0"],
        "{paused}"
    );
    assert_fields!(ended, {"left": [], "withdrawn": []});
    // A command that is slow to end gets SIGKILL, even if it handles SIGTERM.
    for (id, words) in [
        (&deaf, &["half of it", "stopped with SIGKILL after "][..]),
        (&polite, &["stopped with SIG"]),
        (&query, &[]),
    ] {
        let answer = setup.answer(id).await;
        assert_eq!(answer.verdict(), ("cancelled", "cancelled"), "{answer:?}");
        let text = answer.text();
        assert_starts_with!(text, "The owner stopped it");
        assert!(words.iter().all(|words| text.contains(words)), "{text}");
    }
    // The sum of these is the longest time that a command may take to end.
    let steps = StopSequence::for_owner_stop();
    assert_eq!(steps.steps()[0].signal, StopSignal::Terminate);
    let graces: Duration = steps.steps().iter().map(|step| step.grace).sum();
    assert!(graces < Duration::from_secs(1));

    assert_eq!(setup.state(&behind), Some(RequestState::Accepted));
    let again = setup.command(&["pause", "--now"]).await;
    assert!(
        again.code == Some(0) && again.out.contains("Nothing was running."),
        "{again:?}"
    );
    assert_eq!(setup.command(&["resume"]).await.code, Some(0));
    setup.answer(&behind).await.expect_ok();
    let told = shell_state(&setup, "sh_1").await;
    assert_contains!(told, "killed by SIGKILL; the owner stopped it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pause_now_waits_for_no_slower_end_and_for_no_backend() {
    let setup = RunnerFixture::new().await;
    let relay = Relay::before(&setup.setting.url).await;
    let _runner = setup.run_at(&relay.url);
    // The caller has cancelled this call, which gives its command ten seconds to end.
    let command =
        "trap '' TERM; trap 'echo > asked' INT; echo $$ > slow; while :; do sleep 1; done";
    let slow = setup
        .ask(ToolCall::bash(command).in_conversation("a"))
        .await;
    // The runner has just started this command, and would give it two seconds to end.
    let args = json!({ "command": stubborn_command("young"), "run_in_background": true, "yield_ms": 60_000 });
    let young = setup
        .ask(ToolCall::new("Bash", &args).in_conversation("b"))
        .await;
    let pids = [
        setup.wait_for_line_in("slow").await,
        setup.wait_for_line_in("young").await,
    ];
    setup.caller.cancel(&slow).await;
    setup.wait_for_line_in("asked").await;
    // The backend does not answer the claim of this call.
    let known = [slow.clone(), young.clone()];
    let hangs = Arc::new(AtomicBool::new(false));
    let is_hanging = Arc::clone(&hangs);
    relay.rule(move |path, args| {
        let is_known = known.iter().any(|id| args["requestId"] == id.as_str());
        if path != "events:claim" || is_known {
            return CallFate::Pass;
        }
        is_hanging.store(true, Ordering::Relaxed);
        CallFate::Hang
    });
    let claimed = setup
        .ask(ToolCall::bash("echo ran > claimed").in_conversation("c"))
        .await;
    wait_until("its claim", || hangs.load(Ordering::Relaxed)).await;

    let paused = setup.command(&["--json", "pause", "--now"]).await;
    let alive: Vec<_> = pids.iter().filter(|pid| is_alive(pid)).collect();
    assert!(alive.is_empty(), "{alive:?}: {paused:?}");
    assert_eq!(paused.code, Some(0), "{paused:?}");
    let paused = paused.json();
    let mut calls = [&*slow, &*young, &*claimed];
    calls.sort_unstable();
    assert_eq!(sorted_texts(&paused["ended"]["calls"]), calls, "{paused}");
    assert_eq!(paused["ended"]["left"], json!([]), "{paused}");
    for id in [&slow, &young] {
        let answer = setup.answer(id).await;
        assert_eq!(answer.verdict(), ("cancelled", "cancelled"), "{answer:?}");
        assert_starts_with!(answer.text(), "The owner stopped it");
    }
    // The answer of this call waits for the backend.
    setup.wait_for_state(&claimed, RequestState::Finished).await;
    assert_eq!(setup.read("claimed"), "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stop_ends_one_call_or_shell_and_tells_the_truth_about_others() {
    let setup = RunnerFixture::new().await;
    let _runner = setup.run();
    let other = setup
        .ask(ToolCall::bash(&stubborn_command("other")).in_conversation("other"))
        .await;
    let call = setup
        .ask(ToolCall::bash(&stubborn_command("call")).in_conversation("talk"))
        .await;
    let behind = setup
        .ask(ToolCall::bash("echo ran > behind").in_conversation("talk"))
        .await;
    begin_shell(&setup, "echo $$ > shell; sleep 600").await;
    let newest = ["history", "--json", "--limit", "1"];
    let begun = setup.command(&newest).await.json()["requestId"].clone();
    let [other_pid, call_pid, shell_pid] = [
        setup.wait_for_line_in("other").await,
        setup.wait_for_line_in("call").await,
        setup.wait_for_line_in("shell").await,
    ];
    let status = setup.status().await;
    assert_eq!(status["shells"][0]["id"], "sh_1", "{status}");
    setup.wait_for_state(&behind, RequestState::Accepted).await;

    let begun = begun.as_str().expect("an id");
    let refused = setup.command(&["stop", begun]).await;
    let words = "but sh_1 still runs in the background; `punie-runner stop sh_1` ends it";
    assert_contains!(refused.log, words);
    let shown = setup.command(&["history", begun]).await.out;
    assert_contains!(
        shown,
        "`punie-runner stop sh_1` ends it",
        "Changes by the command are not tracked."
    );

    let withdrawn = setup.command(&["stop", &behind]).await;
    assert_eq!(withdrawn.code, Some(0), "{withdrawn:?}");
    assert_contains!(withdrawn.out, "never will");
    let answer = setup.answer(&behind).await;
    assert_eq!(answer.verdict(), ("cancelled", "cancelled"));
    let text = answer.text();
    assert_starts_with!(text, "The owner stopped it");
    assert_contains!(text, "it never ran");

    let stopped = setup.command(&["stop", &call]).await;
    assert!(!is_alive(&call_pid) && is_alive(&shell_pid) && is_alive(&other_pid));
    assert_eq!(stopped.code, Some(0), "{stopped:?}");
    assert_eq!(stopped.out.trim(), format!("Ended the call {call}."));
    let answer = setup.answer(&call).await;
    assert_eq!(answer.verdict(), ("cancelled", "cancelled"));
    assert_contains!(answer.text(), "half of it");
    let ended = setup.command(&["stop", "sh_1", "--json"]).await.json();
    assert_fields!(ended, {"id": "sh_1", "shells": ["sh_1"]});
    assert!(!is_alive(&shell_pid) && is_alive(&other_pid));

    setup.wait_for_state(&call, RequestState::Delivered).await;
    for (id, words) in [
        (&*call, "had ended before"),
        ("sh_1", "sh_1 had ended before"),
        ("sh_9", "no shell or terminal sh_9 is running"),
        ("term-7", "no shell or terminal term-7 is running"),
        ("none", "the journal knows no request \"none\""),
    ] {
        let refused = setup.command(&["stop", id]).await;
        assert_eq!(refused.code, Some(1), "{id}: {refused:?}");
        assert_contains!(refused.log, words; "{id}");
    }
    assert_eq!(setup.command(&["stop", &other]).await.code, Some(0));
    assert!(!is_alive(&other_pid));
    let rows = setup.command(&["audit", "list", "--json"]).await.out;
    assert_eq!(rows.matches("\"event\":\"stop\"").count(), 4, "{rows}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_runner_that_is_stopping_or_makes_one_pass_is_told_too() {
    let setup = RunnerFixture::with_config("[limits]\ndrain_ms = 600000\n").await;
    let runner = setup.run();
    let call = setup.ask_bash(&stubborn_command("first")).await;
    let pid = setup.wait_for_line_in("first").await;
    runner.terminate();
    let stopped = setup.command(&["stop", &call]).await;
    let log = runner.log();
    assert!(
        stopped.code == Some(0) && !is_alive(&pid),
        "{stopped:?} {log}"
    );
    assert_eq!(runner.end().await.code, Some(0));
    assert_eq!(
        setup.answer(&call).await.verdict(),
        ("cancelled", "cancelled")
    );

    let call = setup.ask_bash(&stubborn_command("second")).await;
    let pass = RunningProgram::start(&setup.setting, &["--once", "--json"]);
    let pid = setup.wait_for_line_in("second").await;
    let paused = setup.command(&["pause", "--now"]).await;
    assert!(paused.code == Some(0) && !is_alive(&pid), "{paused:?}");
    let pass = pass.end().await;
    assert_eq!(pass.code, Some(0), "{pass:?}");
    assert_eq!(pass.json()["delivered"], 1, "{pass:?}");
    assert_eq!(
        setup.answer(&call).await.verdict(),
        ("cancelled", "cancelled")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_runner_what_a_killed_one_left_is_ended() {
    let setup = RunnerFixture::new().await;
    let runner = setup.run();
    begin_shell(&setup, "echo $$ > shell; sleep 600").await;
    let shell = setup.wait_for_line_in("shell").await;
    let command = "sleep 600 & echo $! > orphan; wait";
    let call = setup.ask_bash(command).await;
    let orphan = setup.wait_for_line_in("orphan").await;
    runner.kill();
    assert!(
        is_alive(&shell) && is_alive(&orphan),
        "the test needs orphans"
    );
    let refused = setup.command(&["stop", &call]).await;
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert_contains!(refused.log, "no runner is running", "pause --now");
    let paused = setup.command(&["pause", "--now"]).await;
    assert!(!is_alive(&shell) && !is_alive(&orphan), "{paused:?}");
    assert_eq!(paused.code, Some(0));
    assert_contains!(
        paused.out,
        "Ended 1 call, and 1 shell in the background: sh_1."
    );
    assert_contains!(paused.out, "No runner is running");
    let again = setup.command(&["pause", "--now"]).await;
    assert_contains!(again.out, "Nothing was running.");
}

/// Blocks its call until the test lets it go, and ignores a cancel.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct IgnoreCancel {}

impl Tool for IgnoreCancel {
    const NAME: &'static str = "Deaf";
    const EFFECT: ToolEffect = ToolEffect::Executes;
    type Deps = Arc<[Notify; 2]>;
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        DeclaredAccess::none()
    }

    async fn run(
        self,
        _cx: &ToolContext,
        gates: &Arc<[Notify; 2]>,
    ) -> Result<ToolReply, ToolError> {
        gates[0].notify_one();
        gates[1].notified().await;
        Ok(ToolReply::from_text("done all the same"))
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_does_not_end_is_named_and_a_runner_that_is_silent_too() {
    let setup = RunnerFixture::new().await;
    let home = Home::open_home(&setup.setting.home).expect("a home");
    let _lock = RunnerLock::try_acquire(&home).expect("free");
    let gates = Arc::new([Notify::new(), Notify::new()]);
    let tools = ToolSet::new("test", Arc::clone(&gates)).with_tool::<IgnoreCancel>();
    let tools = ToolRegistry::new([tools.into_entries()]).expect("one tool");
    let runner = RunnerInProcess::start(&setup, tools, RunnerSettings::default());
    let call = setup.ask(ToolCall::new("Deaf", &json!({}))).await;
    gates[0].notified().await;
    let paused = setup.command(&["pause", "--now"]).await;
    assert_eq!(paused.code, Some(1), "{paused:?}");
    assert_contains!(paused.out, &format!("Still running: Deaf (call {call})."));
    gates[1].notify_one();
    // The call has finished, and its answer says so.
    assert_eq!(setup.answer(&call).await.text(), "done all the same");
    runner.stop().await;

    let silent = setup.command(&["stop", "sh_1"]).await;
    assert_eq!(silent.code, Some(124), "{silent:?}");
    let pid = std::process::id();
    assert_contains!(
        silent.log,
        "the runner did not answer",
        &format!("`kill {pid}`")
    );
    let left = std::fs::read_dir(setup.setting.home.join("state/switches")).expect("a folder");
    let names: Vec<_> = left.map(|file| file.expect("a file").file_name()).collect();
    assert_eq!(names, ["paused"], "no order is left for a later runner");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_in_the_foreground_dies_with_a_runner_that_is_killed() {
    let setup = RunnerFixture::new().await;
    let runner = setup.run();
    setup.ask_bash(&stubborn_command("pid")).await;
    let pid = setup.wait_for_line_in("pid").await;
    runner.kill();
    // No other runner starts, so the kernel ends this command. The next runner would end the processes that it started
    // (survivors).
    wait_until("its end", || !is_alive(&pid)).await;
}
