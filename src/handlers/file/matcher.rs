//! Where a quoted text stands in a file: exactly, else by the strictest leniency that finds it. Similarity never
//! decides; it only explains a miss (miss). Not here: writing.

use std::ops::Range;

use memchr::{memchr_iter, memmem};

use super::leniency::{Plain, Tier, split_indent};

/// The places of a text, all of one tier.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    pub tier: Tier,
    pub places: Vec<Place>,
    /// Where the text stands again inside the only place: it could as well be that one.
    pub overlapping: Option<Range<usize>>,
}

/// One place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub range: Range<usize>,
    indent: Indent,
}

/// How the file's lines are indented against the quoted ones.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Indent {
    Same,
    Deeper(Vec<u8>),
    Shallower(Vec<u8>),
}

/// Finds a text that is not empty.
pub(super) fn find(text: &[u8], old: &str) -> Option<Found> {
    let exact: Vec<Place> = memmem::find_iter(text, old)
        .map(|at| Place { range: with_its_return(text, at, old)..at + old.len(), indent: Indent::Same })
        .collect();
    if !exact.is_empty() {
        let overlapping = match exact.as_slice() {
            [only] => {
                let from = only.range.start + 1;
                memmem::find(&text[from..], old.as_bytes()).map(|at| from + at..from + at + old.len())
            }
            _ => None,
        };
        return Some(Found { tier: Tier::Exact, places: exact, overlapping });
    }
    let table = LineTable::of(text);
    let parts: Vec<&[u8]> =
        old.split('\n').map(|part| part.strip_suffix('\r').unwrap_or(part).as_bytes()).collect();
    [Tier::LineEndings, Tier::TrailingSpace, Tier::Typography, Tier::Indentation].into_iter().find_map(
        |tier| {
            let (places, overlapping) = table.places(&parts, tier);
            (!places.is_empty()).then_some(Found { tier, places, overlapping })
        },
    )
}

/// Where a quote begins that was found at `at`: a line feed at its front takes its carriage return with it, which would
/// be left behind alone otherwise.
fn with_its_return(text: &[u8], at: usize, old: &str) -> usize {
    let parted = old.starts_with('\n') && at > 0 && text[at - 1] == b'\r';
    at - usize::from(parted)
}

/// What to put in a place: `new` with the indentation and the line endings that are there.
pub(super) fn replacement(text: &[u8], old: &str, new: &str, tier: Tier, place: &Place) -> Vec<u8> {
    // Who writes carriage returns in an exact quote means them.
    if tier == Tier::Exact && (old.contains('\r') || new.contains('\r')) {
        return new.as_bytes().to_vec();
    }
    let plain = new.replace("\r\n", "\n");
    let indented = match &place.indent {
        Indent::Same => plain.into_bytes(),
        Indent::Deeper(more) => reindent(&plain, |line| [more, line].concat()),
        Indent::Shallower(less) => {
            reindent(&plain, |line| line.strip_prefix(less.as_slice()).unwrap_or(line).to_vec())
        }
    };
    if !ends_in_crlf(text, &place.range) {
        return indented;
    }
    let mut out = Vec::with_capacity(indented.len() + 16);
    for byte in indented {
        if byte == b'\n' {
            out.push(b'\r');
        }
        out.push(byte);
    }
    out
}

fn reindent(text: &str, change: impl Fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    text.split_inclusive('\n')
        .flat_map(
            |line| if line.trim().is_empty() { line.as_bytes().to_vec() } else { change(line.as_bytes()) },
        )
        .collect()
}

/// Whether lines in or around a place end in CRLF; most of them decide.
fn ends_in_crlf(text: &[u8], range: &Range<usize>) -> bool {
    let is_crlf = |at: usize| at > 0 && text[at - 1] == b'\r';
    let (mut crlf, mut all) = (0_usize, 0_usize);
    for at in memchr_iter(b'\n', &text[range.clone()]) {
        all += 1;
        crlf += usize::from(is_crlf(range.start + at));
    }
    if all > 0 {
        return crlf * 2 > all;
    }
    let after = memchr::memchr(b'\n', &text[range.end..]).map(|at| range.end + at);
    after.or_else(|| memchr::memrchr(b'\n', &text[..range.start])).is_some_and(is_crlf)
}

