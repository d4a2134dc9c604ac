//! Reports the end of a command, as text and metadata that are the same for every tool that runs one.

use std::time::Duration;

use super::{
    CommandRun, ExitStatus, InputWait, ProcessName, RunEnding, SIGKILL_EXIT_CODE, StopReport,
    TerminalExit, TerminalOutput, signal_name,
};
use punie_sandbox::shell_messages::{program_not_found, says_not_executable};
use punie_text::output::number_format::format_count;
use punie_tool::{ErrorCode, ResultMeta, ToolError};

/// The most processes that a report names.
const MAX_NAMED_PROCESSES: usize = 3;

/// Reports a finished run. A command that ended by itself gives text and metadata, whatever its exit code. A stopped
/// one gives an error with all of its output. `advice` is added to a timeout.
///
/// # Errors
/// `timeout` or `cancelled`.
pub fn build_run_report(run: &CommandRun, advice: &str) -> Result<(String, ResultMeta), ToolError> {
    let output = &run.output;
    let mut meta = terminal_output_meta(output);
    let took = format_seconds(output.elapsed);
    match &run.ending {
        RunEnding::Finished(exit) => {
            let status = status_line(&exit.status, output.elapsed, &output.text);
            let status = [status.as_deref(), killed_note(exit)]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join(" ");
            let status = [status.as_str(), output.hint.as_deref().unwrap_or_default()];
            let status: Vec<&str> = status.into_iter().filter(|line| !line.is_empty()).collect();
            let status = Some(status.join("\n")).filter(|status| !status.is_empty());
            Ok((output_with_status(&output.text, status.as_deref()), meta))
        }
        RunEnding::TimedOut(stopped) => {
            meta.timed_out = true;
            meta.may_have_run = true;
            meta.text_is_fitted = true;
            let status = format!(
                "Timed out: {} after {took}.{} {advice}",
                describe_stop(stopped),
                input_wait_note(output)
            );
            let status = output_with_status(&status, output.hint.as_deref());
            Err(
                ToolError::new(ErrorCode::Timeout, partial_output(&output.text, &status))
                    .with_meta(meta),
            )
        }
        RunEnding::Cancelled(stopped) => {
            meta.may_have_run = true;
            meta.text_is_fitted = true;
            let status = format!("Cancelled: {} after {took}.", describe_stop(stopped));
            let status = output_with_status(&status, output.hint.as_deref());
            Err(ToolError::call_cancelled(partial_output(&output.text, &status)).with_meta(meta))
        }
    }
}

/// Returns the probable reason why the system killed a command that this runner did not stop.
fn killed_note(exit: &TerminalExit) -> Option<&'static str> {
    if exit.out_of_memory {
        return Some(
            "killed: oom, the system ended a process of it for want of memory. Have it take less at once: fewer jobs, \
             smaller pieces.",
        );
    }
    let killed = exit.status.may_be_killed();
    killed.then_some("Not stopped by this runner; perhaps by the system, for want of memory.")
}

fn partial_output(output: &str, status: &str) -> String {
    if output.trim().is_empty() {
        return format!("{status} Nothing had been printed.");
    }
    output_with_status(output, Some(status))
}

/// Describes the result of stopping a command.
fn describe_stop(stopped: &StopReport) -> String {
    let how = match (stopped.by, &stopped.in_editor) {
        (_, Some(editor)) => format!("{editor} was told to stop the command"),
        (Some(signal), None) => {
            format!("the command and all its processes were stopped with {signal}")
        }
        (None, None) => "the command had just ended by itself".to_owned(),
    };
    let limit = if stopped.at_process_limit {
        " at the limit of 1,024 processes and threads a command"
    } else {
        ""
    };
    if stopped.survivors.is_empty() {
        return format!("{how}{limit}");
    }
    format!(
        "{how}{limit}, but {} could not be ended",
        list_processes(&stopped.survivors)
    )
}

/// Says that processes of a shell or terminal still run after a kill. `tool` kills again.
pub fn describe_survivors(named: &str, survivors: &[ProcessName], tool: &str) -> String {
    format!(
        "{named}: {} had not ended some seconds after SIGKILL. Call {tool} again; a process that stays waits for the \
         system, such as a disk that does not answer.",
        list_processes(survivors)
    )
}

