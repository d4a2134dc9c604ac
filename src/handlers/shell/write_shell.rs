//! WriteShell: types into a shell that has a terminal, and shows the new output. Not here: starting one (Bash), and
//! reading without typing (ShellStatus).

use std::time::Duration;

use grep_regex::RegexMatcher;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::time::Instant;

use super::ShellDeps;
use super::board::{Shell, state};
use super::shell_status::{compile, matches, state_words};
use crate::acp::terminals::{Key, Stroke, TerminalOutput, Typed, ending_words, facts, unshown_words};
use crate::output::figures::grouped;
use crate::tool::{
    Access, CallDescription, CallTitle, CommandText, Effect, ErrorCode, Lane, Meta, Reply, Tool, ToolCx,
    ToolError,
};

const WAIT: u64 = 500;
const LONGEST_WAIT: u64 = 30_000;
const MOST_TEXT: usize = 64 << 10;
const MOST_KEYS: usize = 200;

/// Type into a background command that Bash started with tty=true, and show what it prints then.
///
/// Types `text`, then presses `keys`, then Enter; without `text`, or with `keys`, Enter only if asked. ctrl-c stops
/// a program, ctrl-d ends its input. Do not type secrets: arguments are recorded.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct WriteShell {
    /// Such as sh_1.
    shell_id: String,
    /// At most 64 KiB; a line break is Enter.
    text: Option<String>,
    /// Press Enter at the end.
    enter: Option<bool>,
    /// Such as enter, tab, shift-tab, escape, up, page-down, f1, ctrl-c, alt-x, or a character.
    keys: Option<Vec<String>>,
    /// At most 30000; 500 if absent.
    wait_ms: Option<u64>,
    /// Stop waiting at a new line that matches.
    pattern: Option<String>,
    /// Cursor of an earlier answer.
    since: Option<u64>,
}

impl Tool for WriteShell {
    const NAME: &'static str = "WriteShell";
    const EFFECT: Effect = Effect::Executes;
    const KNOWN_AS: &'static [&'static str] = &["write_stdin", "BashInput", "send_input"];
    const LANE: Lane = Lane::Control;
    const ALIASES: &'static [(&'static str, &'static str)] = &[
        ("id", "shell_id"),
        ("bash_id", "shell_id"),
        ("shell", "shell_id"),
        ("session_id", "shell_id"),
        ("input", "text"),
        ("chars", "text"),
        ("stdin", "text"),
        ("submit", "enter"),
        ("key", "keys"),
        ("wait", "wait_ms"),
        ("yield_time_ms", "wait_ms"),
        ("cursor", "since"),
    ];
    const ACCEPTED: &'static [&'static str] = &["max_output_tokens"];
    const EXAMPLES: &'static [&'static str] = &[
        r#"{"shell_id":"sh_1","text":"print(6 * 7)"}"#,
        r#"{"shell_id":"sh_1","keys":["ctrl-c"]}"#,
        r#"{"shell_id":"sh_2","keys":["down","down","enter"],"wait_ms":5000,"pattern":"done|failed"}"#,
    ];
    const LIMITS: &'static [&'static str] = &[
        "65,536 bytes of text and 200 keys a call",
        "lines of 4,095 bytes where the terminal collects lines for the program",
        "500 ms of waiting, 30,000 ms at most",
        "the latest 64 KiB of what is new",
    ];
    type Deps = ShellDeps;
    type Output = Reply;

    fn access(&self) -> Access {
        let text = self.text.clone().unwrap_or_default();
        Access::command(CommandText::Typed(text, self.keys.clone().unwrap_or_default()), None)
    }

    fn describe(&self) -> CallDescription {
        let id = &self.shell_id;
        CallDescription::titled(CallTitle::sentence(match &self.text {
            Some(text) => format!("Type into shell {id}: `{text}`"),
            None => format!("Press keys in shell {id}"),
        }))
    }

    async fn run(self, cx: &ToolCx, deps: &ShellDeps) -> Result<Reply, ToolError> {
        let strokes = self.strokes()?;
        let matcher = self.pattern.as_deref().map(compile).transpose()?;
        let shell = deps.shells.find(&self.shell_id)?;
        let client = deps.terminals.as_ref();
        let before = state(client, &shell, Some(u64::MAX)).await?;
        check(&shell, &before)?;
        let typed = client.write_terminal(&shell.terminal, strokes).await?;
        let since = self.since.unwrap_or(before.cursor);
        let after = wait(&self, cx, deps, &shell, since, matcher.as_ref()).await?;
        if typed.taken < typed.given {
            return Err(not_taken(&shell, typed, &after));
        }
        Ok(answer(&shell, &after, self.wait_warning()))
    }
}

