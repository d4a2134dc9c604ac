//! run_command: one command on the client's terminal, from start to end. Not here: anything that goes on afterwards.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Deserialize;

use super::TerminalDeps;
use crate::acp::RawPath;
use crate::acp::terminals::{CreateTerminal, Ending, Launch, conclude, list, output_with_status, run_to_end};
use crate::output::Budget;
use crate::tool::{Effect, Reply, Tool, ToolCx, ToolError};

const LIMIT: Duration = Duration::from_mins(2);
/// Characters of the budget that are kept free for what is said beside the output.
const WORDS: u64 = 700;
const ADVICE: &str = "The limit is 120 s; run long commands with Bash and run_in_background=true.";

/// Run a command in the workspace and return what it prints.
///
/// With `args` the command is a program and gets them exactly as they are, without a shell between: use this when an
/// argument holds blanks, quotes or other special characters. Without `args` it is a command line for bash. It must
/// end within 120 s, reads nothing, and what it leaves running is ended with it; for everything else use Bash.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct RunCommand {
    /// A program when `args` is given, else a command line.
    command: String,
    /// The program's arguments; an empty list runs the program without any.
    args: Option<Vec<String>>,
    /// Where it runs: a folder, absolute or relative to the first workspace folder, which it is if absent.
    cwd: Option<RawPath>,
}

impl Tool for RunCommand {
    const NAME: &'static str = "run_command";
    const EFFECT: Effect = Effect::Executes;
    const ALIASES: &'static [(&'static str, &'static str)] = &[
        ("cmd", "command"),
        ("program", "command"),
        ("arguments", "args"),
        ("working_directory", "cwd"),
        ("workdir", "cwd"),
    ];
    const EXAMPLES: &'static [&'static str] =
        &[r#"{"command":"ls -la"}"#, r#"{"command":"grep","args":["-n","two words","notes.txt"]}"#];
    type Deps = TerminalDeps;
    type Output = Reply;

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
