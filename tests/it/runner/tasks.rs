//! Tasks beside a conversation: their results outlive the runner, their effects do not repeat.

use serde_json::json;

use crate::harness::caller::{Answer, Ask};
use crate::harness::stage::Stage;
use crate::harness::wait::eventually;

/// Starts a task; its id.
async fn start(stage: &Stage, command: &str) -> String {
    let args = json!({ "tool": "Bash", "args": { "command": command } });
    let answer = stage.caller.have(Ask::new("Task", &args).of("talk")).await;
    let text = answer.text();
    text.split_whitespace()
        .nth(1)
        .unwrap_or_else(|| panic!("a task id: {answer:?}"))
        .to_owned()
}

async fn output(stage: &Stage, task: &str) -> Answer {
    stage
        .caller
        .have(Ask::new("TaskOutput", &json!({ "task_id": task })).of("talk"))
        .await
}

/// Asks for the task's output until it says this.
async fn says(stage: &Stage, task: &str, words: &str) -> Answer {
    eventually(&format!("the task to say {words:?}"), async || {
        let answer = output(stage, task).await;
        answer.text().contains(words).then_some(answer)
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_finished_task_can_be_read_after_a_crash() {
    let stage = Stage::new().await;
    let runner = stage.run();
    let task = start(&stage, "echo ran >> effects; echo the answer").await;
    says(&stage, &task, "is done").await;
    runner.kill();
    let runner = stage.run();
    assert!(output(&stage, &task).await.text().contains("the answer"));
    assert_eq!(stage.read("effects"), "ran\n");
    let status = stage.command(&["--json", "status"]).await.json();
    assert_eq!(
        status["outbox"]["pending"], 0,
        "nobody waits for a task's result to be posted: {status}"
    );
    runner.kill();
    assert_eq!(stage.once().await["pending"], 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_cut_off_by_a_crash_is_interrupted_and_not_run_again() {
    let stage = Stage::new().await;
    let runner = stage.run();
    let task = start(&stage, "echo half of it; echo ran >> effects; sleep 600").await;
    stage.line("effects").await;
    says(&stage, &task, "half of it").await;
    let so_far = output(&stage, &task).await;
    assert!(
        so_far.text().contains("running") && so_far.text().contains("half of it"),
        "{so_far:?}"
    );
    runner.kill();
    let runner = stage.run();
    let answer = says(&stage, &task, "failed").await;
    assert!(
        answer.text().contains("Interrupted") && answer.text().contains("half of it"),
        "{answer:?}"
    );
    assert_eq!(stage.read("effects"), "ran\n");
    runner.kill();
    assert_eq!(
        stage.once().await["pending"],
        0,
        "an interrupted task is over"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_list_of_tasks_and_their_output_survive_a_restart() {
    let stage = Stage::new().await;
    let runner = stage.run();
    let task = start(
        &stage,
        "echo first; until [ -e go ]; do sleep 0.02; done; echo second; exit 3",
    )
    .await;
    assert_eq!(task, "task_1");
    says(&stage, &task, "first").await;
    let so_far = output(&stage, &task).await;
    assert!(so_far.text().contains("first\n[since=6 "), "{so_far:?}");
    stage.write("go", "");
    let args = json!({ "task_id": task, "since": 6, "wait_ms": 30_000 });
    let text = eventually("its end", async || {
        let ask = Ask::new("TaskOutput", &args).of("talk");
        let text = stage.caller.have(ask).await.text();
        text.contains("is done after").then_some(text)
    })
    .await;
    assert!(text.contains("exit code 3"), "{text}");
    assert!(
        text.ends_with("\nsecond\n") && !text.contains("first"),
        "there is no more to follow: {text}"
    );
    let list = async || {
        stage
            .caller
            .have(Ask::new("TaskOutput", &json!({})).of("talk"))
            .await
            .text()
    };
    let before = list().await;
    assert!(
        before.contains(&format!("{task}: done, "))
            && before.contains("Bash {\"command\":\"echo first"),
        "{before}"
    );
    runner.kill();
    let _runner = stage.run();
    assert_eq!(list().await, before);
    let again = stage
        .caller
        .have(Ask::new("TaskOutput", &args).of("talk"))
        .await;
    assert_eq!(again.text(), text);
    // A number is given once, and the ids of earlier versions still name their tasks.
    let asked = json!({ "tool": "Bash", "args": { "command": "echo third" } });
    let id = stage.ask(Ask::new("Task", &asked).of("talk")).await;
    let begun = stage.answer(&id).await.text();
    assert!(
        begun.starts_with("Task task_2 started") && begun.matches("task_").count() == 1,
        "{begun}"
    );
    assert!(
        says(&stage, &format!("{id}-task"), "is done")
            .await
            .text()
            .contains("third")
    );
}
