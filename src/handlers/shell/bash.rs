//! Bash: one command line, in the foreground or started in the background. Not here: background shells after their
//! start.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::ShellDeps;
use super::bash_keys;
use super::listening_ports::{find_port_holder, format_listening};
use super::shell_list::ShellStart;
use crate::acp::RawPath;
use crate::acp::terminals::{
    CommandLaunch, CommandRun, CreateTerminal, OutputQuery, RunEnding, TerminalGuard,
    TerminalOutput, WatchedCommand, WindowSize, build_run_report, format_seconds, list_processes,
    output_with_status, pending_state_note, run_or_leave_running, run_to_end, status_line,
    terminal_output_meta,
};
use crate::home::MountedSecrets;
use crate::output::TextBudget;
use crate::tool::{
    AllowScope, CallDescription, DeclaredAccess, ReplyBody, RequestedCommand, ResultMeta, Tool,
    ToolContext, ToolEffect, ToolError, ToolReply,
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
const TIMEOUT_ADVICE: &str = "Run long commands with run_in_background=true or yield_ms, or give a larger timeout (at most \
                      600000 ms).";
const SHORT_TIMEOUT_ADVICE: &str = "The timeout is in milliseconds: give a larger one (at most 600000), or run long commands \
                            with run_in_background=true or yield_ms.";

/// Run a command line with bash; gives output and errors in order, then the exit code.
///
/// For files use Read, Edit, Glob and Grep: they are faster and say more. Each call is a new shell: `cd` and
/// variables do not last. Nobody answers prompts and there is no terminal: pass flags such as --yes. A non-zero
/// exit is not a tool error. For servers, watchers and long commands use run_in_background or yield_ms, then
/// ShellStatus and KillShell.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
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
    /// Milliseconds (250 to 60000), then it goes on in the background.
    yield_ms: Option<u64>,
    /// Its purpose, in five to ten words.
    description: Option<String>,
    /// Variables, but for loaders' and secrets.
    env: Option<BTreeMap<String, String>>,
    /// What it reads.
    stdin: Option<String>,
    /// Run it in a terminal that WriteShell can type into; drawn output is shown as a screen.
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
        let is_plain = !(self.run_in_background || self.tty || self.raw)
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
        bash_keys::convert_token_limit(arguments);
    }

    async fn run(self, cx: &ToolContext, deps: &ShellDeps) -> Result<ToolReply, ToolError> {
        let folder = match &self.working_directory {
            Some(raw) => deps
                .workspace
                .resolve_in_workspace(raw)?
                .absolute_path()
                .to_owned(),
            None => deps.workspace.first_root().to_owned(),
        };
        self.run_in_folder(cx, deps, folder, None).await
    }
}

