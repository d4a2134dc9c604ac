//! get_terminal_output: the output and state of a lasting terminal.

use schemars::JsonSchema;
use serde::Deserialize;

use super::TerminalDeps;
use punie_host::terminals::{
    ExitStatus, TerminalOutput, format_seconds, list_processes, output_meta_with_handle,
    output_with_status, pending_state_note, status_line,
};
use punie_tool::{CallLane, DeclaredAccess, Tool, ToolContext, ToolEffect, ToolError, ToolReply};

/// Same as ShellStatus, for a terminal of run_command. It never waits.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GetTerminalOutput {
    /// Such as term-0.
    terminal_id: String,
}

impl Tool for GetTerminalOutput {
    const NAME: &'static str = "get_terminal_output";
    const EFFECT: ToolEffect = ToolEffect::Reads;
    const SAME_AS: Option<&'static str> = Some("ShellStatus");
    const LANE: CallLane = CallLane::Control;
    const EXAMPLES: &'static [&'static str] =
        &[r#"{"terminal_id":"term-0"}"#, r#"{"terminalId":"term-12"}"#];
    const LIMITS: &'static [&'static str] =
        &["30,000 characters; all of it, up to 256 MB, through ReadOutput"];
    type Deps = TerminalDeps;
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        DeclaredAccess::none()
    }

    async fn run(self, cx: &ToolContext, deps: &TerminalDeps) -> Result<ToolReply, ToolError> {
        let lasting = deps.find_terminal(cx, &self.terminal_id)?;
        let output = deps.query_output(&lasting).await?;
        let printed = output_with_status(&output.text, pending_state_note(&output).as_deref());
        let state = output_with_status(&describe_terminal(&output), output.hint.as_deref());
        let text = output_with_status(&printed, Some(&state));
        Ok(ToolReply::from_fitted_text(text).with_meta(output_meta_with_handle(&output)))
    }
}

fn describe_terminal(output: &TerminalOutput) -> String {
    let took = format_seconds(output.elapsed);
    let printed = !output.text.trim().is_empty();
    let Some(exit) = &output.exit else {
        let nothing = if printed {
            ""
        } else {
            ", nothing was printed yet"
        };
        return format!("[running for {took}{nothing}]");
    };
    let ended = match &exit.status {
        ExitStatus::Code(0) if printed => format!("[exited with code 0 after {took}]"),
        status => status_line(status, output.elapsed, &output.text).unwrap_or_default(),
    };
    if !output.left.is_empty() {
        return format!("{ended}\nStill running: {}.", list_processes(&output.left));
    }
    ended
}
