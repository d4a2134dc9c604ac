//! Reports an edit: the changed lines, their new content, or a diff for a dry run.

use std::fmt::Write as _;
use std::ops::Range;

use memchr::{memchr, memchr_iter, memrchr};

use super::unified_diff::{diff_splices, next_line_start, nth_line_start_before};
use punie_host::files::ByteSplice;
use punie_text::output::SecretBoundaries;

/// Lines shown before and after a changed place.
const CONTEXT: usize = 3;
/// Changed lines shown per place, and places shown.
const MAX_SHOWN_LINES: usize = 30;
const MAX_SHOWN_PLACES: usize = 5;
/// Bytes of nearby changes that are joined into one shown place.
const MAX_JOINED_BYTES: usize = 64 << 10;
const MAX_LISTED_PLACES: usize = 10;
const MAX_DIFF_PLACES: usize = 200;
/// The note for omitted places.
const AND_MORE: &str = "[... and more changed places]\n";
/// Characters shown of a line.
const MAX_LINE_CHARS: usize = 300;

/// The line (from 1) of an offset.
pub(super) fn line_number_at(text: &[u8], at: usize) -> usize {
    count_newlines(&text[..at]) + 1
}

/// `line 12` or `lines 12-14`, for bytes that begin at a line.
pub(super) fn describe_line_span(line: usize, bytes: &[u8]) -> String {
    let more = memchr_iter(b'\n', bytes.strip_suffix(b"\n").unwrap_or(bytes)).count();
    if more == 0 {
        format!("line {line}")
    } else {
        format!("lines {line}-{}", line + more)
    }
}

/// `1 replacement at lines 4-5`, `3 replacements at lines 4, 9, 12`: the lines of the new text.
pub(super) fn describe_replacements(old: &[u8], splices: &[ByteSplice]) -> String {
    let all = splices.len();
    let mut line = 1;
    let mut at = 0;
    let mut spans = Vec::new();
    for splice in splices.iter().take(MAX_LISTED_PLACES) {
        line += count_newlines(&old[at..splice.range.start]);
        spans.push(describe_line_span(line, &splice.with));
        line += memchr_iter(b'\n', &splice.with).count();
        at = splice.range.end;
    }
    if let ([only], 1) = (spans.as_slice(), all) {
        return format!("1 replacement at {only}");
    }
    let lines: Vec<&str> = spans
        .iter()
        .map(|span| {
            span.trim_start_matches("lines")
                .trim_start_matches("line")
                .trim_start()
        })
        .collect();
    let left = all - spans.len();
    let more = if left > 0 {
        format!(" and {left} more")
    } else {
        String::new()
    };
    format!("{all} replacements at lines {}{more}", lines.join(", "))
}

/// The places as a list of lines.
pub(super) fn list_line_numbers<'a>(
    text: &[u8],
    ranges: impl IntoIterator<Item = &'a Range<usize>>,
    count: u64,
) -> String {
    let mut lines: Vec<String> = Vec::new();
    let mut line = 1;
    let mut at = 0;
    for range in ranges.into_iter().take(MAX_LISTED_PLACES) {
        line += count_newlines(&text[at..range.start]);
        at = range.start;
        lines.push(line.to_string());
    }
    let left = count.saturating_sub(lines.len() as u64);
    let more = if left > 0 {
        format!(" and {left} more")
    } else {
        String::new()
    };
    format!("{}{more}", lines.join(", "))
}

/// Shows each place, numbered, with the line before and after it, so that a caller can distinguish
/// them.
pub(super) fn show_neighbouring_lines<'a>(
    text: &[u8],
    ranges: impl IntoIterator<Item = &'a Range<usize>>,
    uncut: &SecretBoundaries,
) -> String {
    let mut out = String::new();
    let mut shown_to = 0;
    for range in ranges.into_iter().take(MAX_LISTED_PLACES) {
        let from = nth_line_start_before(text, range.start, 1).max(shown_to);
        // The beginning of a long quote is enough.
        let to = next_line_start(text, next_line_start(text, range.start));
        if from >= to {
            continue;
        }
        if shown_to > 0 && from > shown_to {
            out.push_str("   ...\n");
        }
        write_numbered_lines(&mut out, &text[from..to], line_number_at(text, from), uncut);
        shown_to = to;
    }
    out
}

