//! The outcome of a call in a few words, and widths of columns that fit the terminal. Not here: the tables themselves
//! (console).

use crate::request::{CallEnd, OutcomeKind};

/// Describes the outcome of a call: `ok`, `exit 7`, `denied by no-push`, `no match`.
pub fn describe_result(kind: OutcomeKind, code: Option<&str>, end: &CallEnd) -> String {
    match (kind, code) {
        (OutcomeKind::Cancelled, _) => "cancelled".to_owned(),
        (OutcomeKind::Error, Some("policy_denied")) => match &end.rule {
            Some(rule) => format!("denied by {rule}"),
            None => "denied".to_owned(),
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

/// Shrinks columns until a row fits: those named first go first, each down to its least width.
pub fn shrink_columns(widths: &mut [usize], columns: usize, order: &[(usize, usize)]) {
    let gaps = 2 * widths.len().saturating_sub(1);
    for (column, least) in order {
        let total = widths.iter().sum::<usize>() + gaps;
        let excess = total.saturating_sub(columns);
        let width = &mut widths[*column];
        *width = width.saturating_sub(excess).max((*least).min(*width));
    }
}

/// Returns the number of columns of a terminal; `None` for anything else.
#[cfg(unix)]
pub fn terminal_columns(stream: impl std::os::fd::AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(stream).ok()?;
    (size.ws_col > 0).then(|| usize::from(size.ws_col))
}

/// Returns the number of columns of a terminal; `None` for anything else.
#[cfg(not(unix))]
pub fn terminal_columns(stream: impl std::io::IsTerminal) -> Option<usize> {
    stream.is_terminal().then_some(80)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_is_told_in_few_words() {
        let end = |exit_code: Option<i32>, signal: Option<&str>, rule: Option<&str>| CallEnd {
            exit_code,
            signal: signal.map(str::to_owned),
            rule: rule.map(str::to_owned),
        };
        let (ok, error) = (OutcomeKind::Ok, OutcomeKind::Error);
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
        ] {
            assert_eq!(describe_result(kind, code, &end), text);
        }
    }

    #[test]
    fn a_row_fits_where_it_can() {
        let mut widths = [10, 40, 200, 30];
        shrink_columns(&mut widths, 80, &[(2, 8), (1, 12)]);
        assert_eq!(widths, [10, 26, 8, 30]);
        let mut fits = [10, 20];
        shrink_columns(&mut fits, 80, &[(1, 8)]);
        assert_eq!(fits, [10, 20]);
        let mut narrow = [10, 4, 30];
        shrink_columns(&mut narrow, 20, &[(2, 8), (1, 12)]);
        assert_eq!(narrow, [10, 4, 8]);
    }
}
