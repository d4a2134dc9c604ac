//! Writes the splices of a text as a unified diff.

use std::fmt::Write as _;

use memchr::{memchr, memchr_iter, memrchr};

use super::edit_sequence::apply_splices;
use punie_host::files::ByteSplice;

/// Lines of context in a diff.
const CONTEXT: usize = 3;

/// Changed whole lines: their place in the old text, and the new lines.
struct ChangedLines {
    from: usize,
    to: usize,
    with: Vec<u8>,
}

/// Writes the change of one text with the heads of a file.
pub(super) fn diff_splices(name: &str, old: &[u8], splices: &[ByteSplice]) -> String {
    let mut out = format!("--- a/{name}\n+++ b/{name}\n");
    write_hunks(&mut out, old, splices);
    out
}

/// Writes the hunks of a diff.
pub(super) fn write_hunks(out: &mut String, old: &[u8], splices: &[ByteSplice]) {
    let changes = widen_to_lines(old, splices);
    let mut at = 0;
    let mut line = 1_usize;
    let mut shift = 0_isize;
    let mut rest = changes.as_slice();
    while let Some(first) = rest.first() {
        // Changes that share context form one hunk.
        let is_near = |pair: &&[ChangedLines]| {
            memchr_iter(b'\n', &old[pair[0].to..pair[1].from]).count() <= 2 * CONTEXT
        };
        let near = rest.windows(2).take_while(is_near).count();
        let (group, behind) = rest.split_at(near + 1);
        let start = nth_line_start_before(old, first.from, CONTEXT);
        let end = (0..CONTEXT).fold(group[near].to, |end, _| next_line_start(old, end));
        line += memchr_iter(b'\n', &old[at..start]).count();
        at = start;
        let mut body = String::new();
        let mut kept_from = start;
        let mut before = 0;
        let mut after = 0;
        for change in group {
            let kept = push_marked_lines(&mut body, ' ', &old[kept_from..change.from]);
            before += kept + push_marked_lines(&mut body, '-', &old[change.from..change.to]);
            after += kept + push_marked_lines(&mut body, '+', &change.with);
            kept_from = change.to;
        }
        let kept = push_marked_lines(&mut body, ' ', &old[kept_from..end]);
        (before, after) = (before + kept, after + kept);
        let range = |line: usize, count: usize| {
            format!("{},{count}", if count == 0 { line - 1 } else { line })
        };
        let new_line = line.saturating_add_signed(shift).max(1);
        let _ = writeln!(
            out,
            "@@ -{} +{} @@",
            range(line, before),
            range(new_line, after)
        );
        out.push_str(&body);
        shift += after.cast_signed() - before.cast_signed();
        rest = behind;
    }
}

/// Widens splices to whole lines, and joins them where they touch.
fn widen_to_lines(old: &[u8], splices: &[ByteSplice]) -> Vec<ChangedLines> {
    let mut changes = Vec::new();
    let mut rest = splices;
    while let Some(first) = rest.first() {
        let from = line_start_before(old, first.range.start);
        let mut to = from;
        let mut taken = 0;
        let with = loop {
            // Splices that begin before the end belong to these lines, and extend it.
            while let Some(splice) = rest
                .get(taken)
                .filter(|splice| taken == 0 || splice.range.start <= to)
            {
                let end = splice.range.end;
                to = to.max(if line_start_before(old, end) == end {
                    end
                } else {
                    next_line_start(old, end)
                });
                taken += 1;
            }
            let shift = |splice: &ByteSplice| ByteSplice {
                range: splice.range.start - from..splice.range.end - from,
                with: splice.with.clone(),
            };
            let shifted: Vec<ByteSplice> = rest[..taken].iter().map(shift).collect();
            let with = apply_splices(&old[from..to], &shifted);
            // Text that ends in the middle of a line continues with the next one.
            if to == old.len() || with.is_empty() || with.ends_with(b"\n") {
                break with;
            }
            to = next_line_start(old, to);
        };
        changes.push(ChangedLines { from, to, with });
        rest = &rest[taken..];
    }
    changes
}

/// Writes lines with their mark; returns their number.
fn push_marked_lines(out: &mut String, mark: char, lines: &[u8]) -> usize {
    let mut count = 0;
    for line in lines.split_inclusive(|byte| *byte == b'\n') {
        count += 1;
        out.push(mark);
        out.push_str(&String::from_utf8_lossy(line));
        if !line.ends_with(b"\n") {
            out.push_str("\n\\ No newline at end of file\n");
        }
    }
    count
}

/// Finds the beginning of the line that contains `at`.
pub(super) fn line_start_before(text: &[u8], at: usize) -> usize {
    memrchr(b'\n', &text[..at]).map_or(0, |newline| newline + 1)
}

/// Finds the beginning of the line after the one that contains `at`.
pub(super) fn next_line_start(text: &[u8], at: usize) -> usize {
    memchr(b'\n', &text[at..]).map_or(text.len(), |newline| at + newline + 1)
}

/// Finds the beginning of the line `lines` lines before the one that contains `at`.
pub(super) fn nth_line_start_before(text: &[u8], at: usize, lines: usize) -> usize {
    (0..lines).fold(line_start_before(text, at), |start, _| {
        line_start_before(text, start.saturating_sub(1))
    })
}