/// Lists processes by name, the first few of them.
pub fn list_processes(processes: &[ProcessName]) -> String {
    let text = processes
        .iter()
        .take(MAX_NAMED_PROCESSES)
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(", ");
    match processes.len().saturating_sub(MAX_NAMED_PROCESSES) {
        0 => text,
        more => format!("{text} and {more} more"),
    }
}

/// Describes the end of a command as part of a sentence: `exit code 1`.
pub fn exit_phrase(status: &ExitStatus) -> String {
    match status {
        ExitStatus::Code(code) => format!("exit code {code}"),
        ExitStatus::Signal(name) => format!("killed by {name}"),
        ExitStatus::Unseen(why) => format!("exit code not known ({why})"),
    }
}

/// Returns the last line of a report, which says how the command ended; `None` for a success with output.
pub fn status_line(status: &ExitStatus, elapsed: Duration, printed: &str) -> Option<String> {
    let took = format_seconds(elapsed);
    match status {
        ExitStatus::Code(0) if !printed.trim().is_empty() => None,
        ExitStatus::Code(0) => {
            let output = if printed.is_empty() { "no" } else { "blank" };
            Some(format!("Command completed successfully ({output} output)."))
        }
        ExitStatus::Code(code) => Some(match explain_exit_code(*code, printed) {
            Some(why) => format!("Exit code {code} ({took}): {why}"),
            None => format!("Exit code {code} ({took})"),
        }),
        ExitStatus::Signal(name) => Some(format!("Killed by {name} ({took})")),
        ExitStatus::Unseen(why) => Some(format!("Ended ({took}); exit code not known: {why}.")),
    }
}

/// Explains an exit code by which a shell reports something, where its message says the same: any program may exit with it.
fn explain_exit_code(code: i32, printed: &str) -> Option<String> {
    match code {
        126 if printed.lines().any(says_not_executable) => Some(
            "the command was found but could not be executed (no execute permission, or not a program)."
                .into(),
        ),
        127 if printed.lines().any(|line| program_not_found(line).is_some()) => {
            Some("the command was not found; check its spelling and the PATH.".into())
        }
        129..=192 => signal_name(code - 128).map(|name| {
            format!("so a shell reports a process that was ended by {name} (128 + {}).", code - 128)
        }),
        _ => None,
    }
}

/// Describes the state of a running command that its text does not show: held-back characters and waiting for input.
/// `None` if there is neither.
pub fn pending_state_note(output: &TerminalOutput) -> Option<String> {
    let held = u64::try_from(output.held_back).unwrap_or(u64::MAX);
    let held = (held > 0).then(|| {
        let what = format_count(held, "character");
        format!("(then {what}, held back until it is clear that no secret begins there)")
    });
    let waits = output.input.filter(|_| output.exit.is_none()).map(|input| match input {
        InputWait::Unechoed => {
            "[waits for input without echo, probably a password. What WriteShell types is recorded: use a way that \
             needs none (a key, sudo -n), or ask the person at this device; KillShell ends it]"
        }
        InputWait::Blocked => "[waits for input: WriteShell types it]",
    });
    let lines: Vec<String> = held.into_iter().chain(waits.map(str::to_owned)).collect();
    (!lines.is_empty()).then(|| lines.join("\n"))
}

/// Describes the input that a command waited for when it was stopped.
fn input_wait_note(output: &TerminalOutput) -> &'static str {
    match output.input {
        Some(InputWait::Unechoed) => {
            " It was waiting for input without echo, probably a password: use a way that needs none (a key, sudo -n)."
        }
        Some(InputWait::Blocked) => {
            " It was waiting for input: give its answers as arguments or `stdin`, or type them with WriteShell."
        }
        None => "",
    }
}

/// Formats a duration as `12.4 s`.
pub fn format_seconds(elapsed: Duration) -> String {
    format!("{:.1} s", elapsed.as_secs_f64())
}

/// Joins the output and the status, with the status on its own line.
pub fn output_with_status(output: &str, status: Option<&str>) -> String {
    let output = output.trim_end_matches(['\n', '\r']);
    match (output.is_empty(), status) {
        (true, status) => status.unwrap_or_default().to_owned(),
        (false, None) => output.to_owned(),
        (false, Some(status)) => format!("{output}\n{status}"),
    }
}

