//! run_command: one command in a terminal, until its end or on a lasting terminal.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::TerminalDeps;
use punie_host::RawPath;
use punie_host::terminals::{
    CommandLaunch, CreateTerminal, RunEnding, TerminalGuard, build_run_report,
    end_change_with_command, list_processes, output_with_status, run_to_end,
};
use punie_text::output::TextBudget;
use punie_tool::{
    DeclaredAccess, RequestedCommand, ResultMeta, Tool, ToolContext, ToolEffect, ToolError,
    ToolReply,
};

const COMMAND_TIMEOUT: Duration = Duration::from_mins(2);
/// Characters of the budget reserved for notes beside the output.
const NOTE_CHARS: u64 = 700;
const TIMEOUT_ADVICE: &str = "The limit is 120 s; run long commands with background=true.";

/// Same as Bash, for 120 s at most. With `args` it runs a program without a shell. background=true gives the id of
/// a terminal.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RunCommand {
    /// A program with `args`, else a command line.
    command: String,
    /// The program's arguments.
    args: Option<Vec<String>>,
    /// A folder; the first workspace if absent.
    cwd: Option<RawPath>,
    /// Return a terminal's id at once.
    #[serde(default)]
    background: bool,
}

impl Tool for RunCommand {
    const NAME: &'static str = "run_command";
    const EFFECT: ToolEffect = ToolEffect::Executes;
    const SAME_AS: Option<&'static str> = Some("Bash");
    const ALIASES: &'static [(&'static str, &'static str)] = &[("program", "command")];
    const EXAMPLES: &'static [&'static str] = &[
        r#"{"command":"ls -la"}"#,
        r#"{"command":"grep","args":["-n","two words","notes.txt"]}"#,
        r#"{"command":"npm run dev","background":true}"#,
    ];
    const LIMITS: &'static [&'static str] = &[
        "120,000 ms; none with background=true",
        "131,071 bytes a command line or argument",
        "30,000 characters an answer; all of it, up to 256 MB, through ReadOutput",
        "100 terminals at once",
    ];
    type Deps = TerminalDeps;
    type Output = ToolReply;

    fn access(&self) -> DeclaredAccess {
        let text = match &self.args {
            Some(args) => RequestedCommand::Program(self.command.clone(), args.clone()),
            None => RequestedCommand::Line(self.command.clone()),
        };
        DeclaredAccess::running_command(text, self.cwd.as_ref().map(RawPath::as_str))
    }

    async fn run(self, cx: &ToolContext, deps: &TerminalDeps) -> Result<ToolReply, ToolError> {
        let folder = deps.workspace.resolve_folder(self.cwd.as_ref())?;
        let launch = match self.args {
            Some(args) => CommandLaunch::Program {
                command: self.command,
                args,
            },
            None => CommandLaunch::Shell(self.command),
        };
        let output_chars = TextBudget::DEFAULT_CHARS as u64 - NOTE_CHARS;
        let create = CreateTerminal {
            budget: TextBudget::from_requested(Some(output_chars)),
            outlives_call: self.background,
            tool: Self::NAME,
            conversation: Some(cx.conversation.clone()),
            folders: cx.session_folders(),
            ..CreateTerminal::new(&cx.request, launch, folder)
        };
        if self.background {
            return start_lasting(cx, deps, create).await;
        }
        let run = run_to_end(&deps.terminals, cx, create, COMMAND_TIMEOUT).await?;
        let concluded = build_run_report(&run, TIMEOUT_ADVICE);
        let left = match &run.ending {
            RunEnding::Finished(exit) if !exit.left.is_empty() => Some(format!(
                "Ended with the command: {}.",
                list_processes(&exit.left)
            )),
            _ => None,
        };
        run.guard.release_guarded().await;
        let (text, meta) = concluded?;
        let text = output_with_status(&text, left.as_deref());
        Ok(ToolReply::from_fitted_text(text).with_meta(meta))
    }
}

/// Starts a command on a lasting terminal of the conversation.
async fn start_lasting(
    cx: &ToolContext,
    deps: &TerminalDeps,
    create: CreateTerminal,
) -> Result<ToolReply, ToolError> {
    if cx.is_cancelled() {
        return Err(ToolError::call_cancelled("The command was not started."));
    }
    deps.board.evict_finished(deps.terminals.as_ref()).await?;
    let guard = TerminalGuard::create_guarded(&deps.terminals, create).await?;
    end_change_with_command(cx, &deps.terminals, guard.id());
    let lasting = deps.board.add(cx, guard.into_open());
    let pid = lasting
        .pid
        .map(|pid| format!(" (pid {pid})"))
        .unwrap_or_default();
    let mut meta = ResultMeta::default();
    if !cx.conversation.is_named() {
        let text = "This call is a conversation of its own, so calls of other conversations cannot reach the terminal: \
                    send them with one conversation, or use Bash with run_in_background=true.";
        meta.warnings.push(text.to_owned());
    }
    let text = format!(
        "Terminal {}{pid} running\n[get_terminal_output shows what it prints, wait_for_terminal_exit waits for its end, \
         kill_terminal ends it, release_terminal ends and forgets it]",
        lasting.name
    );
    Ok(ToolReply::from_text(text).with_meta(meta))
}
