//! Task: calls that it refuses before it starts anything. Running tasks, and tasks that outlive the runner, are tested
//! in `runner::tasks`.

use punie_tool::ToolEffect;
use serde_json::json;

use crate::harness::caller::ToolCall;
use crate::harness::stage::RunnerFixture;
use crate::harness::tools::{build_registry, call_tool};
use crate::output::output_store;

#[tokio::test]
async fn an_agent_is_refused_and_nothing_is_started() {
    let (_dir, store) = output_store();
    let tools = build_registry(super::state_tools(&store));
    for args in [
        json!({"description": "write a poem"}),
        json!({"args": {"command": "true"}}),
        json!({"tool": null}),
    ] {
        let refused = call_tool(&tools, "Task", args)
            .await
            .expect_err("a refusal");
        assert_error!(refused, PolicyDenied: "does not run agents", "Nothing was started");
    }
    assert_eq!(
        tools
            .find("Task")
            .expect("it is registered")
            .tool_spec()
            .effect,
        ToolEffect::Executes
    );
}

#[tokio::test]
async fn a_task_needs_a_process_that_stays() {
    let (_dir, store) = output_store();
    let tools = build_registry(super::state_tools(&store));
    let args = json!({"tool": "Bash", "args": {"command": "true"}});
    let refused = call_tool(&tools, "Task", args)
        .await
        .expect_err("a refusal");
    assert_error!(refused, PolicyDenied: "Nothing was started");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_task_that_cannot_run_is_refused_at_once() {
    let setup = RunnerFixture::new().await;
    let _runner = setup.run();
    for (args, code, words) in cases! {
        (json!({"tool": "Bahs", "args": {"command": "true"}}), "unknown_tool", "Bash"),
        (json!({"tool": "Bash", "args": {"comand": "true"}}), "invalid_args", "command"),
        (json!({"tool": "Bash"}), "invalid_args", "command"),
        (
            json!({"tool": "Task", "args": {"tool": "Bash", "args": {"command": "true"}}}),
            "invalid_args",
            "another task",
        ),
        (json!({"tool": " ", "args": {}}), "unknown_tool", ""),
    } {
        let answer = setup
            .call(ToolCall::new("Task", &args).in_conversation("talk"))
            .await;
        assert_eq!(answer.verdict(), ("error", code), "{args}: {answer:?}");
        assert_contains!(answer.text(), words; "{args}");
    }
    let listed = setup
        .call(ToolCall::new("TaskOutput", &json!({})).in_conversation("talk"))
        .await;
    assert_contains!(listed.text(), "There are no tasks");
}
