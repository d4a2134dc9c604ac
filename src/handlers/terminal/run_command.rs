//! run_command: one command in a terminal, until its end or on a lasting terminal. Not here: operations on lasting
//! terminals.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::TerminalDeps;
use crate::acp::RawPath;
use crate::acp::terminals::{
    CreateTerminal, Ending, Launch, TerminalGuard, conclude, list, output_with_status, run_to_end,
};
use crate::ids::ConversationId;
use crate::output::Budget;
use crate::tool::{Access, CommandText, Effect, Meta, Reply, Tool, ToolCx, ToolError};

const LIMIT: Duration = Duration::from_mins(2);
/// Characters of the budget reserved for notes beside the output.
const WORDS: u64 = 700;
const ADVICE: &str = "The limit is 120 s; run long commands with background=true.";

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
    const EFFECT: Effect = Effect::Executes;
    const SAME_AS: Option<&'static str> = Some("Bash");
    const ALIASES: &'static [(&'static str, &'static str)] = &[
        ("cmd", "command"),
        ("program", "command"),
        ("arguments", "args"),
        ("working_directory", "cwd"),
        ("workdir", "cwd"),
        ("run_in_background", "background"),
    ];
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
    type Output = Reply;

    fn access(&self) -> Access {
        let text = match &self.args {
            Some(args) => CommandText::Program(self.command.clone(), args.clone()),
            None => CommandText::Line(self.command.clone()),
        };
        Access::command(text, self.cwd.as_ref().map(RawPath::as_str))
    }

    async fn run(self, cx: &ToolCx, deps: &TerminalDeps) -> Result<Reply, ToolError> {
        let folder = match &self.cwd {
            Some(raw) => deps.workspace.resolve(raw)?.absolute().to_owned(),
            None => deps.workspace.first().to_owned(),
        };
        let launch = match self.args {
            Some(args) => Launch::Program { command: self.command, args },
            None => Launch::Shell(self.command),
        };
        let mut create = CreateTerminal::new(&cx.request, launch, folder);
        create.budget = Budget::chars(Some(Budget::DEFAULT as u64 - WORDS));
        create.outlives_call = self.background;
        if self.background {
            return in_background(cx, deps, create).await;
        }
        let run = run_to_end(&deps.terminals, cx, create, LIMIT).await?;
        let concluded = conclude(&run, ADVICE);
        let left = match &run.ending {
            Ending::Finished(exit) if !exit.left.is_empty() => Some(list(&exit.left)),
            _ => None,
        };
        run.guard.release().await;
        let (mut text, meta) = concluded?;
        if let Some(left) = left {
            text = output_with_status(&text, Some(&format!("Ended with the command: {left}.")));
        }
        Ok(Reply::fitted(text).with_meta(meta))
    }
}

/// Starts a command on a lasting terminal of the conversation.
async fn in_background(cx: &ToolCx, deps: &TerminalDeps, create: CreateTerminal) -> Result<Reply, ToolError> {
    if cx.is_cancelled() {
        return Err(ToolError::cancelled("The command was not started."));
    }
    deps.board.make_room(deps.terminals.as_ref()).await?;
    let guard = TerminalGuard::create(&deps.terminals, create).await?;
    let lasting = deps.board.admit(&cx.conversation, guard.keep());
    let pid = lasting.pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default();
    let mut meta = Meta::default();
    if cx.conversation == ConversationId::from(&cx.request) {
        let text = "This call is a conversation of its own, so calls of other conversations cannot reach the terminal: \
                    send them with one conversation, or use Bash with run_in_background=true.";
        meta.warnings.push(text.to_owned());
    }
    let text = format!(
        "Terminal {}{pid} running\n[get_terminal_output shows what it prints, wait_for_terminal_exit waits for its end, \
         kill_terminal ends it, release_terminal ends and forgets it]",
        lasting.name
    );
    Ok(Reply::text(text).with_meta(meta))
}
