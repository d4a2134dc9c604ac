//! WriteShell: types into a shell that has a terminal, and shows the new output.

use schemars::JsonSchema;
use serde::Deserialize;

use super::ShellDeps;
use super::background_shell::{BackgroundShell, query_shell_state};
use super::shell_status::describe_state;
use super::shell_wait::{MAX_WAIT_MS, OutputWait, compile_matcher};
use punie_host::terminals::{
    TerminalInput, TerminalKey, TerminalOutput, TypedBytes, exit_phrase, output_meta_with_handle,
    pending_state_note, terminal_output_meta,
};
use punie_text::output::number_format::group_digits;
use punie_tool::{
    CallDescription, CallLane, CallTitle, DeclaredAccess, ErrorCode, RequestedCommand, ResultMeta,
    Tool, ToolContext, ToolEffect, ToolError, ToolReply,
};

const DEFAULT_WAIT_MS: u64 = 500;
const MAX_TEXT_BYTES: usize = 64 << 10;
const MAX_KEYS: usize = 200;

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
    const EFFECT: ToolEffect = ToolEffect::Executes;
    const KNOWN_AS: &'static [&'static str] = &["write_stdin", "BashInput", "send_input"];
    const LANE: CallLane = CallLane::Control;
    const ALIASES: &'static [(&'static str, &'static str)] = &[
        ("input", "text"),
        ("chars", "text"),
        ("stdin", "text"),
        ("submit", "enter"),
        ("key", "keys"),
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
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        let text = self.text.clone().unwrap_or_default();
        DeclaredAccess::running_command(
            RequestedCommand::Typed(text, self.keys.clone().unwrap_or_default()),
            None,
        )
    }

    fn describe(&self) -> CallDescription {
        let id = &self.shell_id;
        CallDescription::with_title(CallTitle::from_sentence(match &self.text {
            Some(text) => format!("Type into shell {id}: `{text}`"),
            None => format!("Press keys in shell {id}"),
        }))
    }

    async fn run(self, cx: &ToolContext, deps: &ShellDeps) -> Result<ToolReply, ToolError> {
        let strokes = self.collect_strokes()?;
        let matcher = self.pattern.as_deref().map(compile_matcher).transpose()?;
        let shell = deps.shells.find(&self.shell_id, cx)?;
        let client = deps.terminals.as_ref();
        let before = query_shell_state(client, &shell).await?;
        require_typing_shell(&shell, &before)?;
        if cx.session.is_some() && shell.session_folders != cx.session_folders() {
            let text = "Nothing was typed: this shell was started with other folders than this session's, which it may \
                        reach. Start one with Bash.";
            return Err(ToolError::new(ErrorCode::OutsideWorkspace, text));
        }
        let typed = client.write_terminal(&shell.terminal, strokes).await?;
        let wait = OutputWait {
            since: Some(self.since.unwrap_or(before.cursor)),
            wait_ms: self.wait_ms.unwrap_or(DEFAULT_WAIT_MS),
            matcher: matcher.as_ref(),
            ends_at_any: false,
            cancelled: "It was typed. The waiting was ended; that does not end the shell.",
        };
        let after = wait.wait_for_output(cx, deps, &shell).await?;
        if typed.taken < typed.given {
            return Err(partial_write_error(&shell, typed, &after));
        }
        Ok(reply_with_output(&shell, &after, self.wait_warning()))
    }
}

