//! kill_terminal: ends the command of a lasting terminal, whose output stays readable. Not here: releasing the
//! terminal.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::TerminalDeps;
use super::board::{is_alive, look};
use crate::acp::terminals::{Ladder, StopSignal, ending_words, facts, list};
use crate::tool::{Access, Effect, ErrorCode, Lane, Reply, Tool, ToolCx, ToolError};

/// The time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(2);
/// The time limit for reading the rest of the output after the kill.
const SETTLE: Duration = Duration::from_secs(2);

/// Same as KillShell, for a terminal of run_command. Its id and output stay.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct KillTerminal {
    /// Such as term-0.
    terminal_id: String,
}

impl Tool for KillTerminal {
    const NAME: &'static str = "kill_terminal";
    const EFFECT: Effect = Effect::Executes;
    const SAME_AS: Option<&'static str> = Some("KillShell");
    const LANE: Lane = Lane::Control;
    const ONLY_ENDS: bool = true;
    const ALIASES: &'static [(&'static str, &'static str)] = super::ALIASES;
    const EXAMPLES: &'static [&'static str] = &[r#"{"terminal_id":"term-0"}"#, r#"{"terminalId":"term-12"}"#];
    const LIMITS: &'static [&'static str] = &["2,000 ms from SIGTERM to SIGKILL"];
    type Deps = TerminalDeps;
    type Output = Reply;

    fn access(&self) -> Access {
        Access::nothing()
    }

    async fn run(self, cx: &ToolCx, deps: &TerminalDeps) -> Result<Reply, ToolError> {
        let lasting = deps.board.find(&cx.conversation, &self.terminal_id)?;
        let client = deps.terminals.as_ref();
        let before = look(client, &lasting, Some(u64::MAX)).await?;
        if let Some(exit) = &before.exit
            && !is_alive(&before)
        {
            let text =
                format!("Terminal {} had ended already: {}.", lasting.name, ending_words(&exit.status));
            return Ok(Reply::text(text).with_meta(facts(&before)));
        }
        let ladder = Ladder::asked(StopSignal::Terminate, GRACE);
        let stopped = client.kill_terminal(&lasting.terminal, ladder).await?;
        if !stopped.survivors.is_empty() {
            let text = format!(
                "Terminal {}: {} could not be ended, not even with SIGKILL; it may hang in the system. Ask again later.",
                lasting.name,
                list(&stopped.survivors)
            );
            return Err(ToolError::new(ErrorCode::Io, text));
        }
        // Waits for the last output. Only a command that hangs in the kernel has not ended by now.
        let _ = tokio::time::timeout(SETTLE, client.wait_for_terminal_exit(&lasting.terminal)).await;
        let after = look(client, &lasting, Some(u64::MAX)).await?;
        Ok(Reply::text(format!("Killed terminal {}", lasting.name)).with_meta(facts(&after)))
    }
}
