//! wait_for_terminal_exit: waits for the end of a lasting terminal's command.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::TerminalDeps;
use punie_host::terminals::{ExitStatus, format_seconds, list_processes, terminal_output_meta};
use punie_tool::time_limit::wait_for_limit;
use punie_tool::{
    CallLane, DeclaredAccess, ErrorCode, Tool, ToolContext, ToolEffect, ToolError, ToolReply,
};

const DEFAULT_WAIT_MS: u64 = 120_000;
const MAX_WAIT_MS: u64 = 600_000;

/// Same as ShellStatus with wait_ms, for a terminal of run_command. Says how the command ended.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WaitForTerminalExit {
    /// Such as term-0.
    terminal_id: String,
    /// Milliseconds: 120000 if absent, at most 600000.
    timeout_ms: Option<u64>,
}

impl Tool for WaitForTerminalExit {
    const NAME: &'static str = "wait_for_terminal_exit";
    const EFFECT: ToolEffect = ToolEffect::Reads;
    const SAME_AS: Option<&'static str> = Some("ShellStatus");
    const LANE: CallLane = CallLane::Control;
    const EXAMPLES: &'static [&'static str] = &[
        r#"{"terminal_id":"term-0"}"#,
        r#"{"terminal_id":"term-0","timeout_ms":300000}"#,
    ];
    const LIMITS: &'static [&'static str] = &["120,000 ms of waiting, 600,000 ms at most"];
    type Deps = TerminalDeps;
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        DeclaredAccess::none()
    }

    async fn run(self, cx: &ToolContext, deps: &TerminalDeps) -> Result<ToolReply, ToolError> {
        let lasting = deps.find_terminal(cx, &self.terminal_id)?;
        let asked = self.timeout_ms.unwrap_or(DEFAULT_WAIT_MS);
        let limit = Duration::from_millis(asked.min(MAX_WAIT_MS));
        let exit = tokio::select! {
            biased;
            exit = deps.terminals.wait_for_terminal_exit(&lasting.terminal) => exit?,
            () = cx.wait_for_cancel() => return Err(ToolError::call_cancelled("The waiting was ended. That does not end the command.")),
            () = wait_for_limit(limit) => {
                let text = format!(
                    "Terminal {} still runs after {} of waiting. Nothing was stopped: wait again, look with \
                     get_terminal_output, or end it with kill_terminal.",
                    lasting.name,
                    format_seconds(limit)
                );
                return Err(ToolError::new(ErrorCode::Timeout, text));
            }
        };
        let output = deps.query_state(&lasting).await?;
        let mut meta = terminal_output_meta(&output);
        if asked > MAX_WAIT_MS {
            meta.warnings.push(format!(
                "timeout_ms was lowered from {asked} to {MAX_WAIT_MS}, the most there is."
            ));
        }
        if !output.left.is_empty() {
            let text = format!(
                "It left running: {}; kill_terminal ends them.",
                list_processes(&output.left)
            );
            meta.warnings.push(text);
        }
        let text = match &exit.status {
            ExitStatus::Code(code) => format!("Terminal exited with code {code}"),
            ExitStatus::Signal(name) => format!("Terminal was ended by the signal {name}"),
            ExitStatus::Unseen(why) => format!("Terminal has ended; nobody saw how, since {why}"),
        };
        Ok(ToolReply::from_text(text).with_meta(meta))
    }
}
