//! wait_for_terminal_exit: waits for the end of a lasting terminal's command. Not here: ending it.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::TerminalDeps;
use super::board::look;
use crate::acp::terminals::{ExitStatus, facts, list, seconds};
use crate::tool::{Access, Effect, ErrorCode, Lane, Reply, Tool, ToolCx, ToolError};

const WAIT: u64 = 120_000;
const LONGEST_WAIT: u64 = 600_000;

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
    const EFFECT: Effect = Effect::Reads;
    const SAME_AS: Option<&'static str> = Some("ShellStatus");
    const LANE: Lane = Lane::Control;
    const ALIASES: &'static [(&'static str, &'static str)] = &[
        ("id", "terminal_id"),
        ("terminal", "terminal_id"),
        ("timeout", "timeout_ms"),
        ("wait_ms", "timeout_ms"),
    ];
    const EXAMPLES: &'static [&'static str] =
        &[r#"{"terminal_id":"term-0"}"#, r#"{"terminal_id":"term-0","timeout_ms":300000}"#];
    const LIMITS: &'static [&'static str] = &["120,000 ms of waiting, 600,000 ms at most"];
    type Deps = TerminalDeps;
    type Output = Reply;

    fn access(&self) -> Access {
        Access::nothing()
    }

    async fn run(self, cx: &ToolCx, deps: &TerminalDeps) -> Result<Reply, ToolError> {
        let lasting = deps.board.find(&cx.conversation, &self.terminal_id)?;
        let asked = self.timeout_ms.unwrap_or(WAIT);
        let limit = Duration::from_millis(asked.min(LONGEST_WAIT));
        let exit = tokio::select! {
            biased;
            exit = deps.terminals.wait_for_terminal_exit(&lasting.terminal) => exit?,
            () = cx.cancelled() => return Err(ToolError::cancelled("The waiting was ended; the command goes on.")),
            () = tokio::time::sleep(limit) => {
                let text = format!(
                    "Terminal {} still runs after {} of waiting. Nothing was stopped: wait again, look with \
                     get_terminal_output, or end it with kill_terminal.",
                    lasting.name,
                    seconds(limit)
                );
                return Err(ToolError::new(ErrorCode::Timeout, text));
            }
        };
        let output = look(deps.terminals.as_ref(), &lasting, Some(u64::MAX)).await?;
        let mut meta = facts(&output);
        if asked > LONGEST_WAIT {
            meta.warnings
                .push(format!("timeout_ms was lowered from {asked} to {LONGEST_WAIT}, the most there is."));
        }
        if !output.left.is_empty() {
            let text = format!("It left running: {}; kill_terminal ends them.", list(&output.left));
            meta.warnings.push(text);
        }
        let text = match &exit.status {
            ExitStatus::Code(code) => format!("Terminal exited with code {code}"),
            ExitStatus::Signal(name) => format!("Terminal was ended by the signal {name}"),
            ExitStatus::Unseen(why) => format!("Terminal has ended; nobody saw how, since {why}"),
        };
        Ok(Reply::text(text).with_meta(meta))
    }
}
