//! Finds a quoted text in a file: exactly, otherwise by the strictest tier that finds it. Similarity never decides; it
//! only explains a failed search (no_match_hint).

use std::ops::Range;

use memchr::memmem;

use super::block_search::LineTable;
use super::match_tier::{MatchTier, PlainLine, has_typographic_char, trim_blanks};
use super::reindent::{IndentShift, LineEnding, QuotePlace};

pub(super) use super::reindent::fit_replacement;

/// Further places are only counted, since each costs memory, here and when it is replaced.
pub(super) const MAX_PLACES: usize = 200_000;

/// The places of a text, all of one tier.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct QuoteMatches {
    pub tier: MatchTier,
    /// The first [`MAX_PLACES`] places, in order and without overlap.
    pub places: Vec<QuotePlace>,
    /// The number of places.
    pub count: u64,
    /// An overlapping match inside the only place, which could as well be the intended one.
    pub overlapping: Option<Range<usize>>,
}

/// Finds a text that is not empty, ignoring the differences of `loosest` and stricter tiers. For a
/// text of blanks only line endings are ignored. The work grows with the text and with the quote,
/// never with their product.
pub(super) fn find_quote(text: &[u8], old: &str, loosest: MatchTier) -> Option<QuoteMatches> {
    let ending = LineEnding::first_of_file(text);
    let mut places = PlaceCollector::new(ending);
    find_exact_quote(text, old, &mut places);
    if let Some(found) = places.take_matches(MatchTier::Exact) {
        return Some(found);
    }
    let bodies: Vec<&[u8]> = old
        .split('\n')
        .map(|part| part.strip_suffix('\r').unwrap_or(part).as_bytes())
        .collect();
    if ending == LineEnding::Cr && bodies.len() > 1 {
        find_exact_quote(
            text,
            &old.replace("\r\n", "\n").replace('\n', "\r"),
            &mut places,
        );
        return places.take_matches(MatchTier::LineEndings);
    }
    let loosest = if old.trim().is_empty() {
        MatchTier::LineEndings
    } else {
        loosest
    };
    let lines = LineTable::split_lines(text, 0);
    let has_typography = has_typographic_char(text) || has_typographic_char(old.as_bytes());
    let tiers = [
        MatchTier::LineEndings,
        MatchTier::TrailingSpace,
        MatchTier::Typography,
        MatchTier::Indentation,
        MatchTier::Tabs,
    ];
    tiers
        .into_iter()
        .take_while(|tier| *tier <= loosest)
        .find_map(|tier| {
            match (bodies.as_slice(), tier) {
                (_, MatchTier::Typography) if !has_typography => {}
                (parts, MatchTier::Indentation | MatchTier::Tabs) => {
                    find_indented_block(&lines, parts, tier, &mut places);
                }
                ([part], _) => find_in_single_lines(&lines, part, tier, &mut places),
                (parts, _) => find_across_lines(&lines, parts, tier, &mut places),
            }
            places.take_matches(tier)
        })
}

fn find_exact_quote(text: &[u8], old: &str, places: &mut PlaceCollector) {
    let finder = memmem::Finder::new(old);
    for at in finder.find_iter(text) {
        places.push(
            include_carriage_return(text, at, old)..at + old.len(),
            IndentShift::Same,
        );
    }
    if places.count == 1 {
        let from = places.kept[0].range.end - old.len() + 1;
        places.overlapping = finder
            .find(&text[from..])
            .map(|at| from + at..from + at + old.len());
    }
}

/// The start of a quote that was found at `at`. It includes the carriage return before a leading
/// line feed, which would otherwise be left alone. A quote with carriage returns is used unchanged.
pub(super) fn include_carriage_return(text: &[u8], at: usize, old: &str) -> usize {
    let parted = old.starts_with('\n') && at > 0 && text[at - 1] == b'\r' && !old.contains('\r');
    at - usize::from(parted)
}

/// Collects places in order.
pub(super) struct PlaceCollector {
    kept: Vec<QuotePlace>,
    count: u64,
    end: usize,
    overlapping: Option<Range<usize>>,
    ending: LineEnding,
}

impl PlaceCollector {
    fn new(ending: LineEnding) -> Self {
        Self {
            kept: Vec::new(),
            count: 0,
            end: 0,
            overlapping: None,
            ending,
        }
    }

