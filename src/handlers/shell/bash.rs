//! Bash: one command line, in the foreground or started in the background.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::ShellDeps;
use super::bash_keys;
use super::bash_reply::{
    add_port_holder, finish_foreground, leave_in_background, start_in_background,
};
use super::shell_list::ShellDescription;
use punie_home::MountedSecrets;
use punie_host::RawPath;
use punie_host::terminals::{
    CommandLaunch, CreateTerminal, WatchedCommand, WindowSize, run_or_leave_running, run_to_end,
};
use punie_text::output::TextBudget;
use punie_tool::{
    AllowScope, CallDescription, DeclaredAccess, RequestedCommand, Tool, ToolContext, ToolEffect,
    ToolError, ToolReply,
};

const DEFAULT_TIMEOUT_MS: u64 = 120_000;
const MAX_TIMEOUT_MS: u64 = 600_000;
/// The time for which a new background command is watched.
const FIRST_OUTPUT_WAIT: Duration = Duration::from_secs(1);
/// The limits of the time, in milliseconds, after which a command goes on in the background.
const YIELD_RANGE: std::ops::RangeInclusive<u64> = 250..=60_000;
/// The window sizes of a terminal in which programs draw well.
const COLS: std::ops::RangeInclusive<u64> = 20..=500;
const ROWS: std::ops::RangeInclusive<u64> = 5..=200;
/// The characters of a purpose in the list of shells.
const PURPOSE_CHARS: usize = 100;
/// Characters of the budget reserved for notes beside the output.
const NOTE_CHARS: u64 = 900;
/// Run a command line with bash: output and errors in order, then the exit code.
///
/// For files use Read, Edit, Glob and Grep, which say more. Each call is a new shell: `cd` and variables do not last.
/// Nobody answers prompts: pass flags such as --yes. A non-zero exit is no tool error. For servers, watchers and long
/// commands: run_in_background or yield_ms, then ShellStatus and KillShell.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is an argument of its own"
)]
pub(super) struct Bash {
    /// Join steps with &&.
    command: String,
    /// Milliseconds: 120000, at most 600000.
    timeout: Option<u64>,
    /// Else the first workspace.
    pub(super) working_directory: Option<RawPath>,
    /// Return within a second.
    #[serde(default)]
    run_in_background: bool,
    /// 250 to 60000 ms, then it goes on in the background.
    yield_ms: Option<u64>,
    /// Purpose, in five to ten words.
    description: Option<String>,
    /// Variables, no loaders' or secrets.
    env: Option<BTreeMap<String, String>>,
    /// Beyond http.
    #[serde(default)]
    network: bool,
    /// For the owner.
    network_reason: Option<String>,
    /// What it reads.
    stdin: Option<String>,
    /// A terminal for WriteShell; drawn output is shown as a screen.
    #[serde(default)]
    tty: bool,
    /// Width, 20 to 500; else 120.
    cols: Option<u64>,
    /// Height, 5 to 200; else 40.
    rows: Option<u64>,
    /// Keep escape sequences.
    #[serde(default)]
    raw: bool,
    /// Characters; 30000 if absent.
    max_chars: Option<u64>,
}

impl Tool for Bash {
    const NAME: &'static str = "Bash";
    const EFFECT: ToolEffect = ToolEffect::Executes;
    const KNOWN_AS: &'static [&'static str] = &[
        "shell",
        "exec_command",
        "local_shell",
        "run_shell_command",
        "run_terminal_cmd",
        "run_in_terminal",
        "execute_command",
        "bash_tool",
    ];
    const ALIASES: &'static [(&'static str, &'static str)] = bash_keys::ALIASES;
    const ACCEPTED: &'static [&'static str] = bash_keys::ACCEPTED;
    const EXAMPLES: &'static [&'static str] = &[
        r#"{"command":"cargo test --workspace","timeout":300000,"description":"Run all tests"}"#,
        r#"{"command":"npm run dev","working_directory":"web","run_in_background":true}"#,
        r#"{"command":"python3 -q","tty":true,"run_in_background":true}"#,
    ];
    const LIMITS: &'static [&'static str] = bash_keys::LIMITS;
    type Deps = ShellDeps;
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        let folder = self.working_directory.as_ref().map(RawPath::as_str);
        let mut access =
            DeclaredAccess::running_command(RequestedCommand::Line(self.command.clone()), folder);
        let reason = self.network_reason.clone().unwrap_or_default();
        access.whole_network = self.network.then_some(reason);
        if let Some(command) = &mut access.command {
            command.env = self.env.clone().unwrap_or_default();
        }
        access
    }

    fn describe(&self) -> CallDescription {
        // An approval for the session covers the same command line only if no other argument is set.
        let Self {
            working_directory,
            yield_ms,
            env,
            stdin,
            cols,
            rows,
            max_chars,
            ..
        } = self;
        let is_plain = !(self.run_in_background || self.tty || self.raw || self.network)
            && (yield_ms, cols, rows, max_chars) == (&None, &None, &None, &None)
            && (working_directory.is_none() && env.is_none() && stdin.is_none());
        let scope = if is_plain {
            AllowScope::SameCommand
        } else {
            AllowScope::SameCall
        };
        CallDescription {
            scope,
            ..CallDescription::default()
        }
    }

    fn normalize(arguments: &mut Map<String, Value>) {
        bash_keys::convert_arguments(arguments);
    }

    async fn run(self, cx: &ToolContext, deps: &ShellDeps) -> Result<ToolReply, ToolError> {
        let folder = deps
            .workspace
            .resolve_folder(self.working_directory.as_ref())?;
        self.run_in_folder(cx, deps, folder, None, Self::NAME).await
    }
}