/// Converts an output to the metadata of a reply, with the handle of a stored output that is shown whole, too.
pub fn output_meta_with_handle(output: &TerminalOutput) -> ResultMeta {
    let handle = output.handle.as_ref();
    ResultMeta {
        handle: handle.map(|handle| handle.as_str().to_owned()),
        ..terminal_output_meta(output)
    }
}

/// Converts an output to the metadata of a reply.
pub fn terminal_output_meta(output: &TerminalOutput) -> ResultMeta {
    let mut meta = ResultMeta {
        truncated: output.omitted_bytes > 0,
        omitted_bytes: Some(output.omitted_bytes).filter(|n| *n > 0),
        lossy_chars: Some(output.lossy_chars).filter(|n| *n > 0),
        redactions: Some(output.redactions).filter(|n| *n > 0),
        ..ResultMeta::default()
    };
    if meta.truncated {
        meta.handle = output
            .handle
            .as_ref()
            .map(|handle| handle.as_str().to_owned());
    }
    if let Some(exit) = &output.exit {
        meta.output_incomplete = exit.output_open;
        match &exit.status {
            ExitStatus::Code(code) => meta.exit_code = Some(*code),
            ExitStatus::Signal(name) => meta.signal = Some(name.clone()),
            ExitStatus::Unseen(_) => {}
        }
        if exit.out_of_memory {
            meta.exit_code = Some(SIGKILL_EXIT_CODE);
            meta.killed = Some("oom".to_owned());
        }
    }
    // The editor runs the command in its own terminal, without confinement.
    meta.confinement = output.in_editor.then(|| "none".to_owned());
    meta.source = output.in_editor.then(|| "editor".to_owned());
    meta.network.clone_from(&output.network);
    meta.warnings.extend(output.warnings.iter().cloned());
    if let Some(why) = &output.cut_short {
        meta.warnings.push(match &output.handle {
            Some(_) => format!("The kept output ends before the command's: {why}."),
            None => format!("Nothing of the output is kept for ReadOutput: {why}."),
        });
    }
    meta
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOOK: Duration = Duration::from_millis(12_440);

    #[test]
    fn a_success_says_something_only_when_nothing_was_printed() {
        assert_eq!(status_line(&ExitStatus::Code(0), TOOK, "done"), None);
        for (printed, told) in [("", "(no output)"), ("\n", "(blank output)")] {
            let line = status_line(&ExitStatus::Code(0), TOOK, printed).expect("a line");
            assert_eq!(line, format!("Command completed successfully {told}."));
        }
    }

    #[test]
    fn a_failure_names_its_code_and_the_shells_own_codes_are_explained() {
        let line =
            |code, printed| status_line(&ExitStatus::Code(code), TOOK, printed).expect("a line");
        assert_eq!(line(1, ""), "Exit code 1 (12.4 s)");
        let found = line(127, "bash: line 1: tool: command not found\n");
        assert!(found.contains("not found"), "{found}");
        let found = line(126, "bash: line 1: ./tool: Permission denied\n");
        assert!(found.contains("could not be executed"), "{found}");
        assert!(line(139, "").contains("SIGSEGV"), "{}", line(139, ""));
    }

    #[test]
    fn the_exit_code_of_a_program_is_not_taken_for_the_shells() {
        for code in [126, 127] {
            for printed in ["", "error: key not found\n", "cat: /x: Permission denied\n"] {
                assert_eq!(
                    status_line(&ExitStatus::Code(code), TOOK, printed).as_deref(),
                    Some(format!("Exit code {code} (12.4 s)").as_str()),
                    "{printed}"
                );
            }
        }
    }

    #[test]
    fn the_status_stands_on_its_own_line() {
        assert_eq!(
            output_with_status("a\nb\n\n", Some("Exit code 1 (0.0 s)")),
            "a\nb\nExit code 1 (0.0 s)"
        );
        assert_eq!(output_with_status("", Some("x")), "x");
        assert_eq!(output_with_status("  a\n", None), "  a");
    }
}
