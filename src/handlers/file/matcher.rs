//! Finds a quoted text in a file: exactly, else by the strictest tier that finds it. Similarity never decides; it only
//! explains a miss (miss). Not here: the search for blocks of lines (block_search), the text for a place (reindent).

use std::ops::Range;

use memchr::memmem;

use super::block_search::LineTable;
use super::match_tier::{PlainLine, Tier, is_typographic, trim_blanks};
use super::reindent::{Ending, Indent, Place};

pub(super) use super::reindent::replacement;

/// More places than this are only counted: each costs memory, here and when it is replaced.
pub(super) const MOST: usize = 200_000;

/// The places of a text, all of one tier.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub tier: Tier,
    /// In order, without overlap; the first [`MOST`] of them.
    pub places: Vec<Place>,
    /// How many there are.
    pub count: u64,
    /// The same text inside the only place: it could as well be that one.
    pub overlapping: Option<Range<usize>>,
}

/// Finds a text that is not empty, overlooking what `loosest` and stricter tiers overlook; of a text of blanks nothing
/// but line endings. The work grows with the text and with the quote, never with their product.
pub(super) fn find(text: &[u8], old: &str, loosest: Tier) -> Option<Found> {
    let ending = Ending::of_file(text);
    let mut places = Places::new(ending);
    find_exact(text, old, &mut places);
    if let Some(found) = places.found(Tier::Exact) {
        return Some(found);
    }
    let bodies: Vec<&[u8]> =
        old.split('\n').map(|part| part.strip_suffix('\r').unwrap_or(part).as_bytes()).collect();
    if ending == Ending::Cr && bodies.len() > 1 {
        find_exact(text, &old.replace("\r\n", "\n").replace('\n', "\r"), &mut places);
        return places.found(Tier::LineEndings);
    }
    let loosest = if old.trim().is_empty() { Tier::LineEndings } else { loosest };
    let lines = LineTable::split(text, 0);
    let has_typography = is_typographic(text) || is_typographic(old.as_bytes());
    let tiers = [Tier::LineEndings, Tier::TrailingSpace, Tier::Typography, Tier::Indentation];
    tiers.into_iter().take_while(|tier| *tier <= loosest).find_map(|tier| {
        match (bodies.as_slice(), tier) {
            (_, Tier::Typography) if !has_typography => {}
            (parts, Tier::Indentation) => find_indented(&lines, parts, &mut places),
            ([part], _) => find_within_lines(&lines, part, tier, &mut places),
            (parts, _) => find_across_lines(&lines, parts, tier, &mut places),
        }
        places.found(tier)
    })
}

fn find_exact(text: &[u8], old: &str, places: &mut Places) {
    let finder = memmem::Finder::new(old);
    for at in finder.find_iter(text) {
        places.put(with_its_return(text, at, old)..at + old.len(), Indent::Same);
    }
    if places.count == 1 {
        let from = places.kept[0].range.end - old.len() + 1;
        places.overlapping = finder.find(&text[from..]).map(|at| from + at..from + at + old.len());
    }
}

/// The beginning of a quote that was found at `at`. A line feed at its front takes its carriage return with it, which
/// would be left behind alone otherwise. A quote with carriage returns is taken as it is.
pub(super) fn with_its_return(text: &[u8], at: usize, old: &str) -> usize {
    let parted = old.starts_with('\n') && at > 0 && text[at - 1] == b'\r' && !old.contains('\r');
    at - usize::from(parted)
}

/// Collects places in order.
pub(super) struct Places {
    kept: Vec<Place>,
    count: u64,
    end: usize,
    overlapping: Option<Range<usize>>,
    ending: Ending,
}

impl Places {
    fn new(ending: Ending) -> Self {
        Self { kept: Vec::new(), count: 0, end: 0, overlapping: None, ending }
    }

    /// Takes a place, or notes that it lies across the one before.
    pub(super) fn put(&mut self, range: Range<usize>, indent: Indent) {
        if self.count > 0 && range.start < self.end {
            self.overlapping.get_or_insert(range);
            return;
        }
        self.count += 1;
        self.end = range.end;
        if self.kept.len() < MOST {
            self.kept.push(Place { range, indent, ending: self.ending });
        }
    }

    fn found(&mut self, tier: Tier) -> Option<Found> {
        if self.count == 0 {
            return None;
        }
        let overlapping = self.overlapping.take().filter(|_| self.count == 1);
        Some(Found { tier, places: std::mem::take(&mut self.kept), count: self.count, overlapping })
    }
}

