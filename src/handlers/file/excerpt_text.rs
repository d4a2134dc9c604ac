//! A text for an answer, of which long stretches may be left out: what is left still knows its line numbers. Not here:
//! what is left out (excerpt).

use std::ops::Range;

use memchr::memchr_iter;

/// Where something was left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ExcerptGap {
    /// In the text that is left: the gap is before this byte.
    pub at: usize,
    /// How many lines ended in it; none where a long line was cut.
    pub newlines: usize,
}

/// A text with its gaps, in order.
#[derive(Debug, Clone, Copy)]
pub(super) struct ExcerptText<'a> {
    pub text: &'a [u8],
    gaps: &'a [ExcerptGap],
}

impl<'a> ExcerptText<'a> {
    pub(super) fn new(text: &'a [u8], gaps: &'a [ExcerptGap]) -> Self {
        Self { text, gaps }
    }

    /// How many lines end in this part. What is left out before it begins belongs to what is before, but for the gap
    /// that everything begins with.
    pub(super) fn newlines_in_range(self, range: Range<usize>) -> usize {
        let first = if range.start == 0 {
            0
        } else {
            self.gaps.partition_point(|gap| gap.at <= range.start)
        };
        let left_out = self.gaps[first..]
            .iter()
            .take_while(|gap| gap.at <= range.end);
        memchr_iter(b'\n', &self.text[range.clone()]).count()
            + left_out.map(|gap| gap.newlines).sum::<usize>()
    }

    /// Whether a long line was cut.
    pub(super) fn has_cut_lines(self) -> bool {
        self.gaps.iter().any(|gap| gap.newlines == 0)
    }
}

impl<'a> From<&'a [u8]> for ExcerptText<'a> {
    fn from(text: &'a [u8]) -> Self {
        Self { text, gaps: &[] }
    }
}

impl<'a, const N: usize> From<&'a [u8; N]> for ExcerptText<'a> {
    fn from(text: &'a [u8; N]) -> Self {
        Self { text, gaps: &[] }
    }
}

impl<'a> From<&'a Vec<u8>> for ExcerptText<'a> {
    fn from(text: &'a Vec<u8>) -> Self {
        Self { text, gaps: &[] }
    }
}