impl WriteShell {
    /// Returns the key strokes to send, in order.
    fn strokes(&self) -> Result<Vec<Stroke>, ToolError> {
        let text = self.text.as_deref().unwrap_or_default();
        let names = self.keys.as_deref().unwrap_or_default();
        if text.len() > MOST_TEXT {
            let text = format!(
                "`text` has {} bytes; {} are the most. Nothing was typed. Write the data to a file and name the file.",
                grouped(text.len() as u64),
                grouped(MOST_TEXT as u64)
            );
            return Err(ToolError::new(ErrorCode::TooLarge, text));
        }
        if names.len() > MOST_KEYS {
            let text =
                format!("`keys` has {} entries; {MOST_KEYS} are the most. Nothing was typed.", names.len());
            return Err(ToolError::new(ErrorCode::TooLarge, text));
        }
        let unknown: Vec<String> =
            names.iter().filter(|name| Key::named(name).is_none()).map(|name| format!("{name:?}")).collect();
        if !unknown.is_empty() {
            return Err(ToolError::invalid_args(format!(
                "`keys`: there is no key {}. Nothing was typed. Keys: {}. Anything longer is `text`.",
                unknown.join(", "),
                Key::NAMES
            )));
        }
        let mut strokes = Vec::new();
        if !text.is_empty() {
            strokes.push(Stroke::Text(text.to_owned()));
        }
        strokes.extend(names.iter().filter_map(|name| Key::named(name)).map(Stroke::Key));
        if self.enter.unwrap_or(self.text.is_some() && names.is_empty()) {
            strokes.extend(Key::named("enter").map(Stroke::Key));
        }
        if strokes.is_empty() {
            let text =
                "There is nothing to type: give `text`, `keys` or enter=true. To look only, use ShellStatus.";
            return Err(ToolError::invalid_args(text));
        }
        Ok(strokes)
    }

    fn wait_warning(&self) -> Option<String> {
        let asked = self.wait_ms.filter(|asked| *asked > LONGEST_WAIT)?;
        Some(format!("wait_ms was lowered from {asked} to {LONGEST_WAIT}, the most there is."))
    }
}

/// Waits for a matching line, the end of the command, or the end of the wait time. Returns the new output.
async fn wait(
    asked: &WriteShell,
    cx: &ToolCx,
    deps: &ShellDeps,
    shell: &Shell,
    since: u64,
    matcher: Option<&RegexMatcher>,
) -> Result<TerminalOutput, ToolError> {
    let until = Instant::now() + Duration::from_millis(asked.wait_ms.unwrap_or(WAIT).min(LONGEST_WAIT));
    loop {
        let output = state(deps.terminals.as_ref(), shell, Some(since)).await?;
        let found = matcher.is_some_and(|matcher| output.text.lines().any(|line| matches(matcher, line)));
        if found || output.exit.is_some() || Instant::now() >= until {
            return Ok(output);
        }
        tokio::select! {
            biased;
            () = cx.cancelled() => {
                return Err(ToolError::cancelled("It was typed; only the waiting was ended, and the shell goes on."));
            }
            more = deps.terminals.wait_for_terminal_output(&shell.terminal, output.bytes_read) => more?,
            () = tokio::time::sleep_until(until) => {}
        }
    }
}

/// Fails if the shell cannot be typed into.
fn check(shell: &Shell, now: &TerminalOutput) -> Result<(), ToolError> {
    if let Some(past) = &shell.past {
        return Err(ToolError::invalid_args(format!(
            "Shell {} is over ({}), so nothing was typed. Bash starts a new one.",
            shell.shown(),
            past.words
        )));
    }
    if let Some(exit) = &now.exit {
        return Err(ToolError::invalid_args(format!(
            "Shell {} has ended ({}), so nothing was typed. ShellStatus shows its last lines; Bash starts a new one.",
            shell.shown(),
            ending_words(&exit.status)
        )));
    }
    if now.tty {
        return Ok(());
    }
    Err(ToolError::invalid_args(format!(
        "Shell {} was started without a terminal, so nothing can be typed into it; its input is empty or was given as \
         `stdin`. Start it again with Bash, tty=true and run_in_background=true; KillShell ends this one.",
        shell.shown()
    )))
}

fn not_taken(shell: &Shell, typed: Typed, after: &TerminalOutput) -> ToolError {
    let text = format!(
        "Shell {}: only {} of {} bytes were typed: the program does not read its input at present. The rest was \
         dropped; see with ShellStatus what it does before typing on from there.",
        shell.shown(),
        grouped(typed.taken as u64),
        grouped(typed.given as u64)
    );
    let meta = Meta { may_have_run: true, ..facts(after) };
    ToolError::new(ErrorCode::Io, text).with_meta(meta)
}

fn answer(shell: &Shell, after: &TerminalOutput, warning: Option<String>) -> Reply {
    let mut shown = vec![format!("Shell {}: {}", shell.shown(), state_words(shell, after))];
    if after.omitted_bytes > 0 {
        shown.push(format!("[{} bytes between were too much to hold]", grouped(after.omitted_bytes)));
    }
    let new = after.text.trim_end_matches(['\n', '\r']);
    shown.push(if new.is_empty() { "(nothing new was printed)".to_owned() } else { new.to_owned() });
    shown.extend(unshown_words(after));
    if after.exit.is_none() {
        shown.push(format!("[since={} for what comes next]", after.cursor));
    }
    let mut meta = facts(after);
    meta.handle = after.handle.as_ref().map(|handle| handle.as_str().to_owned());
    meta.warnings.extend(warning);
    Reply::text(shown.join("\n")).with_meta(meta)
}
