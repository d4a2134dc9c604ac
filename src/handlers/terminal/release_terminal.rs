//! release_terminal: ends the processes of a lasting terminal and removes it. Not here: ending them alone.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::TerminalDeps;
use super::board::{is_alive, look};
use crate::acp::terminals::{Ladder, facts};
use crate::tool::{Access, Effect, Lane, Reply, Tool, ToolCx, ToolError};

/// The time limit for reading the rest of the output after the kill.
const SETTLE: Duration = Duration::from_secs(2);

/// Same as KillShell, for a terminal of run_command. Its id is forgotten; ReadOutput still shows its output.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ReleaseTerminal {
    /// Such as term-0.
    terminal_id: String,
}

impl Tool for ReleaseTerminal {
    const NAME: &'static str = "release_terminal";
    const EFFECT: Effect = Effect::Executes;
    const SAME_AS: Option<&'static str> = Some("KillShell");
    const LANE: Lane = Lane::Control;
    const ONLY_ENDS: bool = true;
    const ALIASES: &'static [(&'static str, &'static str)] = super::ALIASES;
    const EXAMPLES: &'static [&'static str] = &[r#"{"terminal_id":"term-0"}"#, r#"{"terminalId":"term-12"}"#];
    const LIMITS: &'static [&'static str] =
        &["2,000 ms from SIGTERM to SIGKILL for what still runs", "the output stays for 7 days"];
    type Deps = TerminalDeps;
    type Output = Reply;

    fn access(&self) -> Access {
        Access::nothing()
    }

    async fn run(self, cx: &ToolCx, deps: &TerminalDeps) -> Result<Reply, ToolError> {
        let lasting = deps.board.find(&cx.conversation, &self.terminal_id)?;
        let client = deps.terminals.as_ref();
        let ran = is_alive(&look(client, &lasting, Some(u64::MAX)).await?);
        if ran {
            // Killed before it is removed, because the answer includes its last output and its end.
            client.kill_terminal(&lasting.terminal, Ladder::timeout()).await?;
            let _ = tokio::time::timeout(SETTLE, client.wait_for_terminal_exit(&lasting.terminal)).await;
        }
        let last = look(client, &lasting, Some(u64::MAX)).await?;
        if deps.board.forget(&lasting) {
            client.release_terminal(&lasting.terminal).await?;
        }
        let mut meta = facts(&last);
        meta.handle = last.handle.as_ref().map(|handle| handle.as_str().to_owned());
        if ran {
            meta.warnings.push("Its command, or something that it had left running, was ended.".to_owned());
        }
        Ok(Reply::text(format!("Released terminal {}", lasting.name)).with_meta(meta))
    }
}
