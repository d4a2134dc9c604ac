//! ShellStatus: lists shells, and shows the output of one.

use std::sync::atomic::Ordering;

use grep_regex::RegexMatcher;
use schemars::JsonSchema;
use serde::Deserialize;

use super::ShellDeps;
use super::background_shell::{BackgroundShell, is_still_running};
use super::listening_ports::format_listening;
use super::shell_list::list_shells;
use super::shell_wait::{OutputWait, compile_matcher, matches_line};
use punie_host::terminals::{
    TerminalOutput, exit_phrase, format_seconds, list_processes, output_meta_with_handle,
    pending_state_note,
};
use punie_tool::{
    CallDescription, CallLane, CallTitle, DeclaredAccess, Tool, ToolContext, ToolEffect, ToolError,
    ToolReply,
};

const DEFAULT_TAIL_LINES: u64 = 50;

/// List background shells, or show the state, ports and last lines of one, with a cursor for `since`.
///
/// wait_ms waits for its end, a line that matches `pattern`, or with `since` anything new. ReadOutput shows the
/// whole output.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct ShellStatus {
    /// Such as sh_1; all if absent.
    shell_id: Option<String>,
    /// Cursor of an earlier answer.
    since: Option<u64>,
    /// Last lines; 50 if absent.
    tail_lines: Option<u64>,
    /// Only lines that match.
    pattern: Option<String>,
    /// Milliseconds, at most 30000.
    wait_ms: Option<u64>,
}

impl Tool for ShellStatus {
    const NAME: &'static str = "ShellStatus";
    const EFFECT: ToolEffect = ToolEffect::Reads;
    const KNOWN_AS: &'static [&'static str] = &["BashOutput", "BashStatus", "get_command_status"];
    const LANE: CallLane = CallLane::Control;
    const ALIASES: &'static [(&'static str, &'static str)] =
        &[("lines", "tail_lines"), ("filter", "pattern")];
    const EXAMPLES: &'static [&'static str] = &[
        "{}",
        r#"{"shell_id":"sh_1","since":1204,"wait_ms":10000,"pattern":"listening|error"}"#,
    ];
    const LIMITS: &'static [&'static str] = &[
        "waits 30,000 ms at most",
        "the last 50 lines, or all that is new of the latest 64 KiB",
        "lists the latest 50 shells, those of earlier lives of the runner too",
    ];
    type Deps = ShellDeps;
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        DeclaredAccess::none()
    }

    fn describe(&self) -> CallDescription {
        let title = self
            .shell_id
            .as_ref()
            .map(|id| CallTitle::from_sentence(format!("Look at shell {id}")));
        CallDescription {
            title,
            ..CallDescription::default()
        }
    }

    async fn run(self, cx: &ToolContext, deps: &ShellDeps) -> Result<ToolReply, ToolError> {
        let Some(id) = &self.shell_id else {
            return self.list_all(cx, deps).await;
        };
        let shell = deps.shells.find(id, cx)?;
        let matcher = self.pattern.as_deref().map(compile_matcher).transpose()?;
        let wait = OutputWait {
            // Of a shell from an earlier runner process only the last lines are known, so a cursor does not apply.
            since: self.since.filter(|_| shell.earlier.is_none()),
            wait_ms: self.wait_ms.unwrap_or(0),
            matcher: matcher.as_ref(),
            ends_at_any: self.since.is_some(),
            cancelled: "The waiting was ended. That does not end the shell.",
        };
        let output = wait.wait_for_output(cx, deps, &shell).await?;
        let ports = if is_still_running(&output) {
            format_listening(deps.terminals.as_ref(), &shell).await
        } else {
            String::new()
        };
        Ok(self.describe(&shell, &output, &ports, matcher.as_ref()))
    }
}

