//! TaskOutput: how far a task has come and what came of it.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::StateDeps;
use super::board::{TaskStage, TaskView};
use crate::ids::RequestId;
use crate::output::OutputStore;
use crate::tool::{Effect, Lane, Meta, Reply, Tool, ToolCx, ToolError};

/// How much of a running task's output is shown.
const SO_FAR_CHARS: usize = 4_000;

/// Get the status of a task and, when it is done, its result.
///
/// Use it with the id that Task gave. While the task runs, the end of what it has printed so far is shown, with the
/// handle under which ReadOutput finds all of it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TaskOutput {
    /// The id that Task gave.
    task_id: String,
}

impl Tool for TaskOutput {
    const NAME: &'static str = "TaskOutput";
    const EFFECT: Effect = Effect::Reads;
    const LANE: Lane = Lane::Control;
    const ALIASES: &'static [(&'static str, &'static str)] = &[("id", "task_id"), ("task", "task_id")];
    const EXAMPLES: &'static [&'static str] = &[
        r#"{"task_id":"0198c0de-0000-7000-8000-000000000000"}"#,
        r#"{"task_id":"0198c0de-2f5a-7000-8000-6d1c0a9be702"}"#,
    ];
    type Deps = StateDeps;
    type Output = Reply;

    async fn run(self, _cx: &ToolCx, deps: &StateDeps) -> Result<Reply, ToolError> {
        let unknown = || {
            let text = format!(
                "There is no task {:?}. Use the id that Task answered with; tasks are remembered for 30 days.",
                self.task_id
            );
            ToolError::not_found(text)
        };
        let id = RequestId::parse(self.task_id.clone()).map_err(|_| unknown())?;
        let view = deps.board.look(&id).await?.ok_or_else(unknown)?;
        Ok(shown(&id, view, &deps.outputs))
    }
}

fn shown(id: &RequestId, view: TaskView, outputs: &OutputStore) -> Reply {
    let TaskView { tool, elapsed, stage } = view;
    let seconds = elapsed.as_secs_f64();
    match stage {
        TaskStage::Waiting => {
            Reply::text(format!("Task {id} ({tool}) waits for its turn since {seconds:.1} s."))
        }
        TaskStage::Running => running(id, &tool, seconds, outputs),
        TaskStage::Forgotten => {
            Reply::text(format!("Task {id} ({tool}) is done; its result is no longer kept."))
        }
        TaskStage::Done(payload) => done(id, &tool, seconds, &payload),
    }
}

fn running(id: &RequestId, tool: &str, seconds: f64, outputs: &OutputStore) -> Reply {
    let handle = OutputStore::handle(id, 0);
    let head = format!("Task {id} ({tool}) has been running for {seconds:.1} s.");
    match outputs.tail_text(&handle, SO_FAR_CHARS) {
        Ok(Some(so_far)) if !so_far.is_empty() => {
            let text = format!(
                "{head} The end of its output so far (all of it: ReadOutput handle=\"{}\"):\n{so_far}",
                handle.as_str()
            );
            let meta = Meta { handle: Some(handle.as_str().to_owned()), ..Meta::default() };
            Reply::text(text).with_meta(meta)
        }
        _ => Reply::text(head),
    }
}

/// The task's own answer under one line of status; a failed task is said to have failed.
fn done(id: &RequestId, tool: &str, seconds: f64, payload: &str) -> Reply {
    let payload: Value = serde_json::from_str(payload).unwrap_or_default();
    let (verdict, answer) = match (payload.get("result"), payload.get("error")) {
        (Some(result), _) => ("is done", result),
        (None, Some(error)) => ("failed", error),
        (None, None) => ("is done, with nothing to show", &Value::Null),
    };
    let text = answer.as_str().map_or_else(|| answer.to_string(), str::to_owned);
    let mut meta: Meta =
        payload.get("meta").cloned().and_then(|meta| serde_json::from_value(meta).ok()).unwrap_or_default();
    meta.duration_ms = None;
    Reply::fitted(format!("Task {id} ({tool}) {verdict} after {seconds:.1} s:\n{text}")).with_meta(meta)
}
