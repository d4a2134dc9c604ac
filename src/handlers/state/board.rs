//! What the Task tools need of whoever keeps tasks. Not here: how they are kept.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use crate::ids::RequestId;
use crate::tool::{ErrorCode, ToolCx, ToolError};

/// What the board gives back.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, ToolError>> + Send + 'a>>;

/// Keeps calls that run beside the conversation that asked for them.
pub trait TaskBoard: Send + Sync + 'static {
    /// Promises to run this call and gives the task's name. The arguments are checked first.
    fn start<'a>(&'a self, cx: &'a ToolCx, tool: &'a str, args: &'a str) -> Answer<'a, String>;

    /// How far the task of this name has come; none where there is no such task.
    fn look<'a>(&'a self, name: &'a str) -> Answer<'a, Option<TaskView>>;

    /// The tasks that were asked for within this time, the latest first, at most so many.
    fn recent(&self, within: Duration, limit: u32) -> Answer<'_, Vec<TaskLine>>;

    /// A shell in the background, by the name that Bash gave it; none where no such shell is known.
    fn shell<'a>(&'a self, id: &'a str) -> Answer<'a, Option<ShellView>> {
        let _ = id;
        Box::pin(async { Ok(None) })
    }

    /// Every shell in the background that is known.
    fn shells(&self) -> Answer<'_, Vec<ShellView>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

/// How far a task has come.
#[derive(Debug, Clone)]
pub struct TaskView {
    /// The request that it is: its output is kept under that.
    pub request: RequestId,
    /// The tool it runs.
    pub tool: String,
    /// Since it was asked for, or how long it took.
    pub elapsed: Duration,
    /// Where it stands.
    pub stage: TaskStage,
}

/// Where a task stands.
#[derive(Debug, Clone)]
pub enum TaskStage {
    /// Promised, not begun.
    Waiting,
    /// Running.
    Running,
    /// Done; the result's payload as the wire has it.
    Done(String),
    /// Done long ago; the result is no longer kept.
    Forgotten,
}

/// One task in the list of all.
#[derive(Debug, Clone)]
pub struct TaskLine {
    /// Its name.
    pub name: String,
    /// The tool it runs.
    pub tool: String,
    /// The beginning of its arguments.
    pub args: String,
    /// Since it was asked for, or how long it took.
    pub elapsed: Duration,
    /// Where it stands, in a word or two: `running`, `done`, `failed`.
    pub state: &'static str,
}

/// A shell in the background, as far as a task's reader needs it.
#[derive(Debug, Clone)]
pub struct ShellView {
    /// Its name: `sh_1`.
    pub id: String,
    /// Its command, on one line.
    pub title: String,
    /// What it does, in words: `running for 12.4 s`.
    pub state: String,
    /// Whether more can come of it.
    pub running: bool,
    /// Where its output is kept, once there is some.
    pub handle: Option<String>,
}

/// The board of a command that runs one tool and ends: nothing could look after a task.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoTasks;

impl TaskBoard for NoTasks {
    fn start<'a>(&'a self, _cx: &'a ToolCx, _tool: &'a str, _args: &'a str) -> Answer<'a, String> {
        Box::pin(async {
            let text = "Tasks need the background process (punie-runner run); this command runs one tool and ends. \
                        Nothing was started.";
            Err(ToolError::new(ErrorCode::PolicyDenied, text))
        })
    }

    fn look<'a>(&'a self, _name: &'a str) -> Answer<'a, Option<TaskView>> {
        Box::pin(async { Ok(None) })
    }

    fn recent(&self, _within: Duration, _limit: u32) -> Answer<'_, Vec<TaskLine>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}
