//! The board of the Task tools, on the runner's tasks.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use super::Machine;
use crate::acp::local::terminals::LocalTerminals;
use crate::handlers::shell::{ShellBoard, ShellLook, look_at, look_at_all};
use crate::handlers::state::board::{Answer, ShellView, TaskBoard, TaskLine, TaskStage, TaskView};
use crate::ids::{RequestId, ToolName};
use crate::journal::{ListedTask, RequestLife, State};
use crate::request::{ErrorCode, OutcomeKind};
use crate::runner::{Clock, TaskRequests};
use crate::tool::{Registry, ToolCx, ToolError};

/// A task board on rows of the runner's journal.
pub(super) struct RunnerBoard {
    tasks: TaskRequests,
    clock: Clock,
    /// Set only once every tool, including the Task tools, is registered.
    machine: OnceLock<Known>,
}

/// The parts of the host that the board needs.
struct Known {
    registry: Arc<Registry>,
    shells: Arc<ShellBoard>,
    terminals: LocalTerminals,
}

impl RunnerBoard {
    pub(super) fn new(tasks: TaskRequests) -> Self {
        Self { tasks, clock: Clock::system(), machine: OnceLock::new() }
    }

    /// Sets the tools that tasks may run, and the shells that are listed beside them.
    pub(super) fn know(&self, machine: &Machine) {
        let known = Known {
            registry: Arc::clone(&machine.registry),
            shells: Arc::clone(&machine.shells),
            terminals: machine.terminals.clone(),
        };
        // Wiring calls this only once.
        let _ = self.machine.set(known);
    }

    async fn promise(&self, cx: &ToolCx, tool: &str, args: &str) -> Result<String, ToolError> {
        let machine =
            self.machine.get().ok_or_else(|| ToolError::internal("the tools are not registered yet"))?;
        let entry = machine.registry.find(tool)?;
        let effect = entry.decode(args)?.effect();
        // The id derives from the request, so that its task can be found even if the answer was lost.
        let id = RequestId::parse(format!("{}-task", cx.request)).unwrap_or_default();
        let name = ToolName::parse(tool).map_err(|bad| ToolError::invalid_args(bad.to_string()))?;
        self.tasks.start(id, name, effect, args.to_owned(), cx.agent_type.clone()).await.map_err(|error| {
            let text = format!("the task could not be recorded and was not started: {error}");
            ToolError::new(ErrorCode::Io, text)
        })
    }

    async fn view(&self, name: &str) -> Result<Option<TaskView>, ToolError> {
        let (tasks, wanted) = (self.tasks.clone(), name.to_owned());
        let found = tokio::task::spawn_blocking(move || tasks.find(&wanted))
            .await
            .map_err(|_| ToolError::internal("the journal could not be read"))?
            .map_err(|error| ToolError::new(ErrorCode::Io, error.to_string()))?;
        Ok(found.map(|(request, life)| self.view_of(request, life)))
    }

    async fn list(&self, within: Duration, limit: u32) -> Result<Vec<TaskLine>, ToolError> {
        let tasks = self.tasks.clone();
        let listed = tokio::task::spawn_blocking(move || tasks.recent(within, limit))
            .await
            .map_err(|_| ToolError::internal("the journal could not be read"))?
            .map_err(|error| ToolError::new(ErrorCode::Io, error.to_string()))?;
        Ok(listed.into_iter().map(|task| self.line_of(task)).collect())
    }

    fn line_of(&self, task: ListedTask) -> TaskLine {
        let ListedTask { name, args, life } = task;
        let state = match (life.state, life.outcome) {
            (State::Accepted, _) => "waiting",
            (State::Started, _) => "running",
            (_, Some(OutcomeKind::Error)) => "failed",
            (_, Some(OutcomeKind::Cancelled)) => "cancelled",
            _ => "done",
        };
        TaskLine { name, args, elapsed: self.elapsed(&life), state, tool: life.tool }
    }

    fn elapsed(&self, life: &RequestLife) -> Duration {
        let until = life.finished_at_ms.unwrap_or_else(|| self.clock.now_ms());
        Duration::from_millis(u64::try_from(until - life.received_at_ms).unwrap_or(0))
    }

    fn view_of(&self, request: RequestId, life: RequestLife) -> TaskView {
        let elapsed = self.elapsed(&life);
        let stage = match (life.state, life.payload) {
            (State::Accepted, _) => TaskStage::Waiting,
            (State::Started, _) => TaskStage::Running,
            (_, Some(payload)) => TaskStage::Done(payload),
            (_, None) => TaskStage::Forgotten,
        };
        TaskView { request, tool: life.tool, elapsed, stage }
    }
}

impl TaskBoard for RunnerBoard {
    fn start<'a>(&'a self, cx: &'a ToolCx, tool: &'a str, args: &'a str) -> Answer<'a, String> {
        Box::pin(self.promise(cx, tool, args))
    }

    fn look<'a>(&'a self, name: &'a str) -> Answer<'a, Option<TaskView>> {
        Box::pin(self.view(name))
    }

    fn recent(&self, within: Duration, limit: u32) -> Answer<'_, Vec<TaskLine>> {
        Box::pin(self.list(within, limit))
    }
    fn shell<'a>(&'a self, id: &'a str) -> Answer<'a, Option<ShellView>> {
        Box::pin(async move {
            let Some(Known { shells, terminals, .. }) = self.machine.get() else { return Ok(None) };
            Ok(look_at(shells, terminals, id).await.map(view_of_shell))
        })
    }

    fn shells(&self) -> Answer<'_, Vec<ShellView>> {
        Box::pin(async {
            let Some(Known { shells, terminals, .. }) = self.machine.get() else { return Ok(Vec::new()) };
            Ok(look_at_all(shells, terminals).await.into_iter().map(view_of_shell).collect())
        })
    }
}

fn view_of_shell(shell: ShellLook) -> ShellView {
    let ShellLook { id, title, state, running, handle } = shell;
    ShellView { id, title, state, running, handle }
}
