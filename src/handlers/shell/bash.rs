//! Bash: one command line, waited for or sent to the background. Not here: what runs in the background afterwards.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::ShellDeps;
use super::board::Newcomer;
use super::ports::{holder_words, listening_words};
use crate::acp::RawPath;
use crate::acp::terminals::{
    CreateTerminal, Ending, Launch, OutputQuery, Run, TerminalGuard, conclude, facts, held_back_words, list,
    output_with_status, run_to_end, status_line,
};
use crate::output::Budget;
use crate::tool::{Body, Effect, Reply, Tool, ToolCx, ToolError};

const DEFAULT_LIMIT: u64 = 120_000;
const LONGEST_LIMIT: u64 = 600_000;
/// How long a command sent to the background is watched first.
const FIRST_LOOK: Duration = Duration::from_secs(1);
/// Characters of the budget that are kept free for what is said beside the output.
const WORDS: u64 = 700;
const ADVICE: &str =
    "Run long commands with run_in_background=true, or give a larger timeout (at most 600000 ms).";

/// Run a command line with bash and return what it prints: output and errors together, in the order they came.
///
/// Use it for builds, tests, package managers, version control and everything without a tool of its own. To read,
/// write, edit, find or search files use Read, Write, Edit, Glob and Grep instead: they are faster and say more.
///
/// Every call starts a new shell in the workspace (or in working_directory): `cd`, variables and aliases of an
/// earlier call are gone. Nobody can answer questions: input is empty unless `stdin` is given, and there is no
/// terminal, so pass flags such as --yes. A failing command is not an error of the tool: the last line names its
/// exit code. Long output is cut in the middle; ReadOutput shows the rest. Servers and watchers, and whatever takes
/// longer than the timeout, belong in the background: run_in_background=true, then ShellStatus and KillShell.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct Bash {
    /// The command line. Join steps with && so that the first failure ends it.
    command: String,
    /// Milliseconds after which the command and every process it started are stopped: 120000 if absent, at most
    /// 600000. What was printed until then is returned. Does not apply in the background.
    timeout: Option<u64>,
    /// Where it runs: a folder, absolute or relative to the first workspace folder, which it is if absent.
    working_directory: Option<RawPath>,
    /// Return after a second at most and leave the command running.
    #[serde(default)]
    run_in_background: bool,
    /// What the command is for, in five to ten words.
    description: Option<String>,
    /// Variables for this command, by name. Names that change how programs are loaded and
    /// names of secrets (passwords, tokens, keys) are refused.
    env: Option<BTreeMap<String, String>>,
    /// What the command reads. Use it, or a file, for data too large for a command line (128 KiB).
    stdin: Option<String>,
    /// Keep colours, other escape sequences and progress lines.
    #[serde(default)]
    raw: bool,
    /// How many characters the answer may have: 1000 to 200000, 30000 if absent.
    max_chars: Option<u64>,
}

impl Tool for Bash {
    const NAME: &'static str = "Bash";
    const EFFECT: Effect = Effect::Executes;
    const ALIASES: &'static [(&'static str, &'static str)] = &[
        ("cmd", "command"),
        ("script", "command"),
        ("cwd", "working_directory"),
        ("workdir", "working_directory"),
        ("directory", "working_directory"),
        ("timeout_ms", "timeout"),
        ("background", "run_in_background"),
        ("environment", "env"),
        ("input", "stdin"),
        ("max_output_chars", "max_chars"),
    ];
    const EXAMPLES: &'static [&'static str] = &[
        r#"{"command":"cargo test --workspace","timeout":300000,"description":"Run all tests"}"#,
        r#"{"command":"npm run dev","working_directory":"web","run_in_background":true}"#,
    ];
    type Deps = ShellDeps;
    type Output = Reply;

    async fn run(self, cx: &ToolCx, deps: &ShellDeps) -> Result<Reply, ToolError> {
        let (limit, warning) = self.limit()?;
        let folder = match &self.working_directory {
            Some(raw) => deps.workspace.resolve(raw)?.absolute().to_owned(),
            None => deps.workspace.first().to_owned(),
        };
        let shown_folder = folder.display().to_string();
        let mut create = CreateTerminal::new(&cx.request, Launch::Shell(self.command.clone()), folder);
        create.env = self.env.unwrap_or_default().into_iter().collect();
        create.stdin = self.stdin;
        create.raw = self.raw;
        create.background = self.run_in_background;
        let budget = Budget::chars(self.max_chars);
        create.budget = Budget::chars(Some((budget.max_chars() as u64).saturating_sub(WORDS)));
        let command = self.command.clone();
        let about = About { command: self.command, folder: shown_folder, purpose: self.description };
        let reply = if self.run_in_background {
            in_background(cx, deps, create, about).await?
        } else {
            let run = run_to_end(&deps.terminals, cx, create, limit).await?;
            in_foreground(deps, run, about).await?
        };
        let mut reply = with_holder(deps, &command, reply).await.with_budget(budget);
        reply.meta.warnings.extend(warning);
        Ok(reply)
    }
}

