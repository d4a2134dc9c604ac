//! release_terminal: ends the processes of a lasting terminal and removes it.

use schemars::JsonSchema;
use serde::Deserialize;

use super::TerminalDeps;
use super::terminal_list::has_live_output;
use punie_host::terminals::{StopSequence, output_meta_with_handle};
use punie_tool::{CallLane, DeclaredAccess, Tool, ToolContext, ToolEffect, ToolError, ToolReply};

/// Same as KillShell, for a terminal of run_command. Its id is forgotten; ReadOutput still shows its output.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReleaseTerminal {
    /// Such as term-0.
    terminal_id: String,
}

impl Tool for ReleaseTerminal {
    const NAME: &'static str = "release_terminal";
    const EFFECT: ToolEffect = ToolEffect::Executes;
    const SAME_AS: Option<&'static str> = Some("KillShell");
    const LANE: CallLane = CallLane::Control;
    const ONLY_ENDS: bool = true;
    const EXAMPLES: &'static [&'static str] =
        &[r#"{"terminal_id":"term-0"}"#, r#"{"terminalId":"term-12"}"#];
    const LIMITS: &'static [&'static str] = &[
        "2,000 ms from SIGTERM to SIGKILL for what still runs",
        "the output stays for 7 days",
    ];
    type Deps = TerminalDeps;
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        DeclaredAccess::none()
    }

    async fn run(self, cx: &ToolContext, deps: &TerminalDeps) -> Result<ToolReply, ToolError> {
        let lasting = deps.find_terminal(cx, &self.terminal_id)?;
        let ran = has_live_output(&deps.query_state(&lasting).await?);
        if ran {
            // Killed before it is removed, because the answer includes its last output and its end.
            deps.end_processes(&lasting, StopSequence::for_timeout())
                .await?;
        }
        let last = deps.query_state(&lasting).await?;
        if deps.board.remove(&lasting) {
            deps.terminals.release_terminal(&lasting.terminal).await?;
        }
        let mut meta = output_meta_with_handle(&last);
        if ran {
            meta.warnings
                .push("Its command, or something that it had left running, was ended.".to_owned());
        }
        Ok(ToolReply::from_text(format!("Released terminal {}", lasting.name)).with_meta(meta))
    }
}
