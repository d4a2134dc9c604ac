//! Where a quoted text stands in a file: exactly, else by the strictest leniency that finds it. Similarity never
//! decides; it only explains a miss (miss). Not here: how blocks of lines are found (blocks), and what is put in a
//! place (fitting).

use std::ops::Range;

use memchr::{memchr, memchr_iter, memmem};

use super::blocks;
use super::fitting::{Ending, Indent};
use super::leniency::{Plain, Tier, is_typographic};

pub(super) use super::fitting::replacement;

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
    /// Where the text stands again inside the only place: it could as well be that one.
    pub overlapping: Option<Range<usize>>,
}

/// One place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub range: Range<usize>,
    pub(super) indent: Indent,
    /// How the file's lines end where nothing nearer says it.
    pub(super) ending: Ending,
}

/// Finds a text that is not empty, overlooking what `loosest` and stricter tiers overlook; of a text of blanks nothing
/// but line endings. The work grows with the text and with the quote, never with their product.
pub(super) fn find(text: &[u8], old: &str, loosest: Tier) -> Option<Found> {
    let ending = Ending::of_file(text);
    let mut places = Places::new(ending);
    exact(text, old, &mut places);
    if let Some(found) = places.found(Tier::Exact) {
        return Some(found);
    }
    let bodies: Vec<&[u8]> =
        old.split('\n').map(|part| part.strip_suffix('\r').unwrap_or(part).as_bytes()).collect();
    if ending == Ending::Cr && bodies.len() > 1 {
        exact(text, &old.replace("\r\n", "\n").replace('\n', "\r"), &mut places);
        return places.found(Tier::LineEndings);
    }
    let loosest = if old.trim().is_empty() { Tier::LineEndings } else { loosest };
    let traits = Traits::of(text).and(Traits::of(old.as_bytes()));
    [Tier::LineEndings, Tier::TrailingSpace, Tier::Typography, Tier::Indentation].into_iter().find_map(
        |tier| {
            match (bodies.as_slice(), tier) {
                _ if tier > loosest || !traits.matter(tier) => {}
                (parts, Tier::Indentation) => blocks::indented(text, parts, &mut places),
                ([part], _) => within_lines(text, part, tier, &mut places),
                (parts, _) => blocks::follow(text, parts, tier, &mut places),
            }
            places.found(tier)
        },
    )
}

fn exact(text: &[u8], old: &str, places: &mut Places) {
    let finder = memmem::Finder::new(old);
    for at in finder.find_iter(text) {
        places.put(with_its_return(text, at, old)..at + old.len(), Indent::Same);
    }
    if places.count == 1 {
        let from = places.kept[0].range.end - old.len() + 1;
        places.overlapping = finder.find(&text[from..]).map(|at| from + at..from + at + old.len());
    }
}

/// Where a quote begins that was found at `at`: a line feed at its front takes its carriage return with it, which would
/// be left behind alone otherwise. Who quotes carriage returns knows where they are.
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

/// What a text has of what the tiers overlook: where neither side has it, a tier finds no more than the one before.
#[derive(Debug, Clone, Copy)]
struct Traits {
    returns: bool,
    blank_ends: bool,
    typographic: bool,
}

impl Traits {
    fn of(text: &[u8]) -> Self {
        let is_blank = |byte: &u8| byte.is_ascii_whitespace() && *byte != b'\n';
        let ends_blank = |end: usize| {
            let line = text[..end].strip_suffix(b"\r").unwrap_or(&text[..end]);
            line.last().is_some_and(is_blank)
        };
        let blank_ends = memchr_iter(b'\n', text).chain([text.len()]).any(ends_blank);
        Self { returns: memchr(b'\r', text).is_some(), blank_ends, typographic: is_typographic(text) }
    }

    fn and(self, other: Self) -> Self {
        Self {
            returns: self.returns || other.returns,
            blank_ends: self.blank_ends || other.blank_ends,
            typographic: self.typographic || other.typographic,
        }
    }

    fn matter(self, tier: Tier) -> bool {
        match tier {
            Tier::Exact | Tier::Indentation => true,
            Tier::LineEndings => self.returns,
            Tier::TrailingSpace => self.blank_ends,
            Tier::Typography => self.typographic,
        }
    }
}

/// One line's part, anywhere in a line.
fn within_lines(text: &[u8], part: &[u8], tier: Tier, places: &mut Places) {
    let needle = Plain::of(part, tier);
    let trimmed = needle.bytes.trim_ascii_end();
    if trimmed.is_empty() || tier < Tier::TrailingSpace {
        return;
    }
    let finder = memmem::Finder::new(needle.bytes.as_ref());
    for line in Lines::of(text) {
        let hay = Plain::of(line.body(text), tier);
        let mut put = |from: usize, to: usize| {
            places.put(line.start + hay.origin(from)..line.start + hay.origin(to), Indent::Same);
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
                // Whether it stands again across this one.
                if let Some(again) = finder.find(&hay.bytes[at + 1..]).map(|again| at + 1 + again)
                    && again < from
                {
                    put(again, again + needle.bytes.len());
                }
            }
        }
    }
}

/// A line by its offsets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Line {
    pub start: usize,
    /// Where the next one begins.
    pub end: usize,
}

impl Line {
    /// The line without its ending.
    pub(super) fn body(self, text: &[u8]) -> &[u8] {
        let whole = &text[self.start..self.end];
        let whole = whole.strip_suffix(b"\n").unwrap_or(whole);
        whole.strip_suffix(b"\r").unwrap_or(whole)
    }

    pub(super) fn has_newline(self, text: &[u8]) -> bool {
        text[self.start..self.end].ends_with(b"\n")
    }
}

/// The lines of a text, one after the other.
pub(super) struct Lines<'t> {
    text: &'t [u8],
    newlines: memchr::Memchr<'t>,
    at: usize,
}

impl<'t> Lines<'t> {
    pub(super) fn of(text: &'t [u8]) -> Self {
        Self { text, newlines: memchr_iter(b'\n', text), at: 0 }
    }
}

impl Iterator for Lines<'_> {
    type Item = Line;

    fn next(&mut self) -> Option<Line> {
        let start = self.at;
        if start == self.text.len() {
            return None;
        }
        self.at = self.newlines.next().map_or(self.text.len(), |newline| newline + 1);
        Some(Line { start, end: self.at })
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