impl ShellStatus {
    async fn list_all(&self, cx: &ToolContext, deps: &ShellDeps) -> Result<ToolReply, ToolError> {
        let about_one = [self.since, self.wait_ms, self.tail_lines];
        if self.pattern.is_some() || about_one.iter().any(Option::is_some) {
            let text = "ShellStatus: since, tail_lines, pattern and wait_ms are about one shell; name it in `shell_id`.";
            return Err(ToolError::invalid_args(text));
        }
        let (shells, more) = list_shells(cx, &deps.shells, deps.terminals.as_ref()).await;
        if shells.is_empty() {
            return Ok(ToolReply::from_text("There are no background shells."));
        }
        let mut lines = Vec::new();
        for (shell, output) in &shells {
            let mut now = match output {
                Ok(output) => describe_state(shell, output),
                Err(gone) => gone.model_text().to_owned(),
            };
            if output.as_ref().is_ok_and(is_still_running) {
                now += &format_listening(deps.terminals.as_ref(), shell).await;
            }
            lines.push(format!(
                "{}: {now}, in {}: {}",
                shell.name_with_pid(),
                shell.folder,
                shell.describe_command()
            ));
        }
        if more > 0 {
            lines.push(format!(
                "[{more} more have ended; ShellStatus with a shell_id still shows each]"
            ));
        }
        Ok(ToolReply::from_text(lines.join("\n")))
    }

    fn describe(
        &self,
        shell: &BackgroundShell,
        output: &TerminalOutput,
        ports: &str,
        matcher: Option<&RegexMatcher>,
    ) -> ToolReply {
        let lines: Vec<&str> = output
            .text
            .lines()
            .filter(|line| matcher.is_none_or(|matcher| matches_line(matcher, line)))
            .collect();
        let usual = self.since.map_or(DEFAULT_TAIL_LINES, |_| u64::MAX);
        let most = usize::try_from(self.tail_lines.unwrap_or(usual)).unwrap_or(usize::MAX);
        let hidden = lines.len().saturating_sub(most);
        let mut shown = vec![format!(
            "Shell {}: {}{ports}: {}",
            shell.name_with_pid(),
            describe_state(shell, output),
            shell.describe_command()
        )];
        if self.since.is_some() && shell.earlier.is_some() {
            shown.push(
                "[a cursor does not reach over a restart of the runner: these are its last lines]"
                    .to_owned(),
            );
        }
        if self.since.is_some() && output.omitted_bytes > 0 {
            shown.push(format!(
                "[{} bytes between were too much to hold]",
                output.omitted_bytes
            ));
        }
        if hidden > 0 {
            shown.push(format!("[{hidden} lines before these]"));
        }
        shown.extend(lines[hidden..].iter().map(|line| (*line).to_owned()));
        if lines.is_empty() {
            let what = if output.text.is_empty() {
                "nothing"
            } else {
                "no line that matches"
            };
            let new = if self.since.is_some() { " new" } else { "" };
            shown.push(format!("({what}{new} was printed)"));
        }
        shown.extend(pending_state_note(output));
        let mut meta = output_meta_with_handle(output);
        meta.truncated = hidden > 0 || output.omitted_bytes > 0;
        let is_whole =
            !meta.truncated && self.since.is_none() && matcher.is_none() && shell.earlier.is_none();
        shown.extend(continuation_footer(output, is_whole));
        shown.extend(output.hint.clone());
        ToolReply::from_text(shown.join("\n")).with_meta(meta)
    }
}

/// Says how to read further output, and how to read the whole output if the answer does not show it.
fn continuation_footer(output: &TerminalOutput, is_whole: bool) -> Option<String> {
    let runs =
        is_still_running(output) || output.exit.as_ref().is_some_and(|exit| exit.output_open);
    let cursor = runs.then(|| format!("since={} for what comes next", output.cursor));
    let whole = output.handle.as_ref().filter(|_| !is_whole);
    let whole =
        whole.map(|handle| format!("ReadOutput handle=\"{}\" for all of it", handle.as_str()));
    let parts: Vec<String> = cursor.into_iter().chain(whole).collect();
    (!parts.is_empty()).then(|| format!("[{}]", parts.join("; ")))
}

/// Describes the state: `running for 12.4 s`, `ended after 3.1 s with exit code 0`.
pub(super) fn describe_state(shell: &BackgroundShell, output: &TerminalOutput) -> String {
    if let Some(past) = &shell.earlier {
        return past.words.clone();
    }
    let took = format_seconds(output.elapsed);
    let Some(exit) = &output.exit else {
        return format!("running for {took}");
    };
    let by = if shell.stopped_by_owner.load(Ordering::Relaxed) {
        "; the owner stopped it"
    } else {
        ""
    };
    let ended = format!("ended after {took}, {}{by}", exit_phrase(&exit.status));
    if is_still_running(output) {
        format!("{ended}; still running: {}", list_processes(&output.left))
    } else {
        ended
    }
}
