//! The interface between the task tools and the runner's tasks.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use punie_core::ids::RequestId;
use punie_host::shell_view::ShellView;
use punie_tool::{ErrorCode, ToolContext, ToolError};

/// The future that the methods return.
pub type TaskFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, ToolError>> + Send + 'a>>;

/// Runs calls as tasks beside the conversation that started them.
pub trait TaskBoard: Send + Sync + 'static {
    /// Checks the arguments, accepts the call and returns the task's id.
    fn start_task<'a>(
        &'a self,
        cx: &'a ToolContext,
        tool: &'a str,
        args: &'a str,
    ) -> TaskFuture<'a, String>;

    /// Returns the state of a task, or `None` if there is none that the call may know of: in a session, one of the same
    /// session or of one like it.
    fn task_view<'a>(
        &'a self,
        cx: &'a ToolContext,
        name: &'a str,
    ) -> TaskFuture<'a, Option<TaskView>>;

    /// Returns the tasks that the call may know of, started within this time, latest first, up to a limit.
    fn recent_tasks<'a>(
        &'a self,
        cx: &'a ToolContext,
        within: Duration,
        limit: u32,
    ) -> TaskFuture<'a, Vec<TaskSummary>>;

    /// Returns a background shell by the id that Bash gave it, or `None` if it is unknown.
    fn shell_view<'a>(
        &'a self,
        cx: &'a ToolContext,
        id: &'a str,
    ) -> TaskFuture<'a, Option<ShellView>> {
        let _ = (cx, id);
        Box::pin(async { Ok(None) })
    }

    /// Returns the background shells that the call may know of.
    fn shell_views<'a>(&'a self, cx: &'a ToolContext) -> TaskFuture<'a, Vec<ShellView>> {
        let _ = cx;
        Box::pin(async { Ok(Vec::new()) })
    }
}

/// The state of a task.
#[derive(Debug, Clone)]
pub struct TaskView {
    /// The request of its call, under which its output is stored.
    pub request: RequestId,
    /// The tool that it runs.
    pub tool: String,
    /// The time since the request, or the duration of an ended task.
    pub elapsed: Duration,
    /// Its stage.
    pub stage: TaskStage,
}

/// The stage of a task.
#[derive(Debug, Clone)]
pub enum TaskStage {
    /// Accepted, not started.
    Waiting,
    /// Running.
    Running,
    /// Done, with the payload of the result as sent to the backend.
    Done(String),
    /// Done long ago; the result is no longer stored.
    Forgotten,
}

/// A task in a list.
#[derive(Debug, Clone)]
pub struct TaskSummary {
    /// Its id.
    pub name: String,
    /// The tool that it runs.
    pub tool: String,
    /// The beginning of its arguments.
    pub args: String,
    /// The time since the request, or the duration of an ended task.
    pub elapsed: Duration,
    /// Its state in a word: `running`, `done`, `failed`.
    pub state: &'static str,
}

/// Refuses all tasks, for a process that runs one tool and exits.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoTasks;

impl TaskBoard for NoTasks {
    fn start_task<'a>(
        &'a self,
        _cx: &'a ToolContext,
        _tool: &'a str,
        _args: &'a str,
    ) -> TaskFuture<'a, String> {
        Box::pin(async {
            let text = "Tasks need the background process (punie-runner run); this command runs one tool and ends. \
                        Nothing was started.";
            Err(ToolError::new(ErrorCode::PolicyDenied, text))
        })
    }

    fn task_view<'a>(
        &'a self,
        _cx: &'a ToolContext,
        _name: &'a str,
    ) -> TaskFuture<'a, Option<TaskView>> {
        Box::pin(async { Ok(None) })
    }

    fn recent_tasks<'a>(
        &'a self,
        _cx: &'a ToolContext,
        _within: Duration,
        _limit: u32,
    ) -> TaskFuture<'a, Vec<TaskSummary>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}
