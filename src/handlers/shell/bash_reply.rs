//! The answers of Bash for a command that ended, goes on in the background, or was started there.

use std::fmt::Write as _;
use std::time::Duration;

use super::ShellDeps;
use super::background_shell::BackgroundShell;
use super::listening_ports::{find_port_holder, format_listening};
use super::shell_list::ShellDescription;
use punie_host::terminals::{
    CommandRun, CreateTerminal, OutputQuery, RunEnding, StopSequence, TerminalGuard, TerminalId,
    TerminalOutput, build_run_report, end_change_with_command, format_seconds, list_processes,
    output_meta_with_handle, output_with_status, pending_state_note, status_line,
};
use punie_tool::time_limit::run_within_limit;
use punie_tool::{ReplyBody, ToolContext, ToolError, ToolReply};

const TIMEOUT_ADVICE: &str = "Run long commands with run_in_background=true or yield_ms, or give a larger timeout (at most \
                      600000 ms).";
const SHORT_TIMEOUT_ADVICE: &str = "The timeout is in milliseconds: give a larger one (at most 600000), or run long commands \
                            with run_in_background=true or yield_ms.";

/// Answers for a command that has ended. Processes that it left running become a background shell.
pub(super) async fn finish_foreground(
    cx: &ToolContext,
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
    let terminal = run.guard.id().clone();
    let elapsed = run.output.elapsed;
    if exit.at_process_limit && end_left(deps, &terminal).await {
        run.guard.release_guarded().await;
        let left = format!("Ended because of that limit: {who}.");
        return Ok(
            ToolReply::from_fitted_text(output_with_status(&text, Some(&left))).with_meta(meta),
        );
    }
    end_left_later(deps, terminal, limit.saturating_sub(elapsed));
    let shell = add_to_list(cx, deps, run.guard, about).await;
    let left = format!(
        "Still running: {who}.{open} Kept as shell {}: ShellStatus follows it, KillShell ends it.",
        shell.id
    );
    Ok(ToolReply::from_fitted_text(output_with_status(&text, Some(&left))).with_meta(meta))
}

/// Ends what a command left running. Returns whether all of it has ended.
async fn end_left(deps: &ShellDeps, terminal: &TerminalId) -> bool {
    let ending = deps
        .terminals
        .kill_terminal(terminal, StopSequence::kill_at_once());
    ending
        .await
        .is_ok_and(|stopped| stopped.survivors.is_empty())
}

/// Ends what a command left running if it is at the limit of processes when the time of the call is over.
fn end_left_later(deps: &ShellDeps, terminal: TerminalId, time_left: Duration) {
    let deps = deps.clone();
    let ending = async move {
        tokio::time::sleep(time_left).await;
        // A terminal that is gone has ended its command.
        let query = OutputQuery::state_only(&terminal);
        let state = deps.terminals.terminal_output(query).await;
        let exit = state.ok().and_then(|output| output.exit);
        if exit.is_some_and(|exit| exit.at_process_limit) {
            tracing::warn!(%terminal, "what a command left is at the limit of processes, and is ended");
            end_left(&deps, &terminal).await;
        }
    };
    #[expect(
        clippy::disallowed_methods,
        reason = "the call has ended; if the runner ends first, it ends the command"
    )]
    tokio::spawn(ending);
}

/// Answers for a command that runs longer than `yield_ms` and turns it into a background shell. It has no time limit
/// then, because a caller that sets `yield_ms` does not want it killed.
pub(super) async fn leave_in_background(
    cx: &ToolContext,
    deps: &ShellDeps,
    guard: TerminalGuard,
    about: ShellDescription,
) -> Result<ToolReply, ToolError> {
    let output = deps
        .terminals
        .terminal_output(OutputQuery::whole(guard.id()))
        .await?;
    let shell = add_to_list(cx, deps, guard, about).await;
    // If it ended just now, the next query reports that.
    let status = format!(
        "Still running after {}, now as shell {} in the background, without a time limit.",
        format_seconds(output.elapsed),
        shell.name_with_pid()
    );
    let status = format!("{status}\n{}", continuation_hint(&output));
    let text = printed_with_status(&output, Some(&status));
    Ok(ToolReply::from_fitted_text(text).with_meta(output_meta_with_handle(&output)))
}

/// Adds the shell that holds the port that a failed command wanted.
pub(super) async fn add_port_holder(
    cx: &ToolContext,
    deps: &ShellDeps,
    command: &str,
    mut reply: ToolReply,
) -> ToolReply {
    let failed = reply.meta.exit_code.is_some_and(|code| code != 0);
    if let (true, ReplyBody::Text(text) | ReplyBody::Fitted(text)) = (failed, &mut reply.body)
        && let Some(holder) = find_port_holder(cx, deps, command, text).await
    {
        *text = output_with_status(text, Some(&holder));
    }
    reply
}

/// Starts a background command and returns its first output.
pub(super) async fn start_in_background(
    cx: &ToolContext,
    deps: &ShellDeps,
    create: CreateTerminal,
    about: ShellDescription,
    first_wait: Duration,
) -> Result<ToolReply, ToolError> {
    let client = &deps.terminals;
    let duplicate = deps
        .shells
        .find_running_duplicate(cx, client.as_ref(), &about.command, &about.folder)
        .await;
    let guard = TerminalGuard::create_guarded(client, create).await?;
    tokio::select! {
        biased;
        // The guard stops it.
        () = cx.wait_for_cancel() => return Err(ToolError::call_cancelled("The command had just been started; it is being stopped.")),
        _ = run_within_limit(first_wait, client.wait_for_terminal_exit(guard.id())) => {}
    }
    let output = client
        .terminal_output(OutputQuery::whole(guard.id()))
        .await?;
    let shell = add_to_list(cx, deps, guard, about).await;
    let name = shell.name_with_pid();
    let (mut text, status) = match &output.exit {
        None => (
            format!(
                "Shell {name} running{}",
                format_listening(client.as_ref(), &shell).await
            ),
            Some(continuation_hint(&output)),
        ),
        Some(exit) => (
            format!("Shell {name} has ended already"),
            status_line(&exit.status, output.elapsed, &output.text),
        ),
    };
    if let Some(duplicate) = duplicate {
        let _ = write!(
            text,
            "\nThe same command was running in this folder already, as shell {}; KillShell ends the one not wanted.",
            duplicate.name_with_pid()
        );
    }
    let printed = printed_with_status(&output, status.as_deref());
    if !printed.is_empty() {
        text.extend(["\n", &printed]);
    }
    Ok(ToolReply::from_fitted_text(text).with_meta(output_meta_with_handle(&output)))
}

async fn add_to_list(
    cx: &ToolContext,
    deps: &ShellDeps,
    guard: TerminalGuard,
    about: ShellDescription,
) -> BackgroundShell {
    end_change_with_command(cx, &deps.terminals, guard.id());
    let client = deps.terminals.as_ref();
    let terminal = guard.into_open();
    deps.shells.add(client, terminal, about).await
}

/// Formats the output with the note about its state, then the status of the command.
fn printed_with_status(output: &TerminalOutput, status: Option<&str>) -> String {
    let printed = output_with_status(&output.text, pending_state_note(output).as_deref());
    output_with_status(&printed, status)
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