/// Shows the changed places after the edit, numbered, each with the lines around it.
pub(super) fn show_changed_places(
    old: &[u8],
    splices: &[ByteSplice],
    uncut: &SecretBoundaries,
) -> String {
    let mut out = String::new();
    let mut line = 1_usize;
    let mut at = 0;
    let mut rest = splices;
    let mut views = 0;
    while let Some(first) = rest.first() {
        if views == MAX_SHOWN_PLACES {
            let left = rest.len();
            let places = if left == 1 { "place" } else { "places" };
            let _ = writeln!(out, "[... {left} more changed {places}]");
            return out;
        }
        views += 1;
        let from = nth_line_start_before(old, first.range.start, CONTEXT).max(at);
        line += count_newlines(&old[at..from]);
        let mut now = Vec::new();
        let mut kept_from = from;
        let mut to = from;
        let mut taken = 0;
        for splice in rest {
            if taken > 0
                && (now.len() > MAX_JOINED_BYTES
                    || nth_line_start_before(old, splice.range.start, CONTEXT) > to)
            {
                break;
            }
            now.extend_from_slice(&old[kept_from..splice.range.start]);
            now.extend_from_slice(&splice.with);
            kept_from = splice.range.end;
            to = offset_after_lines(old, splice.range.end, CONTEXT);
            taken += 1;
        }
        if views > 1 {
            out.push_str("   ...\n");
        }
        if now.len() > MAX_JOINED_BYTES && taken < rest.len() {
            now.truncate(memrchr(b'\n', &now).map_or(MAX_JOINED_BYTES, |newline| newline + 1));
            write_numbered_lines(&mut out, &now, line, uncut);
            out.push_str(AND_MORE);
            return out;
        }
        now.extend_from_slice(&old[kept_from..to]);
        write_numbered_lines(&mut out, &now, line, uncut);
        line += memchr_iter(b'\n', &now).count();
        at = to;
        rest = &rest[taken..];
    }
    out
}

fn count_newlines(text: &[u8]) -> usize {
    memchr_iter(b'\n', text).count()
}

fn write_numbered_lines(out: &mut String, lines: &[u8], first: usize, uncut: &SecretBoundaries) {
    let text = String::from_utf8_lossy(lines);
    // A byte order mark is no part of the first line: quoted back, it would be.
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let all = text.lines().count();
    for (at, line) in text.lines().enumerate() {
        if at >= MAX_SHOWN_LINES && at + CONTEXT < all {
            if at == MAX_SHOWN_LINES {
                let _ = writeln!(out, "[... {} lines]", all - MAX_SHOWN_LINES - CONTEXT);
            }
            continue;
        }
        let _ = writeln!(out, "{:>6}\t{}", first + at, clip_shown_line(line, uncut));
    }
}

/// Formats the change as a unified diff.
pub(super) fn diff_edit(name: &str, old: &[u8], splices: &[ByteSplice]) -> String {
    let narrow: Vec<ByteSplice> = splices
        .iter()
        .take(MAX_DIFF_PLACES)
        .map(|splice| trim_equal_lines(old, splice))
        .collect();
    let mut out = diff_splices(name, old, &narrow);
    let left = splices.len() - narrow.len();
    if left > 0 {
        let _ = writeln!(out, "[... {left} more changed places]");
    }
    out
}

/// Removes the unchanged whole lines at a splice's ends. A quote includes them only to locate its
/// place.
fn trim_equal_lines(old: &[u8], splice: &ByteSplice) -> ByteSplice {
    let is_start = |at: usize| at == 0 || old[at - 1] == b'\n';
    let mut range = splice.range.clone();
    let mut with = splice.with.as_slice();
    while is_start(range.start)
        && let Some(newline) = memchr(b'\n', &old[range.clone()])
        && with.starts_with(&old[range.start..=range.start + newline])
    {
        range.start += newline + 1;
        with = &with[newline + 1..];
    }
    // The last line stays with the text before it unless that also ends a line.
    while range.end > range.start && is_start(range.end) && with.ends_with(b"\n") {
        let line = memrchr(b'\n', &old[range.start..range.end - 1]).map_or(0, |at| at + 1);
        let line = &old[range.start + line..range.end];
        let Some(rest) = with
            .strip_suffix(line)
            .filter(|rest| rest.is_empty() || rest.ends_with(b"\n"))
        else {
            break;
        };
        if !is_start(range.end - line.len()) {
            break;
        }
        range.end -= line.len();
        with = rest;
    }
    ByteSplice {
        range,
        with: with.to_vec(),
    }
}

fn clip_shown_line(line: &str, uncut: &SecretBoundaries) -> String {
    let (mut short, is_cut) = uncut.masked_prefix(line, MAX_LINE_CHARS);
    if is_cut {
        short.push('…');
    }
    short
}

