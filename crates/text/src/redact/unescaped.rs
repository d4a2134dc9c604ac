//! Bytes without escape sequences and NUL bytes, which a terminal does not show, with the original offset of each byte.
//! A colour in the middle of a value thus does not hide it.

use std::ops::Range;

use memchr::memchr2;

const ESC: u8 = 0x1b;
/// The maximum length of a sequence. If it has not ended by then, only its ESC is removed. A longer run of NUL bytes
/// is not removed as a whole.
const MAX_SEQUENCE_BYTES: usize = 4 << 10;

/// The bytes that introduce a control string, after an ESC.
const STRING_INTRODUCERS: &[u8] = b"]PX^_";

/// Bytes with sequences and NULs removed.
pub(super) struct UnescapedBytes {
    /// The remaining bytes.
    pub bytes: Vec<u8>,
    /// The removed parts, in order: sequences, and runs of NUL bytes.
    gaps: Vec<RemovedGap>,
    /// The start of an incomplete sequence: more bytes decide its kind.
    pub open: Option<usize>,
}

/// One removed sequence or run of NUL bytes.
#[derive(Clone, Copy)]
struct RemovedGap {
    /// The offset in the remaining bytes before which it stood.
    at: usize,
    /// The total number of bytes removed up to its end.
    left_out: usize,
    /// A sequence must not be cut; a run of NUL bytes may be.
    is_sequence: bool,
}

impl RemovedGap {
    /// Returns the offset of its end in the original.
    fn original_end(&self) -> usize {
        self.at + self.left_out
    }
}

/// Returns whether there is anything to remove.
pub(super) fn has_escapes(bytes: &[u8]) -> bool {
    memchr2(ESC, 0, bytes).is_some()
}

/// The extent of a sequence.
enum SequenceLength {
    Bytes(usize),
    Open,
}

impl UnescapedBytes {
    /// Removes sequences and NULs; `None` if there are none. Set `at_end` if no bytes follow.
    pub fn remove_escapes(bytes: &[u8], at_end: bool) -> Option<Self> {
        let mut next = memchr2(ESC, 0, bytes)?;
        let mut left = Self {
            bytes: Vec::with_capacity(bytes.len()),
            gaps: Vec::new(),
            open: None,
        };
        let mut from = 0;
        loop {
            left.bytes.extend_from_slice(&bytes[from..next]);
            let is_sequence = bytes[next] == ESC;
            let length = match measure_sequence(&bytes[next..]) {
                SequenceLength::Bytes(length) => length,
                SequenceLength::Open if at_end => 1,
                SequenceLength::Open => {
                    left.open = Some(next);
                    return Some(left);
                }
            };
            from = next + length;
            if !is_sequence && length > MAX_SEQUENCE_BYTES {
                // No value is written with so many NULs between two of its bytes. One NUL stays and separates its
                // neighbours, so that nothing is held back until the run ends.
                left.bytes.push(0);
            }
            let at = left.bytes.len();
            left.gaps.push(RemovedGap {
                at,
                left_out: from - at,
                is_sequence,
            });
            match memchr2(ESC, 0, &bytes[from..]) {
                Some(more) => next = from + more,
                None => break,
            }
        }
        left.bytes.extend_from_slice(&bytes[from..]);
        Some(left)
    }

    /// Returns the ranges of the removed sequences without their first byte. An incomplete sequence is omitted.
    pub fn sequence_interiors(&self) -> impl Iterator<Item = Range<usize>> {
        let before = std::iter::once(0).chain(self.gaps.iter().map(|gap| gap.left_out));
        let gaps = self
            .gaps
            .iter()
            .zip(before)
            .filter(|(gap, _)| gap.is_sequence);
        gaps.map(|(gap, before)| gap.at + before + 1..gap.original_end())
    }

    pub fn original_offset(&self, at: usize) -> usize {
        let before = self.gaps.partition_point(|gap| gap.at <= at);
        at + before
            .checked_sub(1)
            .map_or(0, |last| self.gaps[last].left_out)
    }

    /// Returns the start of the sequence around this original offset, or the offset itself if it is in none.
    pub fn sequence_start(&self, place: usize) -> usize {
        let after = self.gaps.partition_point(|gap| gap.original_end() <= place);
        let Some(gap) = self.gaps.get(after).filter(|gap| gap.is_sequence) else {
            return place;
        };
        let before = after
            .checked_sub(1)
            .map_or(0, |last| self.gaps[last].left_out);
        place.min(gap.at + before)
    }

