//! Task: a call that runs beside the conversation.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::StateDeps;
use punie_tool::{
    CallDescription, CallTitle, DeclaredAccess, ErrorCode, StartedCall, Tool, ToolContext,
    ToolEffect, ToolError,
};

/// Run one tool call in the background and get a task id at once. Fetch the result with TaskOutput.
///
/// It does not wait for the conversation's other calls, and survives a restart. It starts no agents: delegation
/// belongs to the backend.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Task {
    /// What it is for; shown only.
    description: Option<String>,
    /// The tool to run, such as `Bash`.
    tool: Option<String>,
    /// That tool's arguments.
    #[serde(default)]
    args: Map<String, Value>,
}

impl Tool for Task {
    const NAME: &'static str = "Task";
    const EFFECT: ToolEffect = ToolEffect::Executes;
    const KNOWN_AS: &'static [&'static str] = &["Agent", "subagent"];
    const ALIASES: &'static [(&'static str, &'static str)] =
        &[("tool_name", "tool"), ("input", "args")];
    const ACCEPTED: &'static [&'static str] = &[
        "prompt",
        "subagent_type",
        "model",
        "resume",
        "run_in_background",
        "max_turns",
        "name",
    ];
    const EXAMPLES: &'static [&'static str] = &[
        r#"{"description":"build in the background","tool":"Bash","args":{"command":"cargo build"}}"#,
        r#"{"tool":"Grep","args":{"pattern":"TODO","output_mode":"count"}}"#,
    ];
    const LIMITS: &'static [&'static str] = &[
        "8 tasks at once, the others wait their turn; one runs for 1 hour at most",
        "a task and its result are remembered for 30 days, its whole output for 7",
    ];
    type Deps = StateDeps;
    type Output = String;

    fn access(&self) -> DeclaredAccess {
        let started = |tool: &String| StartedCall {
            tool: tool.trim().to_owned(),
            args: self.args.clone(),
        };
        DeclaredAccess {
            starts_call: self.tool.as_ref().map(started),
            ..DeclaredAccess::none()
        }
    }

    fn describe(&self) -> CallDescription {
        CallDescription::with_title(CallTitle::from_sentence("Start a task"))
    }

    async fn run(self, cx: &ToolContext, deps: &StateDeps) -> Result<String, ToolError> {
        let Some(tool) = self.tool else {
            return Err(ToolError::new(
                ErrorCode::PolicyDenied,
                "This device does not run agents: delegation belongs to the backend. Nothing was started. To run one \
                 tool call in the background, name it: {\"tool\": \"Bash\", \"args\": {...}}.",
            ));
        };
        let tool = tool.trim();
        if tool == Self::NAME {
            return Err(ToolError::invalid_args(
                "A task cannot start another task. Start both from the conversation.",
            ));
        }
        let name = deps
            .board
            .start_task(cx, tool, &Value::Object(self.args).to_string())
            .await?;
        let what = self
            .description
            .map_or_else(String::new, |what| format!(" ({what})"));
        Ok(format!(
            "Task {name} started: {tool}{what}. TaskOutput fetches its result."
        ))
    }
}
