//! The lines of a hunk: by the counts of its head where they hold, else as far as they look like a hunk's. Not here:
//! what stands around hunks (codex, unified).

use super::parse::ParseError;
use super::{Kind, Line, Stated};

/// Reads the lines from `at` on; gives them with the index behind them. `ends` tells a line that is none of a hunk's.
pub(super) fn read(
    lines: &[&str],
    at: usize,
    stated: Option<Stated>,
    ends: impl Fn(usize) -> bool,
) -> Result<(Vec<Line>, usize), ParseError> {
    if let Some(stated) = stated
        && let Some((found, end)) = by_counts(lines, at, stated)
        && stops_at(lines, end, &ends)
    {
        return Ok((found, end));
    }
    let mut found = Vec::new();
    let mut end = at;
    while end < lines.len() && !ends(end) {
        if !take(lines[end], &mut found) {
            let why = format!(
                "{:?} is not a line of a hunk: each begins with a blank (it stays), - (it goes) or + (it comes).",
                lines[end].chars().take(80).collect::<String>()
            );
            return Err(ParseError::at(end, why));
        }
        end += 1;
    }
    // Empty lines before what comes next are spacing, not context.
    while end > at && lines[end - 1].trim_end_matches('\r').is_empty() {
        found.pop();
        end -= 1;
    }
    Ok((found, end))
}

/// As many lines as the head says, if they are a hunk's.
fn by_counts(lines: &[&str], at: usize, stated: Stated) -> Option<(Vec<Line>, usize)> {
    let (mut old, mut new) = (stated.count, stated.new_count);
    let mut found = Vec::new();
    let mut end = at;
    while old > 0 || new > 0 || lines.get(end).is_some_and(|line| line.starts_with('\\')) {
        let line = lines.get(end)?;
        if !take(line, &mut found) {
            return None;
        }
        end += 1;
        if line.starts_with('\\') {
            continue;
        }
        let kind = found.last()?.kind;
        old = old.checked_sub(usize::from(kind != Kind::Added))?;
        new = new.checked_sub(usize::from(kind != Kind::Removed))?;
    }
    Some((found, end))
}

/// Whether a hunk may end here: nothing that looks like a further line of it follows.
fn stops_at(lines: &[&str], end: usize, ends: impl Fn(usize) -> bool) -> bool {
    let next = (end..lines.len()).find(|at| !lines[*at].trim_end_matches('\r').is_empty());
    next.is_none_or(|at| ends(at) || !lines[at].starts_with([' ', '+', '-', '\t']))
}

/// Takes one line; false where it is none of a hunk's.
fn take(line: &str, found: &mut Vec<Line>) -> bool {
    let (kind, text) = match line.as_bytes().first() {
        Some(b' ') => (Kind::Context, &line[1..]),
        Some(b'-') => (Kind::Removed, &line[1..]),
        Some(b'+') => (Kind::Added, &line[1..]),
        // Editors take away a blank at the end of a line; some writers leave it out before a tab.
        None | Some(b'\t' | b'\r') => (Kind::Context, line),
        Some(b'\\') => {
            return found.last_mut().is_some_and(|last| {
                last.newline = false;
                true
            });
        }
        Some(_) => return false,
    };
    found.push(Line { kind, text: text.to_owned(), newline: true });
    true
}