/// Finds one line's part, anywhere in a line.
fn find_within_lines(lines: &LineTable<'_>, part: &[u8], tier: Tier, places: &mut Places) {
    let needle = PlainLine::of(part, tier);
    let trimmed = needle.bytes.trim_ascii_end();
    if trimmed.is_empty() || tier < Tier::TrailingSpace {
        return;
    }
    let finder = memmem::Finder::new(needle.bytes.as_ref());
    for line in 0..lines.len() {
        let (start, hay) = (lines.start(line), PlainLine::of(lines.body(line), tier));
        let mut put = |from: usize, to: usize| {
            places.put(start + hay.origin(from)..start + hay.origin(to), Indent::Same);
        };
        if trimmed.len() < needle.bytes.len() {
            let bare = hay.bytes.trim_ascii_end();
            if bare.ends_with(trimmed) {
                put(bare.len() - trimmed.len(), hay.bytes.len());
            }
        } else if tier >= Tier::Typography {
            let mut from = 0;
            while let Some(at) = finder.find(&hay.bytes[from..]).map(|at| from + at) {
                put(at, at + needle.bytes.len());
                from = at + needle.bytes.len();
                // The same text may begin again inside this one.
                let again = finder.find(&hay.bytes[at + 1..]).map(|again| at + 1 + again);
                if let Some(again) = again.filter(|again| *again < from) {
                    put(again, again + needle.bytes.len());
                }
            }
        }
    }
}

/// Finds two parts of lines or more that follow each other: the end of the first line, the middle ones whole, the
/// beginning of the last.
fn find_across_lines(lines: &LineTable<'_>, parts: &[&[u8]], tier: Tier, places: &mut Places) {
    let [first, middle @ .., last] = parts else { return };
    let (first, last) = (PlainLine::of(first, tier), PlainLine::of(last, tier));
    for line in lines.hash(tier).find(middle) {
        let Some(opening) = line.checked_sub(1) else { continue };
        let closing = line + middle.len();
        if lines.has_newline(closing - 1)
            && let Some(start) = find_line_end(lines, opening, &first, tier)
            && let Some(end) = find_line_beginning(lines, closing, &last, tier)
        {
            places.put(start..end, Indent::Same);
        }
    }
}

/// Finds a line's end; gives where it begins.
fn find_line_end(lines: &LineTable<'_>, line: usize, end: &PlainLine<'_>, tier: Tier) -> Option<usize> {
    let body = PlainLine::of(lines.body(line), tier);
    let at = trim_blanks(&body.bytes, tier).strip_suffix(trim_blanks(&end.bytes, tier))?.len();
    Some(lines.start(line) + body.origin(at))
}

/// Finds a line's beginning; gives where it ends. Nothing stands at the beginning of any line, also behind the last.
fn find_line_beginning(
    lines: &LineTable<'_>,
    line: usize,
    beginning: &PlainLine<'_>,
    tier: Tier,
) -> Option<usize> {
    let start = lines.start(line);
    if beginning.bytes.is_empty() || line == lines.len() {
        return beginning.bytes.is_empty().then_some(start);
    }
    let body = PlainLine::of(lines.body(line), tier);
    if body.bytes.starts_with(&beginning.bytes) {
        return Some(start + body.origin(beginning.bytes.len()));
    }
    let is_same = trim_blanks(&body.bytes, tier) == trim_blanks(&beginning.bytes, tier);
    is_same.then(|| start + lines.body(line).len())
}

