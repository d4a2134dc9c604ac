//! Parses one hunk: its `@@` lines as diffs and as models write them, then its lines, by the head's counts if right.

use super::parse_error::{PatchParseError, quote_line};
use super::{Hunk, HunkLine, LineKind, StatedRange};

/// Parses the hunk that begins at a line; returns it with the index after it and the empty lines
/// that follow. `ends` detects a line that belongs to no hunk.
pub(super) fn read_hunk(
    lines: &[&str],
    from: usize,
    ends: &dyn Fn(usize) -> bool,
) -> Result<(Hunk, usize), PatchParseError> {
    let mut hunk = Hunk {
        line: from + 1,
        ..Hunk::default()
    };
    let mut at = from;
    // The hunk's lines follow a stated range; before it there may be anchors.
    while hunk.stated.is_none()
        && let Some(line) = lines.get(at).filter(|line| line.starts_with("@@"))
    {
        let Some((stated, anchor)) = read_hunk_head(line) else {
            return Err(PatchParseError::merge_diff(at));
        };
        hunk.stated = stated;
        hunk.anchors.extend(anchor);
        at += 1;
    }
    let counted = hunk
        .stated
        .and_then(|stated| read_counted_lines(lines, at, stated));
    (hunk.lines, at) = match counted.filter(|(_, end)| can_hunk_end_at(lines, *end, ends)) {
        Some(read) => read,
        None => read_uncounted_lines(lines, at, ends)?,
    };
    if hunk.lines.is_empty() {
        let why = "a hunk without lines. Below @@ come the lines: with a blank (stays), - (goes), + (comes).";
        return Err(PatchParseError::bad_line(from, why));
    }
    while lines.get(at).is_some_and(|line| line.trim().is_empty()) {
        at += 1;
    }
    Ok((hunk, at))
}

/// Parses a line that begins with `@@`: the stated range, otherwise the anchor. `None` for the head
/// of a merge's diff, which has a third `@`.
fn read_hunk_head(line: &str) -> Option<(Option<StatedRange>, Option<String>)> {
    let rest = line
        .strip_prefix("@@")
        .filter(|rest| !rest.starts_with('@'))?
        .trim();
    if let Some(stated) = read_stated_ranges(rest) {
        return Some((Some(stated), None));
    }
    let anchor = rest.strip_suffix("@@").unwrap_or(rest).trim();
    // `@@ ... @@` and `@@ -?,? +?,? @@` replace numbers that the writer did not know.
    let says_nothing = anchor
        .chars()
        .all(|c| matches!(c, '.' | '…' | '?' | ',' | '-' | '+' | ' '));
    Some((None, (!says_nothing).then(|| anchor.to_owned())))
}

/// Parses `-10,2 +10,3`, with any text after it.
fn read_stated_ranges(text: &str) -> Option<StatedRange> {
    let read_range = |text: &str| {
        let (start, count) = text.split_once(',').unwrap_or((text, "1"));
        Some((start.parse().ok()?, count.parse().ok()?))
    };
    let mut words = text
        .split_whitespace()
        .map(|word| word.trim_end_matches("@@"));
    let (start, count) = read_range(words.next()?.strip_prefix('-')?)?;
    let (_, new_count): (usize, usize) = read_range(words.next()?.strip_prefix('+')?)?;
    Some(StatedRange {
        start,
        count,
        new_count,
    })
}

/// Reads as many lines as the head says, if they are valid hunk lines.
fn read_counted_lines(
    lines: &[&str],
    at: usize,
    stated: StatedRange,
) -> Option<(Vec<HunkLine>, usize)> {
    let mut old = stated.count;
    let mut new = stated.new_count;
    let mut found = Vec::new();
    let mut end = at;
    while old > 0 || new > 0 || lines.get(end).is_some_and(|line| line.starts_with('\\')) {
        let line = lines.get(end)?;
        push_hunk_line(line, &mut found)?;
        end += 1;
        if line.starts_with('\\') {
            continue;
        }
        let kind = found.last()?.kind;
        old = old.checked_sub(usize::from(kind != LineKind::Added))?;
        new = new.checked_sub(usize::from(kind != LineKind::Removed))?;
    }
    Some((found, end))
}

/// Returns whether a hunk may end here: no line follows that looks like another line of it.
fn can_hunk_end_at(lines: &[&str], end: usize, ends: &dyn Fn(usize) -> bool) -> bool {
    let next = (end..lines.len()).find(|at| !lines[*at].trim_end_matches('\r').is_empty());
    next.is_none_or(|at| ends(at) || !lines[at].starts_with([' ', '+', '-', '\t']))
}

/// Reads lines up to one that belongs to no hunk. Empty lines before that are spacing, not context.
fn read_uncounted_lines(
    lines: &[&str],
    at: usize,
    ends: &dyn Fn(usize) -> bool,
) -> Result<(Vec<HunkLine>, usize), PatchParseError> {
    let mut found = Vec::new();
    let mut end = at;
    while end < lines.len() && !ends(end) {
        if push_hunk_line(lines[end], &mut found).is_none() {
            let why = format!(
                "{} is not a line of a hunk: each begins with a blank (it stays), - (it goes) or + (it comes).",
                quote_line(lines[end])
            );
            return Err(PatchParseError::bad_line(end, why));
        }
        end += 1;
    }
    while end > at && lines[end - 1].trim_end_matches('\r').is_empty() {
        found.pop();
        end -= 1;
    }
    Ok((found, end))
}

/// Adds one line; `None` if it is not a hunk line.
fn push_hunk_line(line: &str, found: &mut Vec<HunkLine>) -> Option<()> {
    let (kind, text) = match line.as_bytes().first() {
        Some(b' ') => (LineKind::Context, &line[1..]),
        Some(b'-') => (LineKind::Removed, &line[1..]),
        Some(b'+') => (LineKind::Added, &line[1..]),
        // Editors remove a blank at the end of a line; some writers omit it before a tab.
        None | Some(b'\t' | b'\r') => (LineKind::Context, line),
        // `\ No newline at end of file`
        Some(b'\\') => {
            let last = &mut found.last_mut()?.text;
            last.truncate(last.trim_end_matches('\n').len());
            return Some(());
        }
        Some(_) => return None,
    };
    found.push(HunkLine {
        kind,
        text: format!("{text}\n"),
    });
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_to_begin_a_hunk_is_understood() {
        let stated = |start, count, new_count| {
            Some(StatedRange {
                start,
                count,
                new_count,
            })
        };
        for (line, expect, anchor) in [
            ("@@ -10,2 +11,3 @@ fn a()", stated(10, 2, 3), None),
            ("@@ -1 +1,0 @@", stated(1, 1, 0), None),
            ("@@ -1,4 +1,4", stated(1, 4, 4), None),
            ("@@", None, None),
            ("@@ ... @@", None, None),
            ("@@ fn a() {", None, Some("fn a() {")),
            ("@@ class A @@", None, Some("class A")),
            ("@@ -x +y", None, Some("-x +y")),
        ] {
            assert_eq!(
                read_hunk_head(line),
                Some((expect, anchor.map(str::to_owned))),
                "{line}"
            );
        }
        assert_eq!(read_hunk_head("@@@ -1 -1 +1 @@@"), None);
        assert_eq!(
            read_hunk_head("@@ -99999999999999999999 +1 @@")
                .expect("a head")
                .0,
            None
        );
    }
}
