//! Bytes without what a terminal does not show: escape sequences and NUL bytes, and where each byte stood. A colour in the
//! middle of a value does not hide it. Not here: what a reader is shown (output::hygiene).

use std::ops::Range;

use memchr::memchr2;

const ESC: u8 = 0x1b;
/// A sequence that has not ended after so many bytes is none: only its ESC is left out. More NUL bytes than this are
/// not left out as one.
const LONGEST: usize = 4 << 10;

/// What begins a string, after an ESC.
const STRINGS: &[u8] = b"]PX^_";

/// Bytes without sequences and NULs.
pub(super) struct Unescaped {
    /// What is left.
    pub bytes: Vec<u8>,
    /// What was left out, in order: sequences, and runs of NUL bytes.
    gaps: Vec<Gap>,
    /// Where a sequence begins that has no end yet: more bytes decide what it is.
    pub open: Option<usize>,
}

/// One sequence, or a run of NUL bytes, that was left out.
#[derive(Clone, Copy)]
struct Gap {
    /// Before this byte of what is left.
    at: usize,
    /// How many bytes were left out up to its end, in all.
    left_out: usize,
    /// A place within a run of NUL bytes is as good as any other; a sequence must not be cut.
    is_sequence: bool,
}

impl Gap {
    /// Where it ends in the original.
    fn end(&self) -> usize {
        self.at + self.left_out
    }
}

/// Whether there is anything to leave out.
pub(super) fn has_any(bytes: &[u8]) -> bool {
    memchr2(ESC, 0, bytes).is_some()
}

/// How far a sequence reaches.
enum Sequence {
    Bytes(usize),
    Open,
}

impl Unescaped {
    /// None where there is nothing to leave out. `at_end` where nothing follows.
    pub fn of(bytes: &[u8], at_end: bool) -> Option<Self> {
        let mut next = memchr2(ESC, 0, bytes)?;
        let mut left = Self { bytes: Vec::with_capacity(bytes.len()), gaps: Vec::new(), open: None };
        let mut from = 0;
        loop {
            left.bytes.extend_from_slice(&bytes[from..next]);
            let is_sequence = bytes[next] == ESC;
            let length = match sequence(&bytes[next..]) {
                Sequence::Bytes(length) => length,
                Sequence::Open if at_end => 1,
                Sequence::Open => {
                    left.open = Some(next);
                    return Some(left);
                }
            };
            from = next + length;
            if !is_sequence && length > LONGEST {
                // No value is written with so many between two of its bytes. One of them stays and keeps apart what is
                // around them, so that nothing is held back until they end.
                left.bytes.push(0);
            }
            let at = left.bytes.len();
            left.gaps.push(Gap { at, left_out: from - at, is_sequence });
            match memchr2(ESC, 0, &bytes[from..]) {
                Some(more) => next = from + more,
                None => break,
            }
        }
        left.bytes.extend_from_slice(&bytes[from..]);
        Some(left)
    }

    /// The sequences that were left out, but for the byte that each begins with. What an open one has so far is none of
    /// it.
    pub fn insides(&self) -> impl Iterator<Item = Range<usize>> {
        let before = std::iter::once(0).chain(self.gaps.iter().map(|gap| gap.left_out));
        let gaps = self.gaps.iter().zip(before).filter(|(gap, _)| gap.is_sequence);
        gaps.map(|(gap, before)| gap.at + before + 1..gap.end())
    }

    /// Where a byte stood.
    pub fn origin(&self, at: usize) -> usize {
        let before = self.gaps.partition_point(|gap| gap.at <= at);
        at + before.checked_sub(1).map_or(0, |last| self.gaps[last].left_out)
    }

    /// The beginning of the sequence that this place of the original is inside of; the place itself where it is not.
    pub fn border(&self, place: usize) -> usize {
        let after = self.gaps.partition_point(|gap| gap.end() <= place);
        let Some(gap) = self.gaps.get(after).filter(|gap| gap.is_sequence) else { return place };
        let before = after.checked_sub(1).map_or(0, |last| self.gaps[last].left_out);
        place.min(gap.at + before)
    }

    /// The same place of the original with all of the sequences that it begins or ends inside of; but for one within a
    /// string, which goes on to its own end whatever is in it.
    pub fn whole(&self, place: &Range<usize>, original: &[u8]) -> Range<usize> {
        let start = self.border(place.start);
        let after = self.gaps.partition_point(|gap| gap.end() < place.end);
        let end = self.gaps.get(after).map(Gap::end);
        let end = end.filter(|_| self.border(place.end) < place.end).unwrap_or(place.end);
        let is_string = original.get(start + 1).is_some_and(|kind| STRINGS.contains(kind));
        if start < place.start && is_string && place.end < end { place.clone() } else { start..end }
    }