    /// Extends an original range to the whole sequences at its start and end. A range within a control string stays as
    /// it is, because the string continues to its own end.
    pub fn extend_to_sequences(&self, place: &Range<usize>, original: &[u8]) -> Range<usize> {
        let start = self.sequence_start(place.start);
        let after = self
            .gaps
            .partition_point(|gap| gap.original_end() < place.end);
        let end = self.gaps.get(after).map(RemovedGap::original_end);
        let end = end
            .filter(|_| self.sequence_start(place.end) < place.end)
            .unwrap_or(place.end);
        let is_string = original
            .get(start + 1)
            .is_some_and(|kind| STRING_INTRODUCERS.contains(kind));
        if start < place.start && is_string && place.end < end {
            place.clone()
        } else {
            start..end
        }
    }

    /// Returns the original range of these bytes, with the removed parts between them.
    pub fn original_range(&self, found: &Range<usize>) -> Range<usize> {
        self.original_offset(found.start)..self.original_offset(found.end - 1) + 1
    }
}

/// Counts the NUL bytes at the start.
fn count_leading_nuls(bytes: &[u8]) -> usize {
    let (blocks, _) = bytes.as_chunks::<64>();
    let whole = 64 * blocks.iter().take_while(|block| **block == [0; 64]).count();
    whole + bytes[whole..].iter().take_while(|byte| **byte == 0).count()
}

/// Measures the sequence that begins with ESC here, by ECMA-48, or the run of NUL bytes.
fn measure_sequence(bytes: &[u8]) -> SequenceLength {
    if bytes[0] != ESC {
        return SequenceLength::Bytes(count_leading_nuls(bytes));
    }
    let rest = &bytes[1..];
    let (place, known) = match rest.first() {
        None => return SequenceLength::Open,
        Some(b'[') => (1, measure_until_final(&rest[1..], 0x20..=0x3f, 0x40..=0x7e)),
        Some(kind) if STRING_INTRODUCERS.contains(kind) => (1, measure_control_string(&rest[1..])),
        Some(0x20..=0x2f) => (0, measure_until_final(rest, 0x20..=0x2f, 0x30..=0x7e)),
        Some(0x30..=0x7e) => (1, Some(0)),
        Some(_) => (0, Some(0)),
    };
    match known {
        Some(length) => SequenceLength::Bytes(1 + place + length),
        None if rest.len() < MAX_SEQUENCE_BYTES => SequenceLength::Open,
        None => SequenceLength::Bytes(1),
    }
}

type ByteRange = std::ops::RangeInclusive<u8>;

/// Matches bytes of one kind and a final one of another. Any other byte ends the sequence and is not part of it.
/// `None` if it is incomplete.
fn measure_until_final(bytes: &[u8], inside: ByteRange, last: ByteRange) -> Option<usize> {
    let bytes = &bytes[..bytes.len().min(MAX_SEQUENCE_BYTES)];
    let at = bytes.iter().position(|byte| !inside.contains(byte))?;
    Some(if last.contains(&bytes[at]) {
        at + 1
    } else {
        at
    })
}

/// Matches up to BEL or ST. Another ESC also ends it and is not part of it.
fn measure_control_string(bytes: &[u8]) -> Option<usize> {
    let bytes = &bytes[..bytes.len().min(MAX_SEQUENCE_BYTES)];
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
        UnescapedBytes::remove_escapes(text.as_bytes(), true).map_or_else(
            || text.to_owned(),
            |left| String::from_utf8(left.bytes).expect("text"),
        )
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
        let left =
            UnescapedBytes::remove_escapes(text.as_bytes(), true).expect("something to leave out");
        for (at, byte) in left.bytes.iter().enumerate() {
            assert_eq!(text.as_bytes()[left.original_offset(at)], *byte);
        }
        assert_eq!(&text[left.original_range(&(0..5))], text);
        assert_eq!(&text[left.original_range(&(1..3))], "bc");
        assert_eq!(
            [3..4, 0..1, 2..8].map(|place| left.extend_to_sequences(&place, text.as_bytes())),
            [1..6, 0..1, 1..8]
        );
        let borders: Vec<usize> = (0..=text.len())
            .map(|place| left.sequence_start(place))
            .collect();
        assert_eq!(
            borders,
            [0, 1, 1, 1, 1, 1, 6, 7, 8, 9, 10, 11, 11, 11, 11, 15, 16]
        );
    }

    #[test]
    fn a_sequence_without_an_end_waits_for_it_and_not_for_ever() {
        for begun in ["x\x1b", "x\x1b[3", "x\x1b]0;t", "x\x1b]0;t\x1b", "x\x1b("] {
            let left = UnescapedBytes::remove_escapes(begun.as_bytes(), false).expect("a sequence");
            assert_eq!(left.open, Some(1), "{begun:?}");
        }
        let long = format!("x\x1b]{}", "t".repeat(MAX_SEQUENCE_BYTES + 1));
        assert_eq!(
            UnescapedBytes::remove_escapes(long.as_bytes(), false)
                .expect("a sequence")
                .open,
            None
        );
    }
}