    /// Adds a place, or records that it overlaps the one before.
    pub(super) fn push(&mut self, range: Range<usize>, indent: IndentShift) {
        if self.count > 0 && range.start < self.end {
            self.overlapping.get_or_insert(range);
            return;
        }
        self.count += 1;
        self.end = range.end;
        if self.kept.len() < MAX_PLACES {
            self.kept.push(QuotePlace {
                range,
                indent,
                ending: self.ending,
            });
        }
    }

    fn take_matches(&mut self, tier: MatchTier) -> Option<QuoteMatches> {
        if self.count == 0 {
            return None;
        }
        let overlapping = self.overlapping.take().filter(|_| self.count == 1);
        Some(QuoteMatches {
            tier,
            places: std::mem::take(&mut self.kept),
            count: self.count,
            overlapping,
        })
    }
}

/// Finds a part of one line, anywhere in a line.
fn find_in_single_lines(
    lines: &LineTable<'_>,
    part: &[u8],
    tier: MatchTier,
    places: &mut PlaceCollector,
) {
    let needle = PlainLine::from_line(part, tier);
    let trimmed = needle.bytes.trim_ascii_end();
    if trimmed.is_empty() || tier < MatchTier::TrailingSpace {
        return;
    }
    let finder = memmem::Finder::new(needle.bytes.as_ref());
    for line in 0..lines.len() {
        let start = lines.start_of(line);
        let hay = PlainLine::from_line(lines.body(line), tier);
        let mut put = |from: usize, to: usize| {
            places.push(
                start + hay.origin_offset(from)..start + hay.origin_offset(to),
                IndentShift::Same,
            );
        };
        if trimmed.len() < needle.bytes.len() {
            let bare = hay.bytes.trim_ascii_end();
            if bare.ends_with(trimmed) {
                put(bare.len() - trimmed.len(), hay.bytes.len());
            }
        } else if tier >= MatchTier::Typography {
            let mut from = 0;
            while let Some(at) = finder.find(&hay.bytes[from..]).map(|at| from + at) {
                put(at, at + needle.bytes.len());
                from = at + needle.bytes.len();
                // The same text may begin again inside this one.
                let again = finder
                    .find(&hay.bytes[at + 1..])
                    .map(|again| at + 1 + again);
                if let Some(again) = again.filter(|again| *again < from) {
                    put(again, again + needle.bytes.len());
                }
            }
        }
    }
}

/// Finds two or more consecutive line parts: the end of the first line, the middle ones whole, the
/// beginning of the last.
fn find_across_lines(
    lines: &LineTable<'_>,
    parts: &[&[u8]],
    tier: MatchTier,
    places: &mut PlaceCollector,
) {
    let [first, middle @ .., last] = parts else {
        return;
    };
    let first = PlainLine::from_line(first, tier);
    let last = PlainLine::from_line(last, tier);
    for line in lines.hash(tier).find_hashed_block(middle) {
        let Some(opening) = line.checked_sub(1) else {
            continue;
        };
        let closing = line + middle.len();
        if lines.ends_in_newline(closing - 1)
            && let Some(start) = match_line_end(lines, opening, &first, tier)
            && let Some(end) = match_line_beginning(lines, closing, &last, tier)
        {
            places.push(start..end, IndentShift::Same);
        }
    }
}

/// Matches the end of a line; returns the start of the match.
fn match_line_end(
    lines: &LineTable<'_>,
    line: usize,
    end: &PlainLine<'_>,
    tier: MatchTier,
) -> Option<usize> {
    let body = PlainLine::from_line(lines.body(line), tier);
    let at = trim_blanks(&body.bytes, tier)
        .strip_suffix(trim_blanks(&end.bytes, tier))?
        .len();
    Some(lines.start_of(line) + body.origin_offset(at))
}

/// Matches the beginning of a line; returns the end of the match. An empty part matches at every
/// line, also after the last.
fn match_line_beginning(
    lines: &LineTable<'_>,
    line: usize,
    beginning: &PlainLine<'_>,
    tier: MatchTier,
) -> Option<usize> {
    let start = lines.start_of(line);
    if beginning.bytes.is_empty() || line == lines.len() {
        return beginning.bytes.is_empty().then_some(start);
    }
    let body = PlainLine::from_line(lines.body(line), tier);
    if body.bytes.starts_with(&beginning.bytes) {
        return Some(start + body.origin_offset(beginning.bytes.len()));
    }
    let is_same = trim_blanks(&body.bytes, tier) == trim_blanks(&beginning.bytes, tier);
    is_same.then(|| start + lines.body(line).len())
}

