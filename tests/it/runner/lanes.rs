//! The order of calls: calls of one conversation wait for each other, conversations do not, and control tools never
//! wait.

use punie_engine::journal::RequestState;
use serde_json::json;

use crate::harness::caller::ToolCall;
use crate::harness::stage::RunnerFixture;

const GATE: &str = "echo here > began; echo a line of output; until [ -e go ]; do sleep 0.02; done";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_command_holds_up_its_own_conversation_alone() {
    let setup = RunnerFixture::new().await;
    let _runner = setup.run();
    let slow = setup
        .ask(ToolCall::bash(GATE).in_conversation("slow"))
        .await;
    setup.wait_for_line_in("began").await;
    let behind = setup
        .ask(ToolCall::bash("echo ran > behind").in_conversation("slow"))
        .await;
    // Another conversation runs its effects and its reads meanwhile.
    for ask in [
        ToolCall::bash("echo other > other"),
        ToolCall::new("Read", &json!({ "file_path": "began" })),
    ] {
        setup.call(ask.in_conversation("other")).await.expect_ok();
    }
    assert!(
        setup.caller.result(&slow).await.is_none() && setup.caller.result(&behind).await.is_none()
    );
    assert_eq!(setup.read("behind"), "");
    setup.write("go", "");
    setup.answer(&slow).await.expect_ok();
    setup.answer(&behind).await.expect_ok();
    assert_eq!(setup.read("behind"), "ran\n");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn control_tools_answer_while_a_command_of_their_conversation_runs() {
    let setup = RunnerFixture::new().await;
    let _runner = setup.run();
    let slow = setup
        .ask(ToolCall::bash(GATE).in_conversation("talk"))
        .await;
    setup.wait_for_line_in("began").await;
    setup
        .call(ToolCall::new("ShellStatus", &json!({})).in_conversation("talk"))
        .await
        .expect_ok();
    let id = punie_core::ids::RequestId::parse(slow.clone()).expect("an id");
    let handle = punie_text::output::OutputStore::handle_for(&id, 0);
    setup
        .wait_for_stored_output(&slow, "a line of output")
        .await;
    let so_far =
        ToolCall::new("ReadOutput", &json!({ "handle": handle.as_str() })).in_conversation("talk");
    let so_far = setup.call(so_far).await;
    assert_contains!(so_far.text(), "a line of output");
    assert!(setup.caller.result(&slow).await.is_none(), "it still runs");
    setup.write("go", "");
    setup.answer(&slow).await.expect_ok();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn more_requests_than_may_wait_wait_in_the_journal_in_order_and_hold_nobody_up() {
    let setup = RunnerFixture::with_config("[limits]\nqueue = 8\n").await;
    let _runner = setup.run();
    let slow = setup
        .ask(ToolCall::bash(GATE).in_conversation("talk"))
        .await;
    setup.wait_for_line_in("began").await;
    let mut asked = Vec::new();
    for n in 0..30 {
        asked.push(
            setup
                .ask(ToolCall::bash(&format!("echo {n} >> order")).in_conversation("talk"))
                .await,
        );
    }
    // The backlog of one conversation delays no control tool and no other conversation. It does not delay a cancel of
    // its last request either.
    let last = asked.pop().expect("thirty");
    setup
        .call(ToolCall::new("ShellStatus", &json!({})).in_conversation("talk"))
        .await
        .expect_ok();
    let read = ToolCall::new("Read", &json!({ "file_path": "began" })).in_conversation("other");
    setup.call(read).await.expect_ok();
    assert_eq!(setup.caller.cancel(&last).await, "cancelling");
    assert_eq!(setup.answer(&last).await.outcome, "cancelled");
    assert!(setup.caller.result(&slow).await.is_none(), "it still runs");
    setup.write("go", "");
    setup.answer(&slow).await.expect_ok();
    for id in &asked {
        setup.answer(id).await.expect_ok();
    }
    let order: Vec<String> = setup.read("order").lines().map(str::to_owned).collect();
    assert_eq!(order, (0..29).map(|n| n.to_string()).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tasks_that_take_long_leave_the_places_of_other_calls_free() {
    let setup = RunnerFixture::with_config("[limits]\nreads = 2\ntotal = 2\n").await;
    let _runner = setup.run();
    for _ in 0..3 {
        let task = json!({ "tool": "Bash", "args": { "command": "until [ -e go ]; do sleep 0.02; done" } });
        setup.call_tool("Task", &task).await.expect_ok();
    }
    setup.bash("true").await.expect_ok();
    setup.write("go", "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_commands_of_many_conversations_keep_no_read_waiting() {
    let setup = RunnerFixture::with_config("[limits]\nreads = 1\ntotal = 2\n").await;
    let _runner = setup.run();
    let mut slow = Vec::new();
    for n in 0..3 {
        let gate = format!("echo here > began-{n}; until [ -e go ]; do sleep 0.02; done");
        slow.push(
            setup
                .ask(ToolCall::bash(&gate).in_conversation(&format!("slow-{n}")))
                .await,
        );
    }
    for n in 0..2 {
        setup.wait_for_line_in(&format!("began-{n}")).await;
    }
    let glob = ToolCall::new("Glob", &json!({ "pattern": "began-*" })).in_conversation("other");
    setup.call(glob).await.expect_ok();
    for id in &slow {
        assert!(
            setup.caller.result(id).await.is_none(),
            "they still run or wait"
        );
    }
    setup.write("go", "");
    for id in &slow {
        setup.answer(id).await.expect_ok();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_that_hang_keep_no_other_read_waiting_for_good() {
    let setup = RunnerFixture::with_config("[limits]\nreads = 2\n").await;
    let git = setup.file(".git");
    std::fs::create_dir_all(git.join("objects")).expect("made");
    std::fs::create_dir_all(git.join("refs")).expect("made");
    // A read of a named pipe without a writer blocks, like a disk that does not answer.
    rustix::fs::mkfifoat(rustix::fs::CWD, git.join("HEAD"), rustix::fs::Mode::RWXU).expect("made");
    let _runner = setup.run();
    let mut hanging = Vec::new();
    for _ in 0..3 {
        hanging.push(
            setup
                .ask(ToolCall::new("GitStatus", &json!({})).in_conversation("talk"))
                .await,
        );
    }
    for id in &hanging[..2] {
        setup.wait_for_state(id, RequestState::Started).await;
    }
    let glob = ToolCall::new("Glob", &json!({ "pattern": "*" })).in_conversation("talk");
    setup.call(glob).await.expect_ok();
    for id in &hanging {
        assert_eq!(
            setup.state(id),
            Some(RequestState::Started),
            "it still hangs"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backlog_that_is_taken_back_is_answered_while_nothing_may_begin_and_holds_up_nothing_after()
 {
    let setup = RunnerFixture::with_config("[limits]\nqueue = 8\n").await;
    assert_eq!(setup.command(&["pause"]).await.code, Some(0));
    let _runner = setup.run();
    let mut asked = Vec::new();
    for n in 0..40 {
        asked.push(
            setup
                .ask(ToolCall::bash("echo ran >> effects").in_conversation(&format!("talk-{n}")))
                .await,
        );
    }
    for id in &asked {
        setup.wait_for_state(id, RequestState::Accepted).await;
    }
    let last = asked.pop().expect("forty");
    for id in &asked {
        assert_eq!(setup.caller.cancel(id).await, "cancelling");
    }
    for id in &asked {
        assert_eq!(setup.answer(id).await.outcome, "cancelled");
    }
    assert_eq!(setup.command(&["resume"]).await.code, Some(0));
    setup.answer(&last).await.expect_ok();
    assert_eq!(setup.read("effects"), "ran\n");
}