/// The end of the line that is `count` lines after the one in which `at` ends.
fn offset_after_lines(text: &[u8], at: usize, count: usize) -> usize {
    // A place that ends with a line ending ends on that line.
    let end = if at > 0 && text[at - 1] == b'\n' {
        at
    } else {
        next_line_start(text, at)
    };
    (0..count).fold(end, |end, _| next_line_start(text, end))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_changed_place_is_shown_with_its_neighbours() {
        let old = b"1\n2\n3\n4\n5\n6\n7\n8\n9\n";
        let splice = ByteSplice {
            range: 8..9,
            with: b"five\nand a half".to_vec(),
        };
        assert_eq!(
            show_changed_places(
                old,
                std::slice::from_ref(&splice),
                &SecretBoundaries::default()
            ),
            "     2\t2\n     3\t3\n     4\t4\n     5\tfive\n     6\tand a half\n     7\t6\n     8\t7\n     9\t8\n"
        );
        assert_eq!(
            diff_edit("f", old, &[splice]),
            "--- a/f\n+++ b/f\n@@ -2,7 +2,8 @@\n 2\n 3\n 4\n-5\n+five\n+and a half\n 6\n 7\n 8\n"
        );
        assert_eq!(describe_line_span(5, b"a\nb\n"), "lines 5-6");
        assert_eq!(list_line_numbers(old, [0..1, 4..5].iter(), 2), "1, 3");
        assert_eq!(
            list_line_numbers(old, std::iter::once(&(0..1)), 14),
            "1 and 13 more"
        );
    }

    #[test]
    fn far_places_are_shown_apart_with_their_lines_of_now() {
        let old = (1..=30)
            .map(|n| n.to_string())
            .collect::<Vec<_>>()
            .join("\n")
            + "\n";
        let at = |n: usize| old.find(&format!("\n{n}\n")).expect("a line") + 1;
        let splices = [
            ByteSplice {
                range: at(2)..at(2) + 1,
                with: b"two\nand more".to_vec(),
            },
            ByteSplice {
                range: at(4)..at(4) + 1,
                with: b"four".to_vec(),
            },
            ByteSplice {
                range: at(20)..at(20) + 2,
                with: b"twenty".to_vec(),
            },
        ];
        let view = show_changed_places(old.as_bytes(), &splices, &SecretBoundaries::default());
        assert_eq!(view.matches("   ...\n").count(), 1, "{view}");
        for line in [
            "     1\t1\n",
            "     3\tand more\n",
            "     5\tfour\n",
            "     8\t7\n",
            "    21\ttwenty\n",
            "    24\t23\n",
        ] {
            assert!(view.contains(line), "{line:?} in {view}");
        }
        assert_eq!(
            describe_replacements(old.as_bytes(), &splices),
            "3 replacements at lines 2-3, 5, 21"
        );
        assert_eq!(
            describe_replacements(old.as_bytes(), &splices[..1]),
            "1 replacement at lines 2-3"
        );
    }

    #[test]
    fn places_are_told_apart_by_their_neighbours() {
        let text = b"fn a() {\n    run();\n}\nfn b() {\n    run();\n}\n";
        let places: Vec<_> = memchr::memmem::find_iter(text, "run();")
            .map(|at| at..at + 6)
            .collect();
        let said = show_neighbouring_lines(text, places.iter(), &SecretBoundaries::default());
        for line in [
            "     1\tfn a() {\n     2\t    run();\n     3\t}\n",
            "     4\tfn b() {\n     5\t    run();\n",
        ] {
            assert!(said.contains(line), "{said}");
        }
    }

    proptest! {
        #[test]
        fn a_splice_without_its_equal_lines_gives_the_same_text(
            old in "[ab\n]{0,30}", from in 0_usize..30, len in 0_usize..30, with in "[ab\n]{0,30}",
        ) {
            let old = old.as_bytes();
            let start = from.min(old.len());
            let splice = ByteSplice { range: start..(start + len).min(old.len()), with: with.into_bytes() };
            let put = |splice: &ByteSplice| {
                [&old[..splice.range.start], &splice.with, &old[splice.range.end..]].concat()
            };
            prop_assert_eq!(put(&trim_equal_lines(old, &splice)), put(&splice));
            let view = show_changed_places(old, &[splice], &SecretBoundaries::default());
            prop_assert!(view.lines().count() <= MAX_SHOWN_LINES + 1 + CONTEXT);
        }
    }
}
