//! get_terminal_output: the output and state of a lasting terminal. Not here: waiting for more output.

use schemars::JsonSchema;
use serde::Deserialize;

use super::TerminalDeps;
use super::board::{is_alive, look};
use crate::acp::terminals::{
    ExitStatus, TerminalOutput, facts, list, output_with_status, seconds, status_line, unshown_words,
};
use crate::tool::{Access, Effect, Lane, Reply, Tool, ToolCx, ToolError};

/// Same as ShellStatus, for a terminal of run_command. It never waits.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GetTerminalOutput {
    /// Such as term-0.
    terminal_id: String,
}

impl Tool for GetTerminalOutput {
    const NAME: &'static str = "get_terminal_output";
    const EFFECT: Effect = Effect::Reads;
    const SAME_AS: Option<&'static str> = Some("ShellStatus");
    const LANE: Lane = Lane::Control;
    const ALIASES: &'static [(&'static str, &'static str)] = super::ALIASES;
    const EXAMPLES: &'static [&'static str] = &[r#"{"terminal_id":"term-0"}"#, r#"{"terminalId":"term-12"}"#];
    const LIMITS: &'static [&'static str] =
        &["30,000 characters; all of it, up to 256 MB, through ReadOutput"];
    type Deps = TerminalDeps;
    type Output = Reply;

    fn access(&self) -> Access {
        Access::nothing()
    }

    async fn run(self, cx: &ToolCx, deps: &TerminalDeps) -> Result<Reply, ToolError> {
        let lasting = deps.board.find(&cx.conversation, &self.terminal_id)?;
        let output = look(deps.terminals.as_ref(), &lasting, None).await?;
        let printed = output_with_status(&output.text, unshown_words(&output).as_deref());
        let state = output_with_status(&state_words(&output), output.hint.as_deref());
        let text = output_with_status(&printed, Some(&state));
        let mut meta = facts(&output);
        meta.handle = output.handle.as_ref().map(|handle| handle.as_str().to_owned());
        Ok(Reply::fitted(text).with_meta(meta))
    }
}

fn state_words(output: &TerminalOutput) -> String {
    let took = seconds(output.elapsed);
    let printed = !output.text.trim().is_empty();
    let Some(exit) = &output.exit else {
        let nothing = if printed { "" } else { ", nothing was printed yet" };
        return format!("[running for {took}{nothing}]");
    };
    let ended = match &exit.status {
        ExitStatus::Code(0) if printed => format!("[exited with code 0 after {took}]"),
        status => status_line(status, output.elapsed, printed).unwrap_or_default(),
    };
    if is_alive(output) && !output.left.is_empty() {
        return format!("{ended}\nStill running: {}.", list(&output.left));
    }
    ended
}
