//! release_terminal: ends the processes of a lasting terminal and removes it. Not here: ending them alone.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::TerminalDeps;
use super::terminal_list::{has_live_output, query_terminal};
use crate::acp::terminals::{StopSequence, terminal_output_meta};
use crate::tool::{CallLane, DeclaredAccess, Tool, ToolContext, ToolEffect, ToolError, ToolReply};

/// The time limit for reading the rest of the output after the kill.
const OUTPUT_WAIT: Duration = Duration::from_secs(2);

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
    const ALIASES: &'static [(&'static str, &'static str)] = super::ALIASES;
    const EXAMPLES: &'static [&'static str] =
        &[r#"{"terminal_id":"term-0"}"#, r#"{"terminalId":"term-12"}"#];
    const LIMITS: &'static [&'static str] = &[
        "2,000 ms from SIGTERM to SIGKILL for what still runs",
        "the output stays for 7 days",
    ];
    type Deps = TerminalDeps;
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        DeclaredAccess::no_access()
    }

    async fn run(self, cx: &ToolContext, deps: &TerminalDeps) -> Result<ToolReply, ToolError> {
        let lasting = deps
            .board
            .find_terminal(&cx.conversation, &self.terminal_id)?;
        let client = deps.terminals.as_ref();
        let ran = has_live_output(&query_terminal(client, &lasting, Some(u64::MAX)).await?);
        if ran {
            // Killed before it is removed, because the answer includes its last output and its end.
            client
                .kill_terminal(&lasting.terminal, StopSequence::for_timeout())
                .await?;
            let _ = tokio::time::timeout(
                OUTPUT_WAIT,
                client.wait_for_terminal_exit(&lasting.terminal),
            )
            .await;
        }
        let last = query_terminal(client, &lasting, Some(u64::MAX)).await?;
        if deps.board.remove_terminal(&lasting) {
            client.release_terminal(&lasting.terminal).await?;
        }
        let mut meta = terminal_output_meta(&last);
        meta.handle = last
            .handle
            .as_ref()
            .map(|handle| handle.as_str().to_owned());
        if ran {
            meta.warnings
                .push("Its command, or something that it had left running, was ended.".to_owned());
        }
        Ok(ToolReply::from_text(format!("Released terminal {}", lasting.name)).with_meta(meta))
    }
}
