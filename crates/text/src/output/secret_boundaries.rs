//! Finds texts that are masked later, so that no cut goes through one: half a secret would not be recognized.

use std::borrow::Cow;
use std::ops::Range;

use crate::redact::{MASK, Redactor};

/// A text may be longer than its longest form says, by escape sequences within it: so much more is looked at.
const MAX_SEQUENCE_EXTRA: usize = 8 << 10;

/// The ranges of masked texts in some bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MaskedRanges {
    /// In order, none over another.
    pub ranges: Vec<Range<usize>>,
    /// From here on, later bytes may still complete a masked text. No range reaches beyond it.
    pub decided_bytes: usize,
}

impl MaskedRanges {
    /// Extends the part to include the masked texts that it begins or ends within.
    pub fn extend_to_whole(&self, part: Range<usize>) -> Range<usize> {
        let start = self.across(part.start);
        let end = self.across(part.end);
        start.map_or(part.start, |place| place.start)..end.map_or(part.end, |place| place.end)
    }

    /// The place that a cut at `at` would go through.
    fn across(&self, at: usize) -> Option<&Range<usize>> {
        let after = self.ranges.partition_point(|place| place.start < at);
        self.ranges[..after].last().filter(|place| at < place.end)
    }
}

/// The texts that must not be cut. Clones share them; the default knows none.
#[derive(Debug, Clone, Default)]
pub struct SecretBoundaries(Redactor);

impl SecretBoundaries {
    /// The texts that this redactor masks, now and later.
    pub fn new(redactor: &Redactor) -> Self {
        Self(redactor.clone())
    }

    /// The number of bytes around a cut that decide whether it goes through a masked text.
    pub fn cut_margin(&self) -> usize {
        match self.0.longest_secret() {
            0 => 0,
            longest => longest + MAX_SEQUENCE_EXTRA,
        }
    }

    /// Finds the ranges of masked texts; `at_end` if no bytes follow.
    pub fn masked_ranges(&self, bytes: &[u8], at_end: bool) -> MaskedRanges {
        let (ranges, decided_bytes) = self.0.secret_ranges(bytes, at_end);
        MaskedRanges {
            ranges,
            decided_bytes,
        }
    }

    /// The end of a part that begins with these bytes and goes to `at`: earlier where it would end within one.
    pub fn cut_end_before(&self, bytes: &[u8], at: usize, at_end: bool) -> usize {
        let standing = self.masked_ranges(bytes, at_end);
        let at = at.min(standing.decided_bytes);
        standing.across(at).map_or(at, |place| place.start)
    }

    /// The beginning of a part that begins at `at`: later where it would begin within one.
    pub fn cut_start_after(&self, bytes: &[u8], at: usize) -> usize {
        self.masked_ranges(bytes, true)
            .across(at)
            .map_or(at, |place| place.end)
    }

    /// Extends the part to include the masked texts that it begins or ends within.
    pub fn extend_to_whole(&self, bytes: &[u8], part: Range<usize>) -> Range<usize> {
        self.masked_ranges(bytes, true).extend_to_whole(part)
    }

    /// Masks the text, for showing a part of it. Its line feeds stay, so that lines keep their numbers.
    pub fn mask_bytes<'t>(&self, text: &'t [u8]) -> Cow<'t, [u8]> {
        let places = self.masked_ranges(text, true).ranges;
        if places.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut out = Vec::with_capacity(text.len());
        let mut from = 0;
        for place in places {
            out.extend_from_slice(&text[from..place.start]);
            out.extend_from_slice(self.replacement_text(&text[place.clone()]).as_bytes());
            out.extend(text[place.clone()].iter().filter(|byte| **byte == b'\n'));
            from = place.end;
        }
        out.extend_from_slice(&text[from..]);
        Cow::Owned(out)
    }

    fn replacement_text(&self, matched: &[u8]) -> String {
        let text = String::from_utf8_lossy(matched);
        match self.0.mask(&text).0 {
            Cow::Owned(replaced) => replaced,
            Cow::Borrowed(_) => MASK.to_owned(),
        }
    }

    /// Masks a string in the same way.
    pub fn mask_text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match self.mask_bytes(text.as_bytes()) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            Cow::Owned(masked) => Cow::Owned(String::from_utf8_lossy(&masked).into_owned()),
        }
    }

    /// Returns the first `chars` characters, masked, and whether the text is longer.
    pub fn masked_prefix(&self, text: &str, chars: usize) -> (String, bool) {
        let Some((end, _)) = text.char_indices().nth(chars) else {
            return (text.to_owned(), false);
        };
        let looked_at = text.floor_char_boundary(end.saturating_add(self.cut_margin()));
        (
            self.mask_text(&text[..looked_at])
                .chars()
                .take(chars)
                .collect(),
            true,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redact::Secret;

    fn boundaries_of(secret: &str) -> SecretBoundaries {
        SecretBoundaries::new(&Redactor::new([Secret::new(secret.to_owned())]))
    }

    #[test]
    fn no_cut_goes_through_a_masked_text() {
        let uncut = boundaries_of("p4ssw0rd");
        let text = b"a p4ssw0rd b";
        let ends: Vec<usize> = (0..=12)
            .map(|at| uncut.cut_end_before(text, at, true))
            .collect();
        assert_eq!(ends, [0, 1, 2, 2, 2, 2, 2, 2, 2, 2, 10, 11, 12]);
        let starts: Vec<usize> = (0..=12).map(|at| uncut.cut_start_after(text, at)).collect();
        assert_eq!(starts, [0, 1, 2, 10, 10, 10, 10, 10, 10, 10, 10, 11, 12]);
        assert_eq!(
            [3..9, 0..7, 2..10, 11..12].map(|part| uncut.extend_to_whole(text, part)),
            [2..10, 0..10, 2..10, 11..12]
        );
        assert_eq!(
            uncut.masked_prefix("a p4ssw0rd b", 4),
            ("a [R".to_owned(), true)
        );
        assert_eq!(
            uncut.masked_prefix("a p4ssw0rd", 10),
            ("a p4ssw0rd".to_owned(), false),
            "whole, to be masked at its end"
        );
    }

    #[test]
    fn who_knows_nothing_changes_nothing() {
        let uncut = SecretBoundaries::default();
        assert_eq!(
            (
                uncut.cut_end_before(b"secret", 3, false),
                uncut.cut_start_after(b"secret", 3),
                uncut.cut_margin()
            ),
            (3, 3, 0)
        );
        assert!(matches!(
            uncut.mask_bytes(b"secret"),
            Cow::Borrowed(b"secret")
        ));
    }

    #[test]
    fn masked_lines_keep_their_numbers() {
        let uncut = boundaries_of("first\nsecond");
        assert_eq!(
            uncut.mask_bytes(b"x first\nsecond y\nz").as_ref(),
            b"x [REDACTED:secret]\n y\nz"
        );
    }
}
