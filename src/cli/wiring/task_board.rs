//! The board of the Task tools, on the runner's tasks.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::host::ToolHost;
use punie_core::ids::{RequestId, ToolName};
use punie_engine::journal::{ListedTask, RequestRecord, RequestState};
use punie_engine::runner::{CallTitles, Clock, TaskOrigin, TaskRequests};
use punie_handlers::shell::{ShellList, snapshot_shell, snapshot_shells};
use punie_handlers::state::background_tasks::{
    TaskBoard, TaskFuture, TaskStage, TaskSummary, TaskView,
};
use punie_host::local::local_terminals::LocalTerminals;
use punie_host::shell_view::ShellView;
use punie_tool::request::{ErrorCode, OutcomeKind};
use punie_tool::{ToolContext, ToolError, ToolRegistry};

/// A task board on rows of the runner's journal.
pub(super) struct RunnerTaskBoard {
    tasks: TaskRequests,
    clock: Clock,
    /// Set only once every tool, including the Task tools, is registered.
    board_host: OnceLock<BoardHost>,
}

/// The parts of the host that the board needs.
struct BoardHost {
    registry: Arc<ToolRegistry>,
    shells: Arc<ShellList>,
    terminals: LocalTerminals,
    titles: Option<CallTitles>,
}

impl RunnerTaskBoard {
    pub(super) fn new(tasks: TaskRequests) -> Self {
        Self {
            tasks,
            clock: Clock::system(),
            board_host: OnceLock::new(),
        }
    }

    /// Sets the tools that tasks may run, and the shells that are listed beside them.
    pub(super) fn attach_host(&self, host: &ToolHost, titles: Option<CallTitles>) {
        let known = BoardHost {
            registry: Arc::clone(&host.registry),
            shells: Arc::clone(&host.base.shells),
            terminals: host.base.terminals.clone(),
            titles,
        };
        // Wiring calls this only once.
        let _ = self.board_host.set(known);
    }

    async fn record(&self, cx: &ToolContext, tool: &str, args: &str) -> Result<String, ToolError> {
        let host = self
            .board_host
            .get()
            .ok_or_else(|| ToolError::internal("the tools are not registered yet"))?;
        let entry = host.registry.find(tool)?;
        let effect = entry.decode_call(args)?.actual_effect();
        // The id derives from the request, so that its task can be found even if the answer was lost.
        let id = RequestId::parse(format!("{}-task", cx.request)).unwrap_or_default();
        let name = ToolName::parse(tool).map_err(|bad| ToolError::invalid_args(bad.to_string()))?;
        let titles = host.titles.as_ref();
        let title = titles.map(|titles| titles.title_of_call(tool, args));
        self.tasks
            .accept(
                id,
                name,
                effect,
                args.to_owned(),
                TaskOrigin {
                    agent_type: cx.agent_type.clone(),
                    caller: cx.caller.clone(),
                    session: cx.session.clone(),
                },
                title,
            )
            .await
            .map_err(|error| {
                let text = format!("the task could not be recorded and was not started: {error}");
                ToolError::new(ErrorCode::Io, text)
            })
    }

    async fn find_view(&self, cx: &ToolContext, name: &str) -> Result<Option<TaskView>, ToolError> {
        let tasks = self.tasks.clone();
        let wanted = name.to_owned();
        let session = cx.session.clone();
        let found = tokio::task::spawn_blocking(move || tasks.find(&wanted, session.as_deref()))
            .await
            .map_err(|_| ToolError::internal("the journal could not be read"))?
            .map_err(|error| ToolError::new(ErrorCode::Io, error.to_string()))?;
        Ok(found.map(|(request, life)| self.to_view(request, life)))
    }

    async fn recent_lines(
        &self,
        cx: &ToolContext,
        within: Duration,
        limit: u32,
    ) -> Result<Vec<TaskSummary>, ToolError> {
        let tasks = self.tasks.clone();
        let session = cx.session.clone();
        let listed = tokio::task::spawn_blocking(move || {
            tasks.list_recent(within, limit, session.as_deref())
        })
        .await
        .map_err(|_| ToolError::internal("the journal could not be read"))?
        .map_err(|error| ToolError::new(ErrorCode::Io, error.to_string()))?;
        Ok(listed.into_iter().map(|task| self.to_line(task)).collect())
    }

    fn to_line(&self, task: ListedTask) -> TaskSummary {
        let ListedTask {
            name,
            args,
            record: life,
        } = task;
        let state = match (life.state, life.outcome) {
            (RequestState::Accepted, _) => "waiting",
            (RequestState::Started, _) => "running",
            (_, Some(OutcomeKind::Error)) => "failed",
            (_, Some(OutcomeKind::Cancelled)) => "cancelled",
            _ => "done",
        };
        TaskSummary {
            name,
            args,
            elapsed: self.elapsed_time(&life),
            state,
            tool: life.tool,
        }
    }

    fn elapsed_time(&self, life: &RequestRecord) -> Duration {
        let until = life.finished_at_ms.unwrap_or_else(|| self.clock.now_ms());
        Duration::from_millis(u64::try_from(until - life.received_at_ms).unwrap_or(0))
    }

    fn to_view(&self, request: RequestId, life: RequestRecord) -> TaskView {
        let elapsed = self.elapsed_time(&life);
        let stage = match (life.state, life.payload) {
            (RequestState::Accepted, _) => TaskStage::Waiting,
            (RequestState::Started, _) => TaskStage::Running,
            (_, Some(payload)) => TaskStage::Done(payload),
            (_, None) => TaskStage::Forgotten,
        };
        TaskView {
            request,
            tool: life.tool,
            elapsed,
            stage,
        }
    }
}

impl TaskBoard for RunnerTaskBoard {
    fn start_task<'a>(
        &'a self,
        cx: &'a ToolContext,
        tool: &'a str,
        args: &'a str,
    ) -> TaskFuture<'a, String> {
        Box::pin(self.record(cx, tool, args))
    }

    fn task_view<'a>(
        &'a self,
        cx: &'a ToolContext,
        name: &'a str,
    ) -> TaskFuture<'a, Option<TaskView>> {
        Box::pin(self.find_view(cx, name))
    }

    fn recent_tasks<'a>(
        &'a self,
        cx: &'a ToolContext,
        within: Duration,
        limit: u32,
    ) -> TaskFuture<'a, Vec<TaskSummary>> {
        Box::pin(self.recent_lines(cx, within, limit))
    }

    fn shell_view<'a>(
        &'a self,
        cx: &'a ToolContext,
        id: &'a str,
    ) -> TaskFuture<'a, Option<ShellView>> {
        Box::pin(async move {
            let Some(host) = self.board_host.get() else {
                return Ok(None);
            };
            Ok(snapshot_shell(cx, &host.shells, &host.terminals, id).await)
        })
    }

    fn shell_views<'a>(&'a self, cx: &'a ToolContext) -> TaskFuture<'a, Vec<ShellView>> {
        Box::pin(async move {
            let Some(host) = self.board_host.get() else {
                return Ok(Vec::new());
            };
            Ok(snapshot_shells(cx, &host.shells, &host.terminals).await)
        })
    }
}