/// Finds whole lines whose indentation is shifted equally.
fn find_indented_block(
    lines: &LineTable<'_>,
    parts: &[&[u8]],
    tier: MatchTier,
    places: &mut PlaceCollector,
) {
    let (whole, ends_whole) = match parts {
        [whole @ .., []] if !whole.is_empty() => (whole, true),
        _ => (parts, false),
    };
    for first in lines.find_block(&lines.hash(tier), whole) {
        let Some(indent) = lines.indent_shift_at(first, whole, tier) else {
            continue;
        };
        let last = first + whole.len() - 1;
        if ends_whole && !lines.ends_in_newline(last) {
            continue;
        }
        let end = if ends_whole {
            lines.start_of(last + 1)
        } else {
            lines.start_of(last) + lines.body(last).len()
        };
        places.push(lines.start_of(first)..end, indent);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn edit(text: &str, old: &str, new: &str) -> Option<(MatchTier, String)> {
        let found = find_quote(text.as_bytes(), old, MatchTier::Tabs)?;
        assert_eq!(found.places.len(), 1, "{found:?}");
        let place = &found.places[0];
        let mut out = text.as_bytes()[..place.range.start].to_vec();
        out.extend(fit_replacement(
            text.as_bytes(),
            old,
            new,
            found.tier,
            place,
        ));
        out.extend_from_slice(&text.as_bytes()[place.range.end..]);
        Some((
            found.tier,
            String::from_utf8(out).expect("whole characters"),
        ))
    }

    /// A text, a quote with its replacement, and by which tier what comes of it.
    const CASES: &[(&str, &str, &str, MatchTier, &str)] = &[
        ("a $& b\n", "$&", "$$1", MatchTier::Exact, "a $$1 b\n"),
        (
            "a\r\nb\r\nc\r\n",
            "a\nb",
            "x\ny\nz",
            MatchTier::LineEndings,
            "x\r\ny\r\nz\r\nc\r\n",
        ),
        (
            "a\nb\n",
            "a\r\nb\r\n",
            "x\r\n",
            MatchTier::LineEndings,
            "x\n",
        ),
        (
            "a\r\nb\r\n",
            "b",
            "x\ny",
            MatchTier::Exact,
            "a\r\nx\r\ny\r\n",
        ),
        ("a\r\nb\r\n", "\nb", "c", MatchTier::Exact, "ac\r\n"),
        ("a\r\nb\r\n", "\nb", "\nc", MatchTier::Exact, "a\r\nc\r\n"),
        (
            "if a {  \n  b\t\n}\n",
            "if a {\n  b\n}",
            "c",
            MatchTier::TrailingSpace,
            "c\n",
        ),
        (
            "say “hi” – now\n",
            "\"hi\" - now",
            "'ho'",
            MatchTier::Typography,
            "say 'ho'\n",
        ),
        (
            "x\n    a(\n      b\n    )\nc\n",
            "a(\n  b\n)\n",
            "d(\n  e\n)\n",
            MatchTier::Indentation,
            "x\n    d(\n      e\n    )\nc\n",
        ),
        (
            "a\n  b\n",
            "    a\n      b\n",
            "    q\n",
            MatchTier::Indentation,
            "q\n",
        ),
        // A new text that has the file's indentation already.
        (
            "class A {\n    m() {\n        a();\n        b();\n    }\n}\n",
            "a();\nb();",
            "        a();\n        c();",
            MatchTier::Indentation,
            "class A {\n    m() {\n        a();\n        c();\n    }\n}\n",
        ),
        (
            "class A {\n    m() {\n        a();\n    }\n}\n",
            "m() {\n    a();\n}",
            "\n    m() {\n        c();\n    }",
            MatchTier::Indentation,
            "class A {\n\n    m() {\n        c();\n    }\n}\n",
        ),
        // Tabs for blanks, and blanks for tabs.
        (
            "{\n\tif a {\n\t\tb()\n\t}\n}\n",
            "    if a {\n        b()\n    }",
            "    if a {\n        c()\n          + d()\n    }",
            MatchTier::Tabs,
            "{\n\tif a {\n\t\tc()\n\t\t  + d()\n\t}\n}\n",
        ),
        (
            "if a:\n  if b:\n    c()\n",
            "\tif b:\n\t\tc()\n",
            "\tif b:\n\t\tc()\n\t\td()\n",
            MatchTier::Tabs,
            "if a:\n  if b:\n    c()\n    d()\n",
        ),
        (
            "if a {\n  if b {\n      c()\n  }\n}\n",
            "  if b {\n\t  c()\n  }",
            "  if b {\n\t  d()\n  }",
            MatchTier::Tabs,
            "if a {\n  if b {\n      d()\n  }\n}\n",
        ),
        // Added lines go the way of the matched ones.
        (
            "  puts(\"x\");\n",
            "  puts(“x”);",
            "  puts(“y”);\n  puts(“z”);",
            MatchTier::Typography,
            "  puts(\"y\");\n  puts(\"z\");\n",
        ),
        ("a\nb\nc\n", "b\nc", "B\r\nC", MatchTier::Exact, "a\nB\nC\n"),
    ];

    #[test]
    fn each_tier_finds_and_fits_its_place() {
        for (text, old, new, tier, expect) in CASES {
            assert_eq!(
                edit(text, old, new),
                Some((*tier, (*expect).to_owned())),
                "{text:?} {old:?}"
            );
        }
    }

    #[test]
    fn what_is_only_similar_is_not_found() {
        for (text, old) in [
            ("alpha beta\n", "alpha  beta"),
            ("fn a() {}\n", "fn A() {}"),
            ("  a\n   b\n", "a\nb\n"),
            ("a\nb", "a\nb\n"),
            ("", "x"),
        ] {
            assert_eq!(
                find_quote(text.as_bytes(), old, MatchTier::Indentation),
                None,
                "{text:?} {old:?}"
            );
        }
    }

    #[test]
    fn every_place_is_given_when_there_are_several() {
        assert_eq!(
            find_quote(b"ab ab ab", "ab", MatchTier::Indentation)
                .expect("found")
                .places
                .len(),
            3
        );
        assert_eq!(
            find_quote(b"a \nb\na\t\nb\n", "a\nb\n", MatchTier::Indentation)
                .expect("found")
                .places
                .len(),
            2
        );
    }

    #[test]
    fn a_text_that_stands_again_inside_its_place_is_seen() {
        for (text, old, tier, again) in [
            ("a\na\na", "a\na", MatchTier::Exact, Some(2..5)),
            (
                "a\r\na\r\na\r\n",
                "a\na\n",
                MatchTier::LineEndings,
                Some(3..9),
            ),
            (
                "a \na \na \n",
                "a\na\n",
                MatchTier::TrailingSpace,
                Some(3..9),
            ),
            ("x – – – y\n", "- –", MatchTier::Typography, Some(6..13)),
            ("a\nb\n", "a\nb", MatchTier::Exact, None),
            ("ab ab", "ab", MatchTier::Exact, None),
        ] {
            let found = find_quote(text.as_bytes(), old, MatchTier::Indentation).expect(text);
            assert_eq!((found.tier, found.overlapping), (tier, again), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn an_edit_changes_exactly_its_place(
            before in "[abÄ \r\n]{0,40}",
            old in "[xyz\n]{1,12}",
            after in "[abÄ \r\n]{0,40}",
            crlf: bool,
            bom: bool,
        ) {
            let ending = if crlf { "\r\n" } else { "\n" };
            let stored = old.replace('\n', ending);
            let text = format!("{}{before}{stored}{after}", if bom { "\u{FEFF}" } else { "" });
            if let Some(found) = find_quote(text.as_bytes(), &old, MatchTier::Indentation)
                && found.places.len() == 1
                && old.contains(['x', 'y', 'z'])
                && found.tier <= MatchTier::LineEndings
            {
                let range = found.places[0].range.clone();
                let kept = text[range.clone()].replace("\r\n", "\n");
                prop_assert_eq!(kept, old.clone());
                let new = fit_replacement(text.as_bytes(), &old, "N\nM", found.tier, &found.places[0]);
                let new = String::from_utf8(new).unwrap();
                let mut plain = new.replace("\r\n", "\n");
                if !text.contains('\n') {
                    // Lines may end with carriage returns alone.
                    plain = plain.replace('\r', "\n");
                }
                prop_assert_eq!(plain, "N\nM");
            }
        }

        #[test]
        fn no_input_makes_it_panic(text in prop::collection::vec(any::<u8>(), 0..80), old in "[a“– \t\r\n]{1,9}") {
            if let Some(found) = find_quote(&text, &old, MatchTier::Indentation) {
                for place in &found.places {
                    prop_assert!(place.range.start <= place.range.end && place.range.end <= text.len());
                    fit_replacement(&text, &old, "n\n", found.tier, place);
                }
            }
        }
    }
}
