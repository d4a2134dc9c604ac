//! What an edit says of itself: where, what it looks like now, what it would look like. Not here: the edit.

use std::fmt::Write as _;
use std::ops::Range;

use memchr::{memchr, memchr_iter, memrchr};

use crate::acp::files::Splice;

/// Lines shown before and after a changed place.
const CONTEXT: usize = 3;
/// Changed lines shown.
const SHOWN: usize = 30;
/// Places listed.
const PLACES: usize = 20;
/// Characters shown of a line.
const WIDTH: usize = 300;

/// The line (from 1) of an offset.
pub(super) fn line_of(text: &[u8], at: usize) -> usize {
    memchr_iter(b'\n', &text[..at]).count() + 1
}

/// `line 12` or `lines 12-14`, of bytes that begin at a line.
pub(super) fn span(line: usize, bytes: &[u8]) -> String {
    let more = memchr_iter(b'\n', bytes.strip_suffix(b"\n").unwrap_or(bytes)).count();
    if more == 0 { format!("line {line}") } else { format!("lines {line}-{}", line + more) }
}

/// The places as a list of lines.
pub(super) fn lines_of<'a>(text: &[u8], ranges: impl Iterator<Item = &'a Range<usize>>) -> String {
    let mut lines: Vec<String> = Vec::new();
    let (mut line, mut at, mut left) = (1, 0, 0_usize);
    for range in ranges {
        if lines.len() == PLACES {
            left += 1;
            continue;
        }
        line += memchr_iter(b'\n', &text[at..range.start]).count();
        at = range.start;
        lines.push(line.to_string());
    }
    let more = if left > 0 { format!(" and {left} more") } else { String::new() };
    format!("{}{more}", lines.join(", "))
}

/// The first changed place as it is now, with the lines around it, numbered.
pub(super) fn after(old: &[u8], splice: &Splice) -> String {
    let from = lines_before(old, splice.range.start, CONTEXT);
    let to = lines_after(old, splice.range.end, CONTEXT);
    let now = [&old[from..splice.range.start], &splice.with, &old[splice.range.end..to]].concat();
    let first = line_of(old, from);
    let mut out = String::new();
    let text = String::from_utf8_lossy(&now);
    let all = text.lines().count();
    for (at, line) in text.lines().enumerate() {
        if at >= SHOWN && at + CONTEXT < all {
            if at == SHOWN {
                let _ = writeln!(out, "[... {} lines]", all - SHOWN - CONTEXT);
            }
            continue;
        }
        let _ = writeln!(out, "{:>6}\t{}", first + at, short(line));
    }
    out
}

/// Every changed place in whole lines, as a diff shows them.
pub(super) fn preview(old: &[u8], splices: &[Splice]) -> String {
    let mut out = String::new();
    for splice in splices.iter().take(PLACES) {
        let from = lines_before(old, splice.range.start, 0);
        let to = lines_after(old, splice.range.end, 0);
        let now = [&old[from..splice.range.start], &splice.with, &old[splice.range.end..to]].concat();
        let _ = writeln!(out, "@@ line {} @@", line_of(old, from));
        for (mark, bytes) in [('-', &old[from..to]), ('+', now.as_slice())] {
            let text = String::from_utf8_lossy(bytes);
            for line in text.lines().take(SHOWN) {
                let _ = writeln!(out, "{mark}{}", short(line));
            }
            let left = text.lines().count().saturating_sub(SHOWN);
            if left > 0 {
                let _ = writeln!(out, "{mark}[... {left} lines]");
            }
        }
    }
    if splices.len() > PLACES {
        let _ = writeln!(out, "[... {} more places]", splices.len() - PLACES);
    }
    out
}

fn short(line: &str) -> String {
    let mut short: String = line.chars().take(WIDTH).collect();
    if short.len() < line.len() {
        short.push('…');
    }
    short
}

/// Where the line begins that is `count` before the one of `at`.
fn lines_before(text: &[u8], at: usize, count: usize) -> usize {
    let mut start = memrchr(b'\n', &text[..at]).map_or(0, |newline| newline + 1);
    for _ in 0..count {
        if start == 0 {
            break;
        }
        start = memrchr(b'\n', &text[..start - 1]).map_or(0, |newline| newline + 1);
    }
    start
}

/// Where the line ends that is `count` after the one in which `at` ends.
fn lines_after(text: &[u8], at: usize, count: usize) -> usize {
    // A place that ends with a line's ending ends on that line.
    let mut end = if at > 0 && text[at - 1] == b'\n' {
        at
    } else {
        memchr(b'\n', &text[at..]).map_or(text.len(), |newline| at + newline + 1)
    };
    for _ in 0..count {
        end = memchr(b'\n', &text[end..]).map_or(text.len(), |newline| end + newline + 1);
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_place_is_shown_with_its_neighbours() {
        let old = b"1\n2\n3\n4\n5\n6\n7\n8\n9\n";
        let splice = Splice { range: 8..9, with: b"five\nand a half".to_vec() };
        let shown = after(old, &splice);
        assert_eq!(
            shown,
            "     2\t2\n     3\t3\n     4\t4\n     5\tfive\n     6\tand a half\n     7\t6\n     8\t7\n     9\t8\n"
        );
        assert_eq!(preview(old, &[splice]), "@@ line 5 @@\n-5\n+five\n+and a half\n");
        assert_eq!(span(5, b"a\nb\n"), "lines 5-6");
        assert_eq!(lines_of(old, [0..1, 4..5].iter()), "1, 3");
    }
}