impl Bash {
    /// Runs the command of a tool in a folder that the caller has checked, with these secrets.
    pub(super) async fn run_in_folder(
        self,
        cx: &ToolContext,
        deps: &ShellDeps,
        folder: PathBuf,
        mounted: Option<Arc<MountedSecrets>>,
        tool: &'static str,
    ) -> Result<ToolReply, ToolError> {
        let (limit, warning) = self.time_limit()?;
        let yield_after = self.yield_time()?;
        let budget = TextBudget::from_requested(self.max_chars);
        let output_chars = (budget.max_chars() as u64).saturating_sub(NOTE_CHARS);
        let tty = self.window_size()?;
        let purpose = self.description.as_deref().map(shorten_line);
        let about = ShellDescription {
            command: self.command.clone(),
            folder: folder.display().to_string(),
            purpose: purpose.filter(|line| !line.is_empty()),
            session_folders: cx.session_folders(),
        };
        let launch = CommandLaunch::Shell(self.command.clone());
        let create = CreateTerminal {
            env: self.env.unwrap_or_default().into_iter().collect(),
            stdin: self.stdin,
            tty,
            mounted,
            whole_network: self.network,
            tool,
            raw: self.raw,
            background: self.run_in_background || yield_after.is_some(),
            budget: TextBudget::from_requested(Some(output_chars)),
            conversation: Some(cx.conversation.clone()),
            folders: cx.session_folders(),
            ..CreateTerminal::new(&cx.request, launch, folder)
        };
        let reply = if self.run_in_background {
            let first_wait = yield_after.unwrap_or(FIRST_OUTPUT_WAIT);
            start_in_background(cx, deps, create, about, first_wait).await?
        } else if let Some(patience) = yield_after {
            match run_or_leave_running(&deps.terminals, cx, create, limit, patience).await? {
                WatchedCommand::Ended(run) => {
                    finish_foreground(cx, deps, *run, about, limit).await?
                }
                WatchedCommand::Running(guard) => {
                    leave_in_background(cx, deps, guard, about).await?
                }
            }
        } else {
            let run = run_to_end(&deps.terminals, cx, create, limit).await?;
            finish_foreground(cx, deps, run, about, limit).await?
        };
        let mut reply = add_port_holder(cx, deps, &self.command, reply)
            .await
            .with_budget(budget);
        reply.meta.warnings.extend(warning);
        Ok(reply)
    }

    fn time_limit(&self) -> Result<(Duration, Option<String>), ToolError> {
        let asked = self.timeout.unwrap_or(DEFAULT_TIMEOUT_MS);
        if asked == 0 {
            return Err(ToolError::invalid_args(
                "`timeout` must be 1 to 600000 (milliseconds). Nothing was run.",
            ));
        }
        let warning = (asked > MAX_TIMEOUT_MS).then(|| {
            format!(
                "The timeout was lowered from {asked} to {MAX_TIMEOUT_MS} ms, the most there is."
            )
        });
        Ok((Duration::from_millis(asked.min(MAX_TIMEOUT_MS)), warning))
    }

    fn yield_time(&self) -> Result<Option<Duration>, ToolError> {
        self.yield_ms
            .map(|asked| {
                check_range("yield_ms", asked, YIELD_RANGE, " (milliseconds)")
                    .map(Duration::from_millis)
            })
            .transpose()
    }

    /// Returns the terminal's window size, if the call asks for a terminal.
    fn window_size(&self) -> Result<Option<WindowSize>, ToolError> {
        if !self.tty {
            if self.cols.is_some() || self.rows.is_some() {
                let text = "`cols` and `rows` are a terminal's: give tty=true, or leave them out. Nothing was run.";
                return Err(ToolError::invalid_args(text));
            }
            return Ok(None);
        }
        if self.stdin.is_some() {
            let text = "`stdin` and tty=true exclude each other: a command with a terminal reads what is typed there. \
                        Leave one out; with run_in_background=true, WriteShell types. Nothing was run.";
            return Err(ToolError::invalid_args(text));
        }
        let usual = WindowSize::default();
        let side = |name, asked: Option<u64>, usual: u16, range| match asked {
            None => Ok(usual),
            Some(asked) => {
                check_range(name, asked, range, "").map(|side| u16::try_from(side).unwrap_or(usual))
            }
        };
        Ok(Some(WindowSize {
            cols: side("cols", self.cols, usual.cols, COLS)?,
            rows: side("rows", self.rows, usual.rows, ROWS)?,
        }))
    }
}

fn check_range(
    name: &str,
    asked: u64,
    range: std::ops::RangeInclusive<u64>,
    unit: &str,
) -> Result<u64, ToolError> {
    if range.contains(&asked) {
        return Ok(asked);
    }
    let (least, most) = range.into_inner();
    Err(ToolError::invalid_args(format!(
        "`{name}` must be {least} to {most}{unit}, not {asked}. Nothing was run."
    )))
}

/// Puts a text on one line and shortens it.
fn shorten_line(text: &str) -> String {
    let words = text
        .split(|c: char| c.is_control() || c.is_whitespace())
        .filter(|word| !word.is_empty());
    let line = words.collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(PURPOSE_CHARS) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}