impl Bash {
    /// Runs the command in a folder that the caller has checked, with these secrets.
    pub(super) async fn run_in_folder(
        self,
        cx: &ToolContext,
        deps: &ShellDeps,
        folder: PathBuf,
        mounted: Option<Arc<MountedSecrets>>,
    ) -> Result<ToolReply, ToolError> {
        let (limit, warning) = self.time_limit()?;
        let (patience, tty) = (self.yield_time()?, self.window_size()?);
        let shown_folder = folder.display().to_string();
        let mut create = CreateTerminal::new(
            &cx.request,
            CommandLaunch::Shell(self.command.clone()),
            folder,
        );
        create.env = self.env.unwrap_or_default().into_iter().collect();
        create.stdin = self.stdin;
        create.tty = tty;
        create.mounted = mounted;
        create.raw = self.raw;
        create.background = self.run_in_background || patience.is_some();
        let budget = TextBudget::from_requested(self.max_chars);
        create.budget = TextBudget::from_requested(Some(
            (budget.max_chars() as u64).saturating_sub(NOTE_CHARS),
        ));
        let purpose = self
            .description
            .as_deref()
            .map(shorten_line)
            .filter(|line| !line.is_empty());
        let command = self.command.clone();
        let about = ShellDescription {
            command: self.command,
            folder: shown_folder,
            purpose,
        };
        let reply = if self.run_in_background {
            start_in_background(
                cx,
                deps,
                create,
                about,
                patience.unwrap_or(FIRST_OUTPUT_WAIT),
            )
            .await?
        } else if let Some(patience) = patience {
            match run_or_leave_running(&deps.terminals, cx, create, limit, patience).await? {
                WatchedCommand::Ended(run) => finish_foreground(deps, *run, about, limit).await?,
                WatchedCommand::Running(guard) => leave_in_background(deps, guard, about).await?,
            }
        } else {
            let run = run_to_end(&deps.terminals, cx, create, limit).await?;
            finish_foreground(deps, run, about, limit).await?
        };
        let mut reply = add_port_holder(deps, &command, reply)
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

/// The description of a command in the list of shells.
struct ShellDescription {
    command: String,
    folder: String,
    purpose: Option<String>,
}

impl ShellDescription {
    fn into_shell_start(self, guard: TerminalGuard) -> ShellStart {
        let Self {
            command,
            folder,
            purpose,
        } = self;
        ShellStart {
            terminal: guard.into_open_terminal(),
            command,
            folder,
            purpose,
        }
    }
}

/// Answers for a command that has ended. Processes that it left running become a background shell.
async fn finish_foreground(
    deps: &ShellDeps,
    run: CommandRun,
    about: ShellDescription,
    limit: Duration,
) -> Result<ToolReply, ToolError> {
    let advice = if limit < Duration::from_secs(1) {
        SHORT_TIMEOUT_ADVICE
    } else {
        TIMEOUT_ADVICE
    };
    let (text, meta) = match build_run_report(&run, advice) {
        Ok(answer) => answer,
        Err(stopped) => {
            run.guard.release_guarded().await;
            return Err(stopped);
        }
    };
    let exit = match &run.ending {
        RunEnding::Finished(exit) if exit.output_open || !exit.left.is_empty() => exit,
        _ => {
            run.guard.release_guarded().await;
            return Ok(ToolReply::from_fitted_text(text).with_meta(meta));
        }
    };
    let who = if exit.left.is_empty() {
        "something it started".to_owned()
    } else {
        list_processes(&exit.left)
    };
    let open = if exit.output_open {
        " It holds the output open; what it prints from now on is not above."
    } else {
        ""
    };
    let shell = deps
        .shells
        .add_shell(deps.terminals.as_ref(), about.into_shell_start(run.guard))
        .await;
    deps.shells.forget_oldest(&deps.terminals).await;
    let left = format!(
        "Still running: {who}.{open} Kept as shell {}: ShellStatus follows it, KillShell ends it.",
        shell.id
    );
    Ok(ToolReply::from_fitted_text(output_with_status(&text, Some(&left))).with_meta(meta))
}

/// Answers for a command that runs longer than `yield_ms` and turns it into a background shell. It has no time limit
/// then, because a caller that sets `yield_ms` does not want it killed.
async fn leave_in_background(
    deps: &ShellDeps,
    guard: TerminalGuard,
    about: ShellDescription,
) -> Result<ToolReply, ToolError> {
    let output = deps
        .terminals
        .terminal_output(OutputQuery::whole_output(guard.terminal_id()))
        .await?;
    let shell = deps
        .shells
        .add_shell(deps.terminals.as_ref(), about.into_shell_start(guard))
        .await;
    deps.shells.forget_oldest(&deps.terminals).await;
    // If it ended just now, the next query reports that.
    let status = format!(
        "Still running after {}, now as shell {} in the background, without a time limit.",
        format_seconds(output.elapsed),
        shell.name_with_pid()
    );
    let printed = output_with_status(&output.text, pending_state_note(&output).as_deref());
    let text = output_with_status(
        &printed,
        Some(&format!("{status}\n{}", continuation_hint(&output))),
    );
    Ok(ToolReply::from_fitted_text(text).with_meta(output_meta(&output)))
}

/// Adds the shell that holds the port that a failed command wanted.
async fn add_port_holder(deps: &ShellDeps, command: &str, mut reply: ToolReply) -> ToolReply {
    let failed = reply.meta.exit_code.is_some_and(|code| code != 0);
    if let (true, ReplyBody::Text(text) | ReplyBody::Fitted(text)) = (failed, &mut reply.body)
        && let Some(holder) = find_port_holder(deps, command, text).await
    {
        *text = output_with_status(text, Some(&holder));
    }
    reply
}

/// Starts a background command and returns its first output.
async fn start_in_background(
    cx: &ToolContext,
    deps: &ShellDeps,
    create: CreateTerminal,
    about: ShellDescription,
    look: Duration,
) -> Result<ToolReply, ToolError> {
    let client = &deps.terminals;
    let twin = deps
        .shells
        .find_running_duplicate(client.as_ref(), &about.command, &about.folder)
        .await;
    let guard = TerminalGuard::create_guarded(client, create).await?;
    tokio::select! {
        biased;
        // The guard stops it.
        () = cx.wait_for_cancel() => return Err(ToolError::call_cancelled("The command had just been started; it is being stopped.")),
        _ = tokio::time::timeout(look, client.wait_for_terminal_exit(guard.terminal_id())) => {}
    }
    let output = client
        .terminal_output(OutputQuery::whole_output(guard.terminal_id()))
        .await?;
    let shell = deps
        .shells
        .add_shell(client.as_ref(), about.into_shell_start(guard))
        .await;
    deps.shells.forget_oldest(client).await;
    let first = match &output.exit {
        None => {
            let ports = format_listening(client.as_ref(), &shell).await;
            format!("Shell {} running{ports}", shell.name_with_pid())
        }
        Some(_) => format!("Shell {} has ended already", shell.name_with_pid()),
    };
    let first = match twin {
        None => first,
        Some(twin) => format!(
            "{first}\nThe same command was running in this folder already, as shell {}; KillShell ends the one not \
             wanted.",
            twin.name_with_pid()
        ),
    };
    let status = match &output.exit {
        Some(exit) => status_line(&exit.status, output.elapsed, !output.text.trim().is_empty()),
        None => Some(continuation_hint(&output)),
    };
    let printed = output_with_status(&output.text, pending_state_note(&output).as_deref());
    let rest = output_with_status(&printed, status.as_deref());
    let text = if rest.is_empty() {
        first
    } else {
        format!("{first}\n{rest}")
    };
    Ok(ToolReply::from_fitted_text(text).with_meta(output_meta(&output)))
}

/// Says how to follow a running shell.
fn continuation_hint(output: &TerminalOutput) -> String {
    let typing = if output.tty {
        "; WriteShell types into it"
    } else {
        ""
    };
    format!(
        "[ShellStatus since={} shows what comes next{typing}; KillShell ends it]",
        output.cursor
    )
}

fn output_meta(output: &TerminalOutput) -> ResultMeta {
    let mut meta = terminal_output_meta(output);
    meta.handle = output
        .handle
        .as_ref()
        .map(|handle| handle.as_str().to_owned());
    meta
}