impl Bash {
    fn limit(&self) -> Result<(Duration, Option<String>), ToolError> {
        let asked = self.timeout.unwrap_or(DEFAULT_LIMIT);
        if asked == 0 {
            return Err(ToolError::invalid_args("Bash: `timeout` must be 1 to 600000 (milliseconds)."));
        }
        let warning = (asked > LONGEST_LIMIT).then(|| {
            format!("The timeout was lowered from {asked} to {LONGEST_LIMIT} ms, the most there is.")
        });
        Ok((Duration::from_millis(asked.min(LONGEST_LIMIT)), warning))
    }
}

/// What is said of a command in the list of shells.
struct About {
    command: String,
    folder: String,
    purpose: Option<String>,
}

impl About {
    fn shell(self, guard: TerminalGuard) -> Newcomer {
        let Self { command, folder, purpose } = self;
        Newcomer { terminal: guard.keep(), command, folder, purpose }
    }
}

/// The answer to a command that is over. What it left running becomes a shell.
async fn in_foreground(deps: &ShellDeps, run: Run, about: About) -> Result<Reply, ToolError> {
    let concluded = conclude(&run, ADVICE);
    let (text, meta) = match concluded {
        Ok(answer) => answer,
        Err(stopped) => {
            run.guard.release().await;
            return Err(stopped);
        }
    };
    let exit = match &run.ending {
        Ending::Finished(exit) if exit.output_open || !exit.left.is_empty() => exit,
        _ => {
            run.guard.release().await;
            return Ok(Reply::fitted(text).with_meta(meta));
        }
    };
    let who = if exit.left.is_empty() { "something it started".to_owned() } else { list(&exit.left) };
    let open = if exit.output_open {
        " It holds the output open; what it prints from now on is not above."
    } else {
        ""
    };
    let shell = deps.shells.admit(deps.terminals.as_ref(), about.shell(run.guard)).await;
    deps.shells.tidy(&deps.terminals).await;
    let left = format!(
        "Still running: {who}.{open} Kept as shell {}: ShellStatus follows it, KillShell ends it.",
        shell.id
    );
    Ok(Reply::fitted(output_with_status(&text, Some(&left))).with_meta(meta))
}

/// The answer, with the shell that holds the port that a failed command wanted.
async fn with_holder(deps: &ShellDeps, command: &str, mut reply: Reply) -> Reply {
    let failed = reply.meta.exit_code.is_some_and(|code| code != 0);
    if let (true, Body::Text(text) | Body::Fitted(text)) = (failed, &mut reply.body)
        && let Some(holder) = holder_words(deps, command, text).await
    {
        *text = output_with_status(text, Some(&holder));
    }
    reply
}

/// Starts a command that goes on by itself, and looks at its beginning.
async fn in_background(
    cx: &ToolCx,
    deps: &ShellDeps,
    create: CreateTerminal,
    about: About,
) -> Result<Reply, ToolError> {
    let client = &deps.terminals;
    let twin = deps.shells.twin(client.as_ref(), &about.command, &about.folder).await;
    let guard = TerminalGuard::create(client, create).await?;
    tokio::select! {
        biased;
        // The guard stops it.
        () = cx.cancelled() => return Err(ToolError::cancelled("The command had just been started; it is being stopped.")),
        _ = tokio::time::timeout(FIRST_LOOK, client.wait_for_terminal_exit(guard.id())) => {}
    }
    let output = client.terminal_output(OutputQuery::all(guard.id())).await?;
    let shell = deps.shells.admit(client.as_ref(), about.shell(guard)).await;
    deps.shells.tidy(client).await;
    let first = match &output.exit {
        None => {
            let ports = listening_words(client.as_ref(), &shell).await;
            format!("Shell {} running{ports}", shell.shown())
        }
        Some(_) => format!("Shell {} has ended already", shell.shown()),
    };
    let first = match twin {
        None => first,
        Some(twin) => format!(
            "{first}\nThe same command was running in this folder already, as shell {}; KillShell ends the one not \
             wanted.",
            twin.shown()
        ),
    };
    let status = output
        .exit
        .as_ref()
        .and_then(|exit| status_line(&exit.status, output.elapsed, !output.text.trim().is_empty()));
    let printed = output_with_status(&output.text, held_back_words(&output).as_deref());
    let rest = output_with_status(&printed, status.as_deref());
    let mut meta = facts(&output);
    meta.handle = output.handle.as_ref().map(|handle| handle.as_str().to_owned());
    let text = if rest.is_empty() { first } else { format!("{first}\n{rest}") };
    Ok(Reply::fitted(text).with_meta(meta))
}
