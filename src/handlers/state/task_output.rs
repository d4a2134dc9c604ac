//! TaskOutput: lists tasks, and shows the state and result of one.

use std::fmt::Write as _;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::time::Instant;

use super::StateDeps;
use super::background_tasks::{TaskFuture, TaskStage, TaskView};
use super::new_output::{self, NewOutput};
use punie_host::shell_view::ShellView;
use punie_text::output::number_format::format_size;
use punie_text::output::{OutputHandle, OutputStore};
use punie_tool::{
    CallLane, DeclaredAccess, ResultMeta, Tool, ToolContext, ToolEffect, ToolError, ToolReply,
};

/// The characters of a running task's output to show without a cursor.
const LATEST_OUTPUT_CHARS: usize = 4_000;
/// The bytes of new output in one answer.
const NEW_OUTPUT_BYTES: usize = 24_000;
/// The age and the number of tasks in a list.
const LISTED_WITHIN: Duration = Duration::from_hours(24);
const MAX_LISTED_TASKS: u32 = 50;
const MAX_WAIT_MS: u64 = 30_000;
/// The shortest and longest delay between two checks of a task. It starts short for the sake of short tasks.
const POLL_DELAYS: [Duration; 2] = [Duration::from_millis(20), Duration::from_millis(250)];

/// Show the status and result of a task; without task_id, the tasks of the last 24 hours.
///
/// While it runs: its last output, and a cursor for `since`. It takes a shell's id, too.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct TaskOutput {
    /// As Task or Bash gave it.
    task_id: Option<String>,
    /// Cursor of an earlier answer.
    since: Option<u64>,
    /// Milliseconds to wait for its end.
    #[serde(default)]
    #[schemars(range(max = 30_000))]
    wait_ms: Option<u64>,
}

impl Tool for TaskOutput {
    const NAME: &'static str = "TaskOutput";
    const EFFECT: ToolEffect = ToolEffect::Reads;
    const KNOWN_AS: &'static [&'static str] = &["AgentOutput", "AgentOutputTool"];
    const LANE: CallLane = CallLane::Control;
    const ACCEPTED: &'static [&'static str] = &["block"];
    const EXAMPLES: &'static [&'static str] =
        &["{}", r#"{"task_id":"task_7","since":4096,"wait_ms":30000}"#];
    const LIMITS: &'static [&'static str] = &[
        "waits 30,000 ms at most",
        "the last 4,000 characters of a running task, 24,000 bytes from a cursor",
        "lists 50 tasks of the last 24 hours; a task is remembered for 30 days",
    ];
    type Deps = StateDeps;
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        DeclaredAccess::none()
    }

    /// Converts `block`, which says whether to wait. A caller that wants to wait longer than one call can ask again.
    fn normalize(arguments: &mut Map<String, Value>) {
        let block = arguments.remove("block").and_then(|block| block.as_bool());
        match block {
            Some(true) => {
                arguments
                    .entry("wait_ms")
                    .or_insert(Value::from(MAX_WAIT_MS));
            }
            Some(false) => {
                arguments.remove("wait_ms");
            }
            None => {}
        }
    }

    async fn run(self, cx: &ToolContext, deps: &StateDeps) -> Result<ToolReply, ToolError> {
        let Some(asked) = self.task_id.as_deref().map(str::trim) else {
            if self.since.is_some() || self.wait_ms.is_some() {
                let text =
                    "TaskOutput: since and wait_ms are about one task; name it in `task_id`.";
                return Err(ToolError::invalid_args(text));
            }
            return list_tasks(cx, deps).await;
        };
        let until =
            Instant::now() + Duration::from_millis(self.wait_ms.unwrap_or(0).min(MAX_WAIT_MS));
        if asked.starts_with("sh_") {
            let query = || deps.board.shell_view(cx, asked);
            let shell = poll_while(cx, until, query, |shell| shell.running).await?;
            let shell = shell.ok_or_else(|| {
                ToolError::not_found(format!(
                    "No shell {asked:?} is known to TaskOutput. ShellStatus lists all shells."
                ))
            })?;
            return Ok(self.shell_reply(&shell, &deps.outputs));
        }
        let name = asked.to_owned();
        let is_going =
            |view: &TaskView| matches!(view.stage, TaskStage::Waiting | TaskStage::Running);
        let view = poll_while(cx, until, || deps.board.task_view(cx, asked), is_going).await?;
        let view = view.ok_or_else(|| unknown_task_error(asked))?;
        let outputs = deps.outputs.clone();
        let asked = self;
        // The output is on disk.
        tokio::task::spawn_blocking(move || asked.task_reply(&name, view, &outputs))
            .await
            .map_err(|error| ToolError::internal(format!("TaskOutput: {error}")))
    }
}