/// The lines of a file.
pub(super) struct LineTable<'a> {
    text: &'a [u8],
    starts: Vec<usize>,
}

impl<'a> LineTable<'a> {
    pub(super) fn of(text: &'a [u8]) -> Self {
        let mut starts = vec![0];
        starts.extend(memchr_iter(b'\n', text).map(|at| at + 1));
        if starts.last() == Some(&text.len()) {
            starts.pop();
        }
        Self { text, starts }
    }

    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    /// The line without its ending.
    pub(super) fn body(&self, line: usize) -> &'a [u8] {
        let whole = &self.text[self.starts[line]..self.end(line)];
        let whole = whole.strip_suffix(b"\n").unwrap_or(whole);
        whole.strip_suffix(b"\r").unwrap_or(whole)
    }

    /// Where the next line begins.
    fn end(&self, line: usize) -> usize {
        self.starts.get(line + 1).copied().unwrap_or(self.text.len())
    }

    fn has_newline(&self, line: usize) -> bool {
        self.text[..self.end(line)].ends_with(b"\n")
    }

    /// The places, none of which overlap; and a further one inside the first where that is the only one.
    fn places(&self, parts: &[&[u8]], tier: Tier) -> (Vec<Place>, Option<Range<usize>>) {
        let mut places: Vec<Place> = Vec::new();
        let mut overlapping = None;
        let mut here = Vec::new();
        for line in 0..self.len() {
            match (parts, tier) {
                (parts, Tier::Indentation) => here.extend(self.indented_at(line, parts)),
                ([], _) => {}
                ([part], _) => self.within(line, part, tier, &mut here),
                (parts, _) => here.extend(self.block_at(line, parts, tier)),
            }
            for place in here.drain(..) {
                if places.last().is_none_or(|last| last.range.end <= place.range.start) {
                    places.push(place);
                } else {
                    overlapping = overlapping.or(Some(place.range));
                }
            }
        }
        let overlapping = overlapping.filter(|_| places.len() == 1);
        (places, overlapping)
    }

    /// One line's part, anywhere in the line.
    fn within(&self, line: usize, part: &[u8], tier: Tier, places: &mut Vec<Place>) {
        let body = self.body(line);
        let start = self.starts[line];
        let (hay, needle) = (Plain::of(body, tier), Plain::of(part, tier));
        let mut put = |from: usize, to: usize| {
            places.push(Place {
                range: start + hay.origin(from)..start + hay.origin(to),
                indent: Indent::Same,
            });
        };
        let trimmed = needle.bytes.trim_ascii_end();
        if trimmed.is_empty() {
            return;
        }
        if tier >= Tier::TrailingSpace && trimmed.len() < needle.bytes.len() {
            if hay.bytes.trim_ascii_end().ends_with(trimmed) {
                put(hay.bytes.trim_ascii_end().len() - trimmed.len(), hay.bytes.len());
            }
        } else if tier >= Tier::Typography {
            let mut from = 0;
            while let Some(at) = memmem::find(&hay.bytes[from..], &needle.bytes).map(|at| from + at) {
                put(at, at + needle.bytes.len());
                from = at + 1;
            }
        }
    }

    /// Parts of lines that follow each other: the end of the first, the middle ones whole, the beginning of the last.
    fn block_at(&self, line: usize, parts: &[&[u8]], tier: Tier) -> Option<Place> {
        let last = parts.len() - 1;
        if line + last > self.len() || (line + last == self.len() && !parts[last].is_empty()) {
            return None;
        }
        let (body, first) = (Plain::of(self.body(line), tier), Plain::of(parts[0], tier));
        let trim = |bytes: &[u8]| {
            if tier >= Tier::TrailingSpace { bytes.trim_ascii_end().len() } else { bytes.len() }
        };
        let (body_end, first_end) = (trim(&body.bytes), trim(&first.bytes));
        if !body.bytes[..body_end].ends_with(&first.bytes[..first_end]) || !self.has_newline(line) {
            return None;
        }
        let start = self.starts[line] + body.origin(body_end - first_end);
        for (at, part) in parts.iter().enumerate().take(last).skip(1) {
            let (body, part) = (Plain::of(self.body(line + at), tier), Plain::of(part, tier));
            if body.bytes[..trim(&body.bytes)] != part.bytes[..trim(&part.bytes)]
                || !self.has_newline(line + at)
            {
                return None;
            }
        }
        let end = if parts[last].is_empty() {
            self.end(line + last - 1)
        } else {
            let (body, part) = (Plain::of(self.body(line + last), tier), Plain::of(parts[last], tier));
            let from = self.starts[line + last];
            if body.bytes.starts_with(&part.bytes) {
                from + body.origin(part.bytes.len())
            } else if tier >= Tier::TrailingSpace
                && body.bytes.trim_ascii_end() == part.bytes.trim_ascii_end()
            {
                from + self.body(line + last).len()
            } else {
                return None;
            }
        };
        Some(Place { range: start..end, indent: Indent::Same })
    }

    /// Whole lines that are all indented by the same more, or the same less.
    fn indented_at(&self, line: usize, parts: &[&[u8]]) -> Option<Place> {
        let ends_whole = parts.len() > 1 && parts.last().is_some_and(|part| part.is_empty());
        let whole = if ends_whole { &parts[..parts.len() - 1] } else { parts };
        if line + whole.len() > self.len() || whole.iter().all(|part| part.trim_ascii().is_empty()) {
            return None;
        }
        let mut indent: Option<Indent> = None;
        for (at, part) in whole.iter().enumerate() {
            let (body, part) =
                (Plain::of(self.body(line + at), Tier::Indentation), Plain::of(part, Tier::Indentation));
            let ((body_indent, body), (part_indent, part)) =
                (split_indent(&body.bytes), split_indent(&part.bytes));
            if body.trim_ascii_end() != part.trim_ascii_end() {
                return None;
            }
            if body.trim_ascii_end().is_empty() {
                continue;
            }
            let this = if let Some(more) = body_indent.strip_suffix(part_indent) {
                Indent::Deeper(more.to_vec())
            } else {
                Indent::Shallower(part_indent.strip_suffix(body_indent)?.to_vec())
            };
            if *indent.get_or_insert_with(|| this.clone()) != this {
                return None;
            }
        }
        let last = line + whole.len() - 1;
        if ends_whole && !self.has_newline(last) {
            return None;
        }
        let end = if ends_whole { self.end(last) } else { self.starts[last] + self.body(last).len() };
        Some(Place { range: self.starts[line]..end, indent: indent? })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn edit(text: &str, old: &str, new: &str) -> Option<(Tier, String)> {
        let found = find(text.as_bytes(), old)?;
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
            assert_eq!(find(text.as_bytes(), old), None, "{text:?} {old:?}");
        }
    }

    #[test]
    fn every_place_is_given_when_there_are_several() {
        assert_eq!(find(b"ab ab ab", "ab").expect("found").places.len(), 3);
        assert_eq!(find(b"a \nb\na\t\nb\n", "a\nb\n").expect("found").places.len(), 2);
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
            let found = find(text.as_bytes(), old).expect(text);
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
            if let Some(found) = find(text.as_bytes(), &old)
                && found.places.len() == 1
                && old.contains(['x', 'y', 'z'])
                && found.tier <= Tier::LineEndings
            {
                let range = found.places[0].range.clone();
                let kept = text[range.clone()].replace("\r\n", "\n");
                prop_assert_eq!(kept, old.clone());
                let new = replacement(text.as_bytes(), &old, "N\nM", found.tier, &found.places[0]);
                let new = String::from_utf8(new).unwrap();
                prop_assert_eq!(new.replace("\r\n", "\n"), "N\nM");
            }
        }

        #[test]
        fn no_input_makes_it_panic(text in prop::collection::vec(any::<u8>(), 0..80), old in "[a“– \t\r\n]{1,9}") {
            if let Some(found) = find(&text, &old) {
                for place in &found.places {
                    prop_assert!(place.range.start <= place.range.end && place.range.end <= text.len());
                    replacement(&text, &old, "n\n", found.tier, place);
                }
            }
        }
    }
}
