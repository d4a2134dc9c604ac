//! Waits for the output of a shell: a matching line, anything new, or its end.

use std::pin::pin;
use std::time::Duration;

use grep_matcher::Matcher;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use tokio::time::Instant;

use super::ShellDeps;
use super::background_shell::{BackgroundShell, query_shell_output};
use punie_host::terminals::TerminalOutput;
use punie_tool::time_limit::wait_until_limit;
use punie_tool::{ToolContext, ToolError};

/// The longest wait.
pub(super) const MAX_WAIT_MS: u64 = 30_000;

/// A wait for the output of a shell.
pub(super) struct OutputWait<'a> {
    /// Waits for output after this cursor.
    pub(super) since: Option<u64>,
    pub(super) wait_ms: u64,
    /// Ends the wait at a line that matches.
    pub(super) matcher: Option<&'a RegexMatcher>,
    /// Without a matcher, ends the wait at any output.
    pub(super) ends_at_any: bool,
    /// The error text for a cancelled wait.
    pub(super) cancelled: &'static str,
}

impl OutputWait<'_> {
    /// Waits until the output is there, the command ends or the time is up. Returns the output.
    pub(super) async fn wait_for_output(
        &self,
        cx: &ToolContext,
        deps: &ShellDeps,
        shell: &BackgroundShell,
    ) -> Result<TerminalOutput, ToolError> {
        let until = Instant::now() + Duration::from_millis(self.wait_ms.min(MAX_WAIT_MS));
        let client = deps.terminals.as_ref();
        let mut limit = pin!(wait_until_limit(until));
        let mut is_over = self.wait_ms == 0;
        loop {
            let output = query_shell_output(client, shell, self.since).await?;
            let found = match self.matcher {
                Some(matcher) => output.text.lines().any(|line| matches_line(matcher, line)),
                None => self.ends_at_any && !output.text.is_empty(),
            };
            if found || output.exit.is_some() || is_over {
                return Ok(output);
            }
            tokio::select! {
                biased;
                () = cx.wait_for_cancel() => return Err(ToolError::call_cancelled(self.cancelled)),
                // Before the output, which may never pause.
                () = &mut limit => is_over = true,
                more = client.wait_for_terminal_output(&shell.terminal, output.bytes_read) => more?,
            }
        }
    }
}

/// Compiles the `pattern` of a call.
pub(super) fn compile_matcher(pattern: &str) -> Result<RegexMatcher, ToolError> {
    RegexMatcherBuilder::new().build(pattern).map_err(|bad| {
        ToolError::invalid_args(format!(
            "`pattern` is not a usable regular expression: {bad}"
        ))
    })
}

pub(super) fn matches_line(matcher: &RegexMatcher, line: &str) -> bool {
    // The error type has no values, so matching cannot fail.
    matcher.is_match(line.as_bytes()).unwrap_or(false)
}