impl TaskOutput {
    fn task_reply(&self, name: &str, view: TaskView, outputs: &OutputStore) -> ToolReply {
        let TaskView {
            request,
            tool,
            elapsed,
            stage,
        } = view;
        let seconds = elapsed.as_secs_f64();
        let handle = OutputStore::handle_for(&request, 0);
        match stage {
            TaskStage::Waiting => ToolReply::from_text(format!(
                "Task {name} ({tool}) waits for its turn since {seconds:.1} s."
            )),
            TaskStage::Running => {
                let head = format!("Task {name} ({tool}) has been running for {seconds:.1} s.");
                self.output_reply(&head, &handle, outputs, true)
                    .unwrap_or_else(|| {
                        ToolReply::from_text(format!(
                            "{head}\n(nothing was printed so far)\n[since=0 for what comes next]"
                        ))
                    })
            }
            TaskStage::Forgotten => ToolReply::from_text(format!(
                "Task {name} ({tool}) is done; its result is no longer kept."
            )),
            TaskStage::Done(payload) => {
                let payload: Value = serde_json::from_str(&payload).unwrap_or_default();
                let done = TaskOutcome::from_payload(&payload);
                let head = format!("Task {name} ({tool}) {} after {seconds:.1} s", done.verdict);
                let rest = self.since.and_then(|_| {
                    let exit = done
                        .meta
                        .exit_code
                        .map(|code| format!(", exit code {code}"))
                        .unwrap_or_default();
                    self.output_reply(&format!("{head}{exit}."), &handle, outputs, false)
                });
                match rest {
                    // Of a failed task, always give the reason.
                    Some(reply) if done.verdict == "is done" => reply.with_meta(done.meta),
                    _ => ToolReply::from_fitted_text(format!("{head}:\n{}", done.text))
                        .with_meta(done.meta),
                }
            }
        }
    }

    fn shell_reply(&self, shell: &ShellView, outputs: &OutputStore) -> ToolReply {
        let head = format!("Shell {}: {}: {}", shell.id, shell.state, shell.title);
        let handle = shell.handle.as_deref().and_then(OutputHandle::parse);
        handle
            .and_then(|handle| self.output_reply(&head, &handle, outputs, shell.running))
            .unwrap_or_else(|| {
                ToolReply::from_text(format!("{head}\n(nothing was printed so far)"))
            })
    }

    /// Formats the header, then the new output, or the end of the output without a cursor. Returns `None` if no
    /// output is stored.
    fn output_reply(
        &self,
        head: &str,
        handle: &OutputHandle,
        outputs: &OutputStore,
        running: bool,
    ) -> Option<ToolReply> {
        let shown = match self.since {
            Some(cursor) => new_output::read_from(outputs, handle, cursor, NEW_OUTPUT_BYTES),
            None => new_output::read_latest(outputs, handle, LATEST_OUTPUT_CHARS),
        };
        let news = match shown {
            Ok(Some(news)) => news,
            Ok(None) => return None,
            Err(cause) => {
                let text = format!("{head}\nWhat it printed cannot be read now: {cause}");
                return Some(ToolReply::from_text(text));
            }
        };
        let mut text = format!("{head}\n{}", news.text);
        if news.text.is_empty() {
            let is_past = self.since.is_some_and(|cursor| news.next < cursor);
            text.push_str(if is_past {
                "(the cursor is past the end)"
            } else {
                "(nothing new was printed)"
            });
        }
        if let Some(footer) = format_cursor_hint(&news, handle, running) {
            text.truncate(text.trim_end_matches('\n').len());
            let _ = write!(text, "\n{footer}");
        }
        let meta = ResultMeta {
            handle: Some(handle.as_str().to_owned()),
            ..ResultMeta::default()
        };
        Some(ToolReply::from_fitted_text(text).with_meta(meta))
    }
}

