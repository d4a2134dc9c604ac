//! A text for an answer from which long parts may be omitted, with its original line numbers.

use std::ops::Range;

use memchr::memchr_iter;

/// A gap where text was omitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ExcerptGap {
    /// The byte offset in the remaining text that follows the gap.
    pub at: usize,
    /// The number of line endings in the gap; zero where a long line was cut.
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

    /// Counts the line endings in this part. A gap at the part's start belongs to the text before
    /// it, except for the gap at the beginning of the whole text.
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

    /// Returns whether a long line was cut.
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