    /// Where bytes stood, with what was left out between them.
    pub fn origins(&self, found: &Range<usize>) -> Range<usize> {
        self.origin(found.start)..self.origin(found.end - 1) + 1
    }
}

/// How many of these bytes are NUL before the first that is not.
fn leading_nuls(bytes: &[u8]) -> usize {
    let (blocks, _) = bytes.as_chunks::<64>();
    let whole = 64 * blocks.iter().take_while(|block| **block == [0; 64]).count();
    whole + bytes[whole..].iter().take_while(|byte| **byte == 0).count()
}

/// What begins with an ESC here, by ECMA-48; or all NUL bytes that stand here.
fn sequence(bytes: &[u8]) -> Sequence {
    if bytes[0] != ESC {
        return Sequence::Bytes(leading_nuls(bytes));
    }
    let rest = &bytes[1..];
    let (place, known) = match rest.first() {
        None => return Sequence::Open,
        Some(b'[') => (1, ended(&rest[1..], 0x20..=0x3f, 0x40..=0x7e)),
        Some(kind) if STRINGS.contains(kind) => (1, string(&rest[1..])),
        Some(0x20..=0x2f) => (0, ended(rest, 0x20..=0x2f, 0x30..=0x7e)),
        Some(0x30..=0x7e) => (1, Some(0)),
        Some(_) => (0, Some(0)),
    };
    match known {
        Some(length) => Sequence::Bytes(1 + place + length),
        None if rest.len() < LONGEST => Sequence::Open,
        None => Sequence::Bytes(1),
    }
}

type Bytes = std::ops::RangeInclusive<u8>;

/// Bytes of one kind and one of another; what is of neither ends it and is no part of it. None where it goes on.
fn ended(bytes: &[u8], inside: Bytes, last: Bytes) -> Option<usize> {
    let bytes = &bytes[..bytes.len().min(LONGEST)];
    let at = bytes.iter().position(|byte| !inside.contains(byte))?;
    Some(if last.contains(&bytes[at]) { at + 1 } else { at })
}

/// Up to BEL or ST; another ESC ends it too and is no part of it.
fn string(bytes: &[u8]) -> Option<usize> {
    let bytes = &bytes[..bytes.len().min(LONGEST)];
    let at = memchr2(ESC, 0x07, bytes)?;
    match (bytes[at], bytes.get(at + 1)) {
        (ESC, None) => None,
        (ESC, Some(b'\\')) => Some(at + 2),
        (ESC, Some(_)) => Some(at),
        _ => Some(at + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(text: &str) -> String {
        Unescaped::of(text.as_bytes(), true)
            .map_or_else(|| text.to_owned(), |left| String::from_utf8(left.bytes).expect("text"))
    }

    #[test]
    fn sequences_and_nuls_are_left_out_and_text_is_not() {
        for (text, expected) in [
            ("plain", "plain"),
            ("a\x1b[31;1mb\x1b[Kc", "abc"),
            ("a\x1b]0;title\x07b\x1b]8;;x\x1b\\c", "abc"),
            ("a\x1b(Bb\x1b=c\x1bM", "abc"),
            ("h\0i\0", "hi"),
            ("a\x1b]never ends", "a]never ends"),
            ("a\x1b[3\x1b[4mb", "ab"),
            ("a\x1b", "a"),
        ] {
            assert_eq!(left(text), expected, "{text:?}");
        }
    }

    #[test]
    fn every_byte_knows_where_it_stood() {
        let text = "a\x1b[31mbc\0\0d\x1b[0me";
        let left = Unescaped::of(text.as_bytes(), true).expect("something to leave out");
        for (at, byte) in left.bytes.iter().enumerate() {
            assert_eq!(text.as_bytes()[left.origin(at)], *byte);
        }
        assert_eq!(&text[left.origins(&(0..5))], text);
        assert_eq!(&text[left.origins(&(1..3))], "bc");
        assert_eq!([3..4, 0..1, 2..8].map(|place| left.whole(&place, text.as_bytes())), [1..6, 0..1, 1..8]);
        let borders: Vec<usize> = (0..=text.len()).map(|place| left.border(place)).collect();
        assert_eq!(borders, [0, 1, 1, 1, 1, 1, 6, 7, 8, 9, 10, 11, 11, 11, 11, 15, 16]);
    }

    #[test]
    fn a_sequence_without_an_end_waits_for_it_and_not_for_ever() {
        for begun in ["x\x1b", "x\x1b[3", "x\x1b]0;t", "x\x1b]0;t\x1b", "x\x1b("] {
            let left = Unescaped::of(begun.as_bytes(), false).expect("a sequence");
            assert_eq!(left.open, Some(1), "{begun:?}");
        }
        let long = format!("x\x1b]{}", "t".repeat(LONGEST + 1));
        assert_eq!(Unescaped::of(long.as_bytes(), false).expect("a sequence").open, None);
    }
}
