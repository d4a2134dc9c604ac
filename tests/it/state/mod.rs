//! The state tools, whose data outlives a call: one file per tool, and their shared helpers.

mod read_output;
mod task;
mod task_output;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use punie_core::ids::RequestId;
use punie_handlers::state;
use punie_handlers::state::background_tasks::{
    NoTasks, TaskBoard, TaskFuture, TaskStage, TaskSummary, TaskView,
};
use punie_host::shell_view::ShellView;
use punie_text::output::OutputStore;
use punie_tool::{ErrorCode, ToolContext, ToolEntry};
use serde_json::Value;

use crate::harness::tools::{build_registry, call_tool, reply_text};

/// Calls ReadOutput and returns its answer.
pub async fn read_output(store: &OutputStore, args: Value) -> String {
    let tools = build_registry(state_tools(store));
    reply_text(
        &call_tool(&tools, "ReadOutput", args)
            .await
            .expect("an answer"),
    )
    .to_owned()
}

async fn expect_error(store: &OutputStore, args: Value) -> (ErrorCode, String) {
    let tools = build_registry(state_tools(store));
    let error = call_tool(&tools, "ReadOutput", args)
        .await
        .expect_err("a refusal");
    (error.stable_code(), error.model_text().to_owned())
}

fn state_tools(outputs: &OutputStore) -> Vec<ToolEntry> {
    state::tools(state::StateDeps {
        outputs: outputs.clone(),
        board: Arc::new(NoTasks),
    })
}

/// A task board with tasks in the states that the test sets.
#[derive(Default)]
struct FixedTasks {
    view: Mutex<Option<TaskView>>,
    shell: Mutex<Option<ShellView>>,
    lines: Vec<TaskSummary>,
    request: RequestId,
}

impl FixedTasks {
    fn put(&self, setup: TaskStage) {
        let request = self.request.clone();
        let tool = "Bash".to_owned();
        let view = TaskView {
            request,
            tool,
            elapsed: Duration::from_millis(1_500),
            stage: setup,
        };
        *self.view.lock() = Some(view);
    }
}

impl TaskBoard for FixedTasks {
    fn start_task<'a>(
        &'a self,
        _cx: &'a ToolContext,
        _tool: &'a str,
        _args: &'a str,
    ) -> TaskFuture<'a, String> {
        Box::pin(async { Ok("task_1".to_owned()) })
    }

    fn task_view<'a>(
        &'a self,
        _cx: &'a ToolContext,
        _name: &'a str,
    ) -> TaskFuture<'a, Option<TaskView>> {
        Box::pin(async { Ok(self.view.lock().clone()) })
    }

    fn recent_tasks<'a>(
        &'a self,
        _cx: &'a ToolContext,
        _within: Duration,
        _limit: u32,
    ) -> TaskFuture<'a, Vec<TaskSummary>> {
        Box::pin(async { Ok(self.lines.clone()) })
    }

    fn shell_view<'a>(
        &'a self,
        _cx: &'a ToolContext,
        id: &'a str,
    ) -> TaskFuture<'a, Option<ShellView>> {
        let shell = self.shell.lock().clone();
        Box::pin(async move { Ok(shell.filter(|shell| shell.id == id)) })
    }

    fn shell_views<'a>(&'a self, _cx: &'a ToolContext) -> TaskFuture<'a, Vec<ShellView>> {
        Box::pin(async { Ok(self.shell.lock().clone().into_iter().collect()) })
    }
}
