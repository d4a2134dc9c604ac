//! KillShell: ends one shell with its whole process tree. Not here: ending the foreground call, which is a
//! cancellation.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::ShellDeps;
use super::board::{is_alive, state};
use crate::acp::terminals::{Ladder, StopSignal, ending_words, facts, list, output_with_status, seconds};
use crate::tool::{
    Access, CallDescription, CallTitle, Effect, ErrorCode, Lane, Reply, Tool, ToolCx, ToolError,
};

const GRACE: u64 = 2_000;
const LONGEST_GRACE: u64 = 30_000;
/// The time limit for reading the rest of the output after the kill.
const SETTLE: Duration = Duration::from_secs(2);
/// The number of last lines in the answer.
const LAST_LINES: usize = 20;

/// End a background command with every process it started.
///
/// Sends `signal`, then SIGKILL after grace_ms. One that has ended is not an error. What docker, systemd or cron
/// started for it goes on.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct KillShell {
    /// Such as sh_1.
    shell_id: String,
    /// The first signal; TERM if absent.
    #[serde(default)]
    signal: StopSignal,
    /// At most 30000; 2000 if absent.
    grace_ms: Option<u64>,
}

impl Tool for KillShell {
    const NAME: &'static str = "KillShell";
    const EFFECT: Effect = Effect::Executes;
    const KNOWN_AS: &'static [&'static str] = &["KillBash", "TaskStop", "kill_process"];
    const LANE: Lane = Lane::Control;
    const ONLY_ENDS: bool = true;
    const ALIASES: &'static [(&'static str, &'static str)] =
        &[("id", "shell_id"), ("bash_id", "shell_id"), ("shell", "shell_id"), ("grace", "grace_ms")];
    const EXAMPLES: &'static [&'static str] =
        &[r#"{"shell_id":"sh_1"}"#, r#"{"shell_id":"sh_2","signal":"INT","grace_ms":10000}"#];
    const LIMITS: &'static [&'static str] =
        &["30,000 ms until SIGKILL at most", "shows the last 20 lines of the output"];
    type Deps = ShellDeps;
    type Output = Reply;

    fn access(&self) -> Access {
        Access::nothing()
    }

    fn describe(&self) -> CallDescription {
        CallDescription::titled(CallTitle::sentence(format!("End shell {}", self.shell_id)))
    }

    async fn run(self, _cx: &ToolCx, deps: &ShellDeps) -> Result<Reply, ToolError> {
        let shell = deps.shells.find(&self.shell_id)?;
        if let Some(past) = &shell.past {
            let text = format!("Shell {} is over: {}.", shell.shown(), past.words);
            return Ok(Reply::text(text).with_meta(facts(&past.output)));
        }
        let before = state(deps.terminals.as_ref(), &shell, None).await?;
        if let Some(exit) = &before.exit
            && !is_alive(&before)
            && !exit.output_open
        {
            let ended = format!("Shell {} had ended already: {}.", shell.shown(), ending_words(&exit.status));
            let text = output_with_status(&ended, before.hint.as_deref());
            return Ok(Reply::text(text).with_meta(facts(&before)));
        }
        let grace = Duration::from_millis(self.grace_ms.unwrap_or(GRACE).min(LONGEST_GRACE));
        let stopped =
            deps.terminals.kill_terminal(&shell.terminal, Ladder::asked(self.signal, grace)).await?;
        if !stopped.survivors.is_empty() {
            let text = format!(
                "Shell {}: {} could not be ended, not even with SIGKILL; it may hang in the system. Ask again later.",
                shell.shown(),
                list(&stopped.survivors)
            );
            return Err(ToolError::new(ErrorCode::Io, text));
        }
        // Waits for the last output. Only a command that hangs in the kernel has not ended by now.
        let settled = deps.terminals.wait_for_terminal_exit(&shell.terminal);
        let _ = tokio::time::timeout(SETTLE, settled).await;
        let after = state(deps.terminals.as_ref(), &shell, None).await?;
        if let Some(exit) = &after.exit {
            deps.shells.ended(&shell, &exit.status);
        }
        let how = stopped
            .by
            .map_or_else(|| "had just ended by itself".to_owned(), |by| format!("stopped with {by}"));
        let mut text = format!("Shell {} {how} after {}.", shell.shown(), seconds(after.elapsed));
        let lines: Vec<&str> = after.text.lines().collect();
        let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
        if !last.is_empty() {
            text = format!("{text} Its last lines:\n{}", last.join("\n"));
        }
        Ok(Reply::text(text).with_meta(facts(&after)))
    }
}
