//! KillShell: ends one shell with its whole process tree.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::ShellDeps;
use super::background_shell::{is_still_running, query_shell_output};
use punie_host::terminals::{
    StopSequence, StopSignal, describe_survivors, exit_phrase, format_seconds, output_with_status,
    terminal_output_meta,
};
use punie_tool::{
    CallDescription, CallLane, CallTitle, DeclaredAccess, ErrorCode, Tool, ToolContext, ToolEffect,
    ToolError, ToolReply,
};

const DEFAULT_GRACE_MS: u64 = 2_000;
const MAX_GRACE_MS: u64 = 30_000;
/// The time limit for reading the rest of the output after the kill.
const OUTPUT_WAIT: Duration = Duration::from_secs(2);
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
    const EFFECT: ToolEffect = ToolEffect::Executes;
    const KNOWN_AS: &'static [&'static str] = &["KillBash", "TaskStop", "kill_process"];
    const LANE: CallLane = CallLane::Control;
    const ONLY_ENDS: bool = true;
    const ALIASES: &'static [(&'static str, &'static str)] = &[("grace", "grace_ms")];
    const EXAMPLES: &'static [&'static str] = &[
        r#"{"shell_id":"sh_1"}"#,
        r#"{"shell_id":"sh_2","signal":"INT","grace_ms":10000}"#,
    ];
    const LIMITS: &'static [&'static str] = &[
        "30,000 ms until SIGKILL at most",
        "shows the last 20 lines of the output",
    ];
    type Deps = ShellDeps;
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        DeclaredAccess::none()
    }

    fn describe(&self) -> CallDescription {
        CallDescription::with_title(CallTitle::from_sentence(format!(
            "End shell {}",
            self.shell_id
        )))
    }

    async fn run(self, cx: &ToolContext, deps: &ShellDeps) -> Result<ToolReply, ToolError> {
        let shell = deps.shells.find(&self.shell_id, cx)?;
        if let Some(past) = &shell.earlier {
            let text = format!("Shell {} is over: {}.", shell.name_with_pid(), past.words);
            return Ok(ToolReply::from_text(text).with_meta(terminal_output_meta(&past.output)));
        }
        let client = deps.terminals.as_ref();
        let before = query_shell_output(client, &shell, None).await?;
        if let Some(exit) = &before.exit
            && !is_still_running(&before)
            && !exit.output_open
        {
            let ended = format!(
                "Shell {} had ended already: {}.",
                shell.name_with_pid(),
                exit_phrase(&exit.status)
            );
            let text = output_with_status(&ended, before.hint.as_deref());
            return Ok(ToolReply::from_text(text).with_meta(terminal_output_meta(&before)));
        }
        let grace =
            Duration::from_millis(self.grace_ms.unwrap_or(DEFAULT_GRACE_MS).min(MAX_GRACE_MS));
        let sequence = StopSequence::for_signal(self.signal, grace);
        let stopped = client.kill_terminal(&shell.terminal, sequence).await?;
        if !stopped.survivors.is_empty() {
            let named = format!("Shell {}", shell.name_with_pid());
            let text = describe_survivors(&named, &stopped.survivors, Self::NAME);
            return Err(ToolError::new(ErrorCode::Io, text));
        }
        // Waits for the last output. Only a command that hangs in the kernel has not ended by now.
        let ended = client.wait_for_terminal_exit(&shell.terminal);
        let _ = tokio::time::timeout(OUTPUT_WAIT, ended).await;
        let after = query_shell_output(client, &shell, None).await?;
        if let Some(exit) = &after.exit {
            deps.shells.record_shell_end(&shell, &exit.status);
        }
        let how = match (stopped.by, &after.exit) {
            (Some(by), _) => format!("stopped with {by}"),
            (None, Some(exit)) => {
                let phrase = exit_phrase(&exit.status);
                format!("had just ended by itself ({phrase})")
            }
            (None, None) => "had just ended by itself".to_owned(),
        };
        let mut text = format!(
            "Shell {} {how} after {}.",
            shell.name_with_pid(),
            format_seconds(after.elapsed)
        );
        let lines: Vec<&str> = after.text.lines().collect();
        let last = &lines[lines.len().saturating_sub(LAST_LINES)..];
        if !last.is_empty() {
            text = format!("{text} Its last lines:\n{}", last.join("\n"));
        }
        for warning in &after.warnings {
            text = format!("{text}\n{warning}");
        }
        Ok(ToolReply::from_text(text).with_meta(terminal_output_meta(&after)))
    }
}