impl WriteShell {
    /// Returns the key strokes to send, in order.
    fn collect_strokes(&self) -> Result<Vec<TerminalInput>, ToolError> {
        let text = self.text.as_deref().unwrap_or_default();
        let names = self.keys.as_deref().unwrap_or_default();
        if text.len() > MAX_TEXT_BYTES {
            let text = format!(
                "`text` has {} bytes; {} are the most. Nothing was typed. Write the data to a file and name the file.",
                group_digits(text.len() as u64),
                group_digits(MAX_TEXT_BYTES as u64)
            );
            return Err(ToolError::new(ErrorCode::TooLarge, text));
        }
        if names.len() > MAX_KEYS {
            let text = format!(
                "`keys` has {} entries; {MAX_KEYS} are the most. Nothing was typed.",
                names.len()
            );
            return Err(ToolError::new(ErrorCode::TooLarge, text));
        }
        let mut strokes = Vec::new();
        if !text.is_empty() {
            strokes.push(TerminalInput::Text(text.to_owned()));
        }
        let mut unknown = Vec::new();
        for name in names {
            match TerminalKey::from_name(name) {
                Some(key) => strokes.push(TerminalInput::Key(key)),
                None => unknown.push(format!("{name:?}")),
            }
        }
        if !unknown.is_empty() {
            return Err(ToolError::invalid_args(format!(
                "`keys`: there is no key {}. Nothing was typed. Keys: {}. Anything longer is `text`.",
                unknown.join(", "),
                TerminalKey::NAMES
            )));
        }
        let usual = self.text.is_some() && names.is_empty();
        if self.enter.unwrap_or(usual) {
            strokes.extend(TerminalKey::from_name("enter").map(TerminalInput::Key));
        }
        if strokes.is_empty() {
            let text = "There is nothing to type: give `text`, `keys` or enter=true. To look only, use ShellStatus.";
            return Err(ToolError::invalid_args(text));
        }
        Ok(strokes)
    }

    fn wait_warning(&self) -> Option<String> {
        let asked = self.wait_ms.filter(|asked| *asked > MAX_WAIT_MS)?;
        Some(format!(
            "wait_ms was lowered from {asked} to {MAX_WAIT_MS}, the most there is."
        ))
    }
}

/// Fails if the shell cannot be typed into.
fn require_typing_shell(shell: &BackgroundShell, now: &TerminalOutput) -> Result<(), ToolError> {
    let why = if let Some(past) = &shell.earlier {
        format!(
            "is over ({}), so nothing was typed. Bash starts a new one.",
            past.words
        )
    } else if let Some(exit) = &now.exit {
        format!(
            "has ended ({}), so nothing was typed. ShellStatus shows its last lines; Bash starts a new one.",
            exit_phrase(&exit.status)
        )
    } else if now.tty {
        return Ok(());
    } else {
        "was started without a terminal, so nothing can be typed into it; its input is empty or was given as \
         `stdin`. Start it again with Bash, tty=true and run_in_background=true; KillShell ends this one."
            .to_owned()
    };
    Err(ToolError::invalid_args(format!(
        "Shell {} {why}",
        shell.name_with_pid()
    )))
}

fn partial_write_error(
    shell: &BackgroundShell,
    typed: TypedBytes,
    after: &TerminalOutput,
) -> ToolError {
    let text = format!(
        "Shell {}: only {} of {} bytes were typed: the program does not read its input at present. The rest was \
         dropped; see with ShellStatus what it does before typing on from there.",
        shell.name_with_pid(),
        group_digits(typed.taken as u64),
        group_digits(typed.given as u64)
    );
    let meta = ResultMeta {
        may_have_run: true,
        ..terminal_output_meta(after)
    };
    ToolError::new(ErrorCode::Io, text).with_meta(meta)
}

fn reply_with_output(
    shell: &BackgroundShell,
    after: &TerminalOutput,
    warning: Option<String>,
) -> ToolReply {
    let mut shown = vec![format!(
        "Shell {}: {}",
        shell.name_with_pid(),
        describe_state(shell, after)
    )];
    if after.omitted_bytes > 0 {
        shown.push(format!(
            "[{} bytes between were too much to hold]",
            group_digits(after.omitted_bytes)
        ));
    }
    let new = after.text.trim_end_matches(['\n', '\r']);
    shown.push(if new.is_empty() {
        "(nothing new was printed)".to_owned()
    } else {
        new.to_owned()
    });
    shown.extend(pending_state_note(after));
    if after.exit.is_none() {
        shown.push(format!("[since={} for what comes next]", after.cursor));
    }
    let mut meta = output_meta_with_handle(after);
    meta.warnings.extend(warning);
    ToolReply::from_text(shown.join("\n")).with_meta(meta)
}
