//! The outcome of a call in a few words, and the line about a finished call on the runner's terminal.

use std::sync::Arc;

use tracing::level_filters::LevelFilter;

use super::{console, display_time, logging};
use crate::config::LogLevel;
use punie_engine::runner::{FinishedCall, FinishedCallListener};
use punie_tool::request::{CallEnd, OutcomeKind};

/// The most columns of a line about a finished call: on a wider terminal the result stays near the title.
const MAX_LINE_COLUMNS: usize = 110;

/// Describes the outcome of a call: `ok`, `exit 7`, `denied by no-push`, `no match`.
pub fn describe_result(kind: OutcomeKind, code: Option<&str>, end: &CallEnd) -> String {
    match (kind, code) {
        (OutcomeKind::Cancelled, _) => "cancelled".to_owned(),
        (OutcomeKind::Error, Some("policy_denied")) => match (end.denial, &end.rule) {
            (Some(denial), _) => denial.describe_outcome().to_owned(),
            (None, Some(rule)) => format!("denied by {rule}"),
            (None, None) => "denied".to_owned(),
        },
        (OutcomeKind::Error, Some(code)) => code.replace('_', " "),
        (OutcomeKind::Error, None) => "error".to_owned(),
        (OutcomeKind::Ok, _) => match (&end.signal, end.exit_code) {
            (Some(signal), _) => signal.clone(),
            (None, None | Some(0)) => "ok".to_owned(),
            (None, Some(code)) => format!("exit {code}"),
        },
    }
}

/// Returns a listener that prints a line per finished call, if stderr is a terminal and the log shows such lines. The
/// line then replaces that of the log.
pub fn finished_call_lines(level: LogLevel) -> Option<FinishedCallListener> {
    if console::stderr_width().is_none() || level.filter() < LevelFilter::INFO {
        return None;
    }
    logging::hide_answered_calls();
    Some(Arc::new(|call| {
        let time = display_time::format_clock(call.at_ms);
        let columns = console::stderr_width();
        let line = finished_call_line(call, &time, columns.unwrap_or(80));
        console::print_stderr_unwrapped(&format!("{line}\n"));
    }))
}

/// Returns the line about a finished call: its time, tool, title, result and duration.
fn finished_call_line(call: &FinishedCall, time: &str, columns: usize) -> String {
    let result = describe_result(call.kind, call.code.as_deref(), &call.end);
    let took = call.end.run_ms.map(display_time::format_elapsed);
    let before = format!("{time}  {:<10}  ", console::cell_text(&call.tool, 14));
    let after = format!(
        "  {:<10}{:>8}",
        console::cell_text(&result, 24),
        took.unwrap_or_default()
    );
    let taken = before.chars().count() + after.chars().count();
    let width = columns.min(MAX_LINE_COLUMNS).saturating_sub(taken);
    let title = console::cell_text(&call.title, width);
    format!("{before}{title:<width$}{after}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use punie_core::approval_answer::{AnswerPlace, ApprovalDenial};

    #[test]
    fn an_outcome_is_told_in_few_words() {
        let end = |exit_code: Option<i32>, signal: Option<&str>, rule: Option<&str>| CallEnd {
            exit_code,
            signal: signal.map(str::to_owned),
            rule: rule.map(str::to_owned),
            ..CallEnd::default()
        };
        let by_you = CallEnd {
            denial: Some(ApprovalDenial::Answered(AnswerPlace::Terminal)),
            ..end(None, None, Some("policy.ask"))
        };
        let ok = OutcomeKind::Ok;
        let error = OutcomeKind::Error;
        for (kind, code, end, text) in [
            (ok, None, end(Some(0), None, None), "ok"),
            (ok, None, end(Some(7), None, None), "exit 7"),
            (ok, None, end(None, Some("SIGKILL"), None), "SIGKILL"),
            (error, Some("no_match"), end(None, None, None), "no match"),
            (
                error,
                Some("policy_denied"),
                end(None, None, Some("no-push")),
                "denied by no-push",
            ),
            (error, Some("timeout"), end(Some(1), None, None), "timeout"),
            (error, Some("policy_denied"), by_you, "denied by you"),
        ] {
            assert_eq!(describe_result(kind, code, &end), text);
        }
    }

    #[test]
    fn a_finished_call_is_one_line_of_the_terminal() {
        let mut call = FinishedCall {
            at_ms: 1_772_368_205_000,
            tool: "Bash".to_owned(),
            title: "git log | head".to_owned(),
            kind: OutcomeKind::Ok,
            code: None,
            end: CallEnd {
                run_ms: Some(14),
                ..CallEnd::default()
            },
        };
        let line = finished_call_line(&call, "12:30:05", 80);
        assert_eq!(
            line,
            "12:30:05  Bash        git log | head                          \
             ok           14 ms"
        );
        call.title = "x".repeat(200);
        call.tool = "a_tool_with_a_long_name".to_owned();
        call.kind = OutcomeKind::Error;
        call.code = Some("policy_denied".to_owned());
        call.end.rule = Some("deny-everything-that-is-dangerous".to_owned());
        assert_eq!(
            finished_call_line(&call, "12:30:05", 80).chars().count(),
            80
        );
    }
}