/// Finds whole lines that are all indented by the same more, or the same less.
fn find_indented(lines: &LineTable<'_>, parts: &[&[u8]], places: &mut Places) {
    let (whole, ends_whole) = match parts {
        [whole @ .., []] if !whole.is_empty() => (whole, true),
        _ => (parts, false),
    };
    for first in lines.find(&lines.hash(Tier::Indentation), whole) {
        let Some(indent) = lines.indent_at(first, whole) else { continue };
        let last = first + whole.len() - 1;
        if ends_whole && !lines.has_newline(last) {
            continue;
        }
        let end = if ends_whole { lines.start(last + 1) } else { lines.start(last) + lines.body(last).len() };
        places.put(lines.start(first)..end, indent);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn edit(text: &str, old: &str, new: &str) -> Option<(Tier, String)> {
        let found = find(text.as_bytes(), old, Tier::Indentation)?;
        assert_eq!(found.places.len(), 1, "{found:?}");
        let place = &found.places[0];
        let mut out = text.as_bytes()[..place.range.start].to_vec();
        out.extend(replacement(text.as_bytes(), old, new, found.tier, place));
        out.extend_from_slice(&text.as_bytes()[place.range.end..]);
        Some((found.tier, String::from_utf8(out).expect("whole characters")))
    }

    #[test]
    fn each_tier_finds_and_fits_its_place() {
        for (text, old, new, tier, expect) in [
            ("a $& b\n", "$&", "$$1", Tier::Exact, "a $$1 b\n"),
            ("a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", Tier::LineEndings, "x\r\ny\r\nz\r\nc\r\n"),
            ("a\nb\n", "a\r\nb\r\n", "x\r\n", Tier::LineEndings, "x\n"),
            ("a\r\nb\r\n", "b", "x\ny", Tier::Exact, "a\r\nx\r\ny\r\n"),
            ("a\r\nb\r\n", "\nb", "c", Tier::Exact, "ac\r\n"),
            ("a\r\nb\r\n", "\nb", "\nc", Tier::Exact, "a\r\nc\r\n"),
            ("if a {  \n  b\t\n}\n", "if a {\n  b\n}", "c", Tier::TrailingSpace, "c\n"),
            ("say “hi” – now\n", "\"hi\" - now", "'ho'", Tier::Typography, "say 'ho'\n"),
            (
                "x\n    a(\n      b\n    )\nc\n",
                "a(\n  b\n)\n",
                "d(\n  e\n)\n",
                Tier::Indentation,
                "x\n    d(\n      e\n    )\nc\n",
            ),
            ("a\n  b\n", "    a\n      b\n", "    q\n", Tier::Indentation, "q\n"),
        ] {
            assert_eq!(edit(text, old, new), Some((tier, expect.to_owned())), "{text:?} {old:?}");
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
            assert_eq!(find(text.as_bytes(), old, Tier::Indentation), None, "{text:?} {old:?}");
        }
    }

    #[test]
    fn every_place_is_given_when_there_are_several() {
        assert_eq!(find(b"ab ab ab", "ab", Tier::Indentation).expect("found").places.len(), 3);
        assert_eq!(find(b"a \nb\na\t\nb\n", "a\nb\n", Tier::Indentation).expect("found").places.len(), 2);
    }

    #[test]
    fn a_text_that_stands_again_inside_its_place_is_seen() {
        for (text, old, tier, again) in [
            ("a\na\na", "a\na", Tier::Exact, Some(2..5)),
            ("a\r\na\r\na\r\n", "a\na\n", Tier::LineEndings, Some(3..9)),
            ("a \na \na \n", "a\na\n", Tier::TrailingSpace, Some(3..9)),
            ("x – – – y\n", "- –", Tier::Typography, Some(6..13)),
            ("a\nb\n", "a\nb", Tier::Exact, None),
            ("ab ab", "ab", Tier::Exact, None),
        ] {
            let found = find(text.as_bytes(), old, Tier::Indentation).expect(text);
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
            if let Some(found) = find(text.as_bytes(), &old, Tier::Indentation)
                && found.places.len() == 1
                && old.contains(['x', 'y', 'z'])
                && found.tier <= Tier::LineEndings
            {
                let range = found.places[0].range.clone();
                let kept = text[range.clone()].replace("\r\n", "\n");
                prop_assert_eq!(kept, old.clone());
                let new = replacement(text.as_bytes(), &old, "N\nM", found.tier, &found.places[0]);
                let new = String::from_utf8(new).unwrap();
                let mut plain = new.replace("\r\n", "\n");
                if !text.contains('\n') {
                    // Its lines may end with carriage returns alone.
                    plain = plain.replace('\r', "\n");
                }
                prop_assert_eq!(plain, "N\nM");
            }
        }

        #[test]
        fn no_input_makes_it_panic(text in prop::collection::vec(any::<u8>(), 0..80), old in "[a“– \t\r\n]{1,9}") {
            if let Some(found) = find(&text, &old, Tier::Indentation) {
                for place in &found.places {
                    prop_assert!(place.range.start <= place.range.end && place.range.end <= text.len());
                    replacement(&text, &old, "n\n", found.tier, place);
                }
            }
        }
    }
}
