//! Background tasks of a conversation: their results outlive the runner, and their effects do not repeat.

use serde_json::json;

use crate::harness::caller::{CallAnswer, ToolCall};
use crate::harness::stage::RunnerFixture;
use crate::harness::wait::wait_for_some;

/// Starts a task and returns its id.
async fn start_task(setup: &RunnerFixture, command: &str) -> String {
    let args = json!({ "tool": "Bash", "args": { "command": command } });
    let answer = setup
        .call(ToolCall::new("Task", &args).in_conversation("talk"))
        .await;
    let text = answer.text();
    text.split_whitespace()
        .nth(1)
        .unwrap_or_else(|| panic!("a task id: {answer:?}"))
        .to_owned()
}

async fn task_output(setup: &RunnerFixture, task: &str) -> CallAnswer {
    setup
        .call(ToolCall::new("TaskOutput", &json!({ "task_id": task })).in_conversation("talk"))
        .await
}

/// Waits until the task's output contains these words.
async fn wait_for_output(setup: &RunnerFixture, task: &str, words: &str) -> CallAnswer {
    wait_for_some(&format!("the task to say {words:?}"), async || {
        let answer = task_output(setup, task).await;
        answer.text().contains(words).then_some(answer)
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_finished_task_can_be_read_after_a_crash() {
    let setup = RunnerFixture::new().await;
    let runner = setup.run();
    let task = start_task(&setup, "echo ran >> effects; echo the answer").await;
    wait_for_output(&setup, &task, "is done").await;
    runner.kill();
    let runner = setup.run();
    assert_contains!(task_output(&setup, &task).await.text(), "the answer");
    assert_eq!(setup.read("effects"), "ran\n");
    let status = setup.command(&["--json", "status"]).await.json();
    assert_eq!(
        status["outbox"]["pending"], 0,
        "nobody waits for a task's result to be posted: {status}"
    );
    runner.kill();
    assert_eq!(setup.once().await["pending"], 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_cut_off_by_a_crash_is_interrupted_and_not_run_again() {
    let setup = RunnerFixture::new().await;
    let runner = setup.run();
    let task = start_task(&setup, "echo half of it; echo ran >> effects; sleep 600").await;
    setup.wait_for_line_in("effects").await;
    wait_for_output(&setup, &task, "half of it").await;
    let so_far = task_output(&setup, &task).await;
    assert_contains!(so_far.text(), "running", "half of it");
    runner.kill();
    let runner = setup.run();
    let answer = wait_for_output(&setup, &task, "failed").await;
    assert_contains!(answer.text(), "Interrupted", "half of it");
    assert_eq!(setup.read("effects"), "ran\n");
    runner.kill();
    assert_eq!(
        setup.once().await["pending"],
        0,
        "an interrupted task is over"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_list_of_tasks_and_their_output_survive_a_restart() {
    let setup = RunnerFixture::new().await;
    let runner = setup.run();
    let task = start_task(
        &setup,
        "echo first; until [ -e go ]; do sleep 0.02; done; echo second; exit 3",
    )
    .await;
    assert_eq!(task, "task_1");
    wait_for_output(&setup, &task, "first").await;
    let so_far = task_output(&setup, &task).await;
    assert_contains!(so_far.text(), "first\n[since=6 ");
    setup.write("go", "");
    let args = json!({ "task_id": task, "since": 6, "wait_ms": 30_000 });
    let text = wait_for_some("its end", async || {
        let ask = ToolCall::new("TaskOutput", &args).in_conversation("talk");
        let text = setup.call(ask).await.text();
        text.contains("is done after").then_some(text)
    })
    .await;
    assert_contains!(text, "exit code 3");
    assert_ends_with!(text, "\nsecond\n"; "there is no more to follow");
    assert_lacks!(text, "first"; "there is no more to follow");
    let list = async || {
        setup
            .call(ToolCall::new("TaskOutput", &json!({})).in_conversation("talk"))
            .await
            .text()
    };
    let before = list().await;
    assert_contains!(
        before,
        &format!("{task}: done, "),
        "Bash {\"command\":\"echo first"
    );
    runner.kill();
    let _runner = setup.run();
    assert_eq!(list().await, before);
    let again = setup
        .call(ToolCall::new("TaskOutput", &args).in_conversation("talk"))
        .await;
    assert_eq!(again.text(), text);
    // A task number is used once, and the ids of earlier versions still name their tasks.
    let asked = json!({ "tool": "Bash", "args": { "command": "echo third" } });
    let id = setup
        .ask(ToolCall::new("Task", &asked).in_conversation("talk"))
        .await;
    let begun = setup.answer(&id).await.text();
    assert!(
        begun.starts_with("Task task_2 started") && begun.matches("task_").count() == 1,
        "{begun}"
    );
    assert_contains!(
        wait_for_output(&setup, &format!("{id}-task"), "is done")
            .await
            .text(),
        "third"
    );
}