/// Says how to read further output, and any other part. Returns `None` at the end of an output that was shown whole.
fn format_cursor_hint(news: &NewOutput, handle: &OutputHandle, running: bool) -> Option<String> {
    let next = if news.rest > 0 {
        format!("{} more: since={}; ", format_size(news.rest), news.next)
    } else if running {
        format!("since={} for what comes next; ", news.next)
    } else if news.is_cut {
        String::new()
    } else {
        return None;
    };
    Some(format!(
        "[{next}ReadOutput handle=\"{handle}\" for any part]"
    ))
}

/// Queries a task or a shell until it has ended or the time is up, and returns its state.
async fn poll_while<'a, T>(
    cx: &ToolContext,
    until: Instant,
    query: impl Fn() -> TaskFuture<'a, Option<T>>,
    is_going: impl Fn(&T) -> bool,
) -> Result<Option<T>, ToolError> {
    let mut delay = POLL_DELAYS[0];
    loop {
        let view = query().await?;
        if Instant::now() >= until || !view.as_ref().is_some_and(&is_going) {
            return Ok(view);
        }
        let next = (Instant::now() + delay).min(until);
        delay = (delay * 2).min(POLL_DELAYS[1]);
        tokio::select! {
            biased;
            () = cx.wait_for_cancel() => return Err(ToolError::call_cancelled("The waiting was ended. That does not end the task.")),
            () = tokio::time::sleep_until(next) => {}
        }
    }
}

async fn list_tasks(cx: &ToolContext, deps: &StateDeps) -> Result<ToolReply, ToolError> {
    let tasks = deps
        .board
        .recent_tasks(cx, LISTED_WITHIN, MAX_LISTED_TASKS)
        .await?;
    let shells = deps.board.shell_views(cx).await?;
    if tasks.is_empty() && shells.is_empty() {
        return Ok(ToolReply::from_text(
            "There are no tasks of the last 24 hours. Task starts one.",
        ));
    }
    let mut text = String::new();
    for task in &tasks {
        let seconds = task.elapsed.as_secs_f64();
        let _ = writeln!(
            text,
            "{}: {}, {seconds:.1} s, {} {}",
            task.name, task.state, task.tool, task.args
        );
    }
    for shell in &shells {
        let _ = writeln!(
            text,
            "{}: {}, shell: {}",
            shell.id, shell.state, shell.title
        );
    }
    if tasks.len() == MAX_LISTED_TASKS as usize {
        let _ = writeln!(
            text,
            "[the latest {MAX_LISTED_TASKS}; earlier ones are found by their ids]"
        );
    }
    text.push_str("TaskOutput with a task_id shows what came of it.");
    Ok(ToolReply::from_text(text))
}

fn unknown_task_error(asked: &str) -> ToolError {
    let shown: String = asked.chars().take(100).collect();
    ToolError::not_found(format!(
        "There is no task {shown:?}. Use the id that Task answered with; TaskOutput without task_id lists the tasks of \
         the last 24 hours, and a task is remembered for 30 days."
    ))
}

/// The outcome of a task: its own answer, and a note if it failed.
struct TaskOutcome {
    verdict: &'static str,
    text: String,
    meta: ResultMeta,
}

impl TaskOutcome {
    fn from_payload(payload: &Value) -> Self {
        let (verdict, answer) = match (payload.get("result"), payload.get("error")) {
            (Some(result), _) => ("is done", result),
            (None, Some(error)) => ("failed", error),
            (None, None) => ("is done, with nothing to show", &Value::Null),
        };
        let text = answer
            .as_str()
            .map_or_else(|| answer.to_string(), str::to_owned);
        let mut meta: ResultMeta = payload
            .get("meta")
            .cloned()
            .and_then(|meta| serde_json::from_value(meta).ok())
            .unwrap_or_default();
        meta.duration_ms = None;
        Self {
            verdict,
            text,
            meta,
        }
    }
}
