//! kill_terminal: ends the command of a lasting terminal, whose output stays readable.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::TerminalDeps;
use super::terminal_list::has_live_output;
use punie_host::terminals::{
    StopSequence, StopSignal, describe_survivors, exit_phrase, terminal_output_meta,
};
use punie_tool::{
    CallLane, DeclaredAccess, ErrorCode, Tool, ToolContext, ToolEffect, ToolError, ToolReply,
};

/// The time between SIGTERM and SIGKILL.
const TERM_GRACE: Duration = Duration::from_secs(2);

/// Same as KillShell, for a terminal of run_command. Its id and output stay.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct KillTerminal {
    /// Such as term-0.
    terminal_id: String,
}

impl Tool for KillTerminal {
    const NAME: &'static str = "kill_terminal";
    const EFFECT: ToolEffect = ToolEffect::Executes;
    const SAME_AS: Option<&'static str> = Some("KillShell");
    const LANE: CallLane = CallLane::Control;
    const ONLY_ENDS: bool = true;
    const EXAMPLES: &'static [&'static str] =
        &[r#"{"terminal_id":"term-0"}"#, r#"{"terminalId":"term-12"}"#];
    const LIMITS: &'static [&'static str] = &["2,000 ms from SIGTERM to SIGKILL"];
    type Deps = TerminalDeps;
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        DeclaredAccess::none()
    }

    async fn run(self, cx: &ToolContext, deps: &TerminalDeps) -> Result<ToolReply, ToolError> {
        let lasting = deps.find_terminal(cx, &self.terminal_id)?;
        let before = deps.query_state(&lasting).await?;
        if let Some(exit) = &before.exit
            && !has_live_output(&before)
        {
            let text = format!(
                "Terminal {} had ended already: {}.",
                lasting.name,
                exit_phrase(&exit.status)
            );
            return Ok(ToolReply::from_text(text).with_meta(terminal_output_meta(&before)));
        }
        let sequence = StopSequence::for_signal(StopSignal::Terminate, TERM_GRACE);
        let stopped = deps.end_processes(&lasting, sequence).await?;
        if !stopped.survivors.is_empty() {
            let named = format!("Terminal {}", lasting.name);
            let text = describe_survivors(&named, &stopped.survivors, Self::NAME);
            return Err(ToolError::new(ErrorCode::Io, text));
        }
        let after = deps.query_state(&lasting).await?;
        Ok(
            ToolReply::from_text(format!("Killed terminal {}", lasting.name))
                .with_meta(terminal_output_meta(&after)),
        )
    }
}
