//! Adapts a new text to the indentation and the line endings of its place. Not here: finding the
//! place (quote_search).

use std::ops::Range;

use memchr::{memchr, memchr_iter, memrchr};

use super::match_tier::MatchTier;
use super::preserve_unchanged;

/// The distance, in bytes, within which the nearest line ending is searched.
pub(super) const MAX_ENDING_DISTANCE: usize = 4 << 10;

/// The place of a quoted text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct QuotePlace {
    pub range: Range<usize>,
    pub indent: IndentShift,
    /// The line ending to use where none is nearer.
    pub ending: LineEnding,
}

/// The indentation of the file's lines relative to the quoted ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum IndentShift {
    Same,
    Deeper(Vec<u8>),
    Shallower(Vec<u8>),
}

impl IndentShift {
    /// Compares two indentations; `None` if neither ends with the other.
    pub(super) fn between_indents(of_file: &[u8], of_quote: &[u8]) -> Option<Self> {
        if of_file == of_quote {
            return Some(Self::Same);
        }
        let more = of_file
            .strip_suffix(of_quote)
            .map(|more| Self::Deeper(more.to_vec()));
        more.or_else(|| {
            of_quote
                .strip_suffix(of_file)
                .map(|less| Self::Shallower(less.to_vec()))
        })
    }

    /// Indents lines as the file does. Blank lines stay unchanged.
    fn shift_lines(&self, text: &str) -> Vec<u8> {
        let mut out = Vec::with_capacity(text.len());
        for line in text.split_inclusive('\n') {
            let bytes = line.as_bytes();
            let is_blank = line.trim().is_empty();
            match self {
                Self::Deeper(more) if !is_blank => out.extend([more, bytes].concat()),
                Self::Shallower(less) if !is_blank => {
                    out.extend_from_slice(bytes.strip_prefix(less.as_slice()).unwrap_or(bytes));
                }
                _ => out.extend_from_slice(bytes),
            }
        }
        out
    }
}

/// The ending of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineEnding {
    Lf,
    Crlf,
    /// A carriage return alone, as in classic Mac OS files.
    Cr,
}

impl LineEnding {
    /// The ending of the first line; `Lf` if there is none.
    pub(super) fn first_of_file(text: &[u8]) -> Self {
        match memchr(b'\n', text) {
            Some(at) => Self::of_newline_at(text, at),
            // A single one may be there by accident.
            None if memchr_iter(b'\r', text).nth(1).is_some() => Self::Cr,
            None => Self::Lf,
        }
    }

    /// The ending at a line feed.
    fn of_newline_at(text: &[u8], newline: usize) -> Self {
        if newline > 0 && text[newline - 1] == b'\r' {
            Self::Crlf
        } else {
            Self::Lf
        }
    }

    /// The most frequent line ending in a place, otherwise the nearest one after or before it.
    /// `None` if no line ends nearby.
    pub(super) fn nearest_to_range(text: &[u8], range: &Range<usize>) -> Option<Self> {
        let (mut crlf, mut all) = (0_usize, 0_usize);
        for at in memchr_iter(b'\n', &text[range.clone()]) {
            all += 1;
            crlf += usize::from(Self::of_newline_at(text, range.start + at) == Self::Crlf);
        }
        if all > 0 {
            return Some(if crlf * 2 > all { Self::Crlf } else { Self::Lf });
        }
        let behind = &text[range.end..text.len().min(range.end + MAX_ENDING_DISTANCE)];
        let from = range.start.saturating_sub(MAX_ENDING_DISTANCE);
        let nearest = memchr(b'\n', behind)
            .map(|at| range.end + at)
            .or_else(|| memrchr(b'\n', &text[from..range.start]).map(|at| from + at));
        nearest.map(|at| Self::of_newline_at(text, at))
    }

    pub(super) fn ending_bytes(self) -> &'static [u8] {
        match self {
            Self::Lf => b"\n",
            Self::Crlf => b"\r\n",
            Self::Cr => b"\r",
        }
    }
}

/// The replacement text of a place: `new` with the place's indentation and line endings.
pub(super) fn fit_replacement(
    text: &[u8],
    old: &str,
    new: &str,
    tier: MatchTier,
    place: &QuotePlace,
) -> Vec<u8> {
    if tier == MatchTier::Exact && is_literal(old, new) {
        return new.as_bytes().to_vec();
    }
    let fit = |text: &str| place.indent.shift_lines(text);
    let ending = LineEnding::nearest_to_range(text, &place.range).unwrap_or(place.ending);
    let there = &text[place.range.clone()];
    if tier > MatchTier::Exact
        && let Some(kept) = preserve_unchanged::replace_preserving(
            there,
            (old, new),
            tier,
            fit,
            ending.ending_bytes(),
        )
    {
        return kept;
    }
    convert_line_endings(fit(&new.replace("\r\n", "\n")), ending)
}

/// Returns whether the new text is inserted unchanged wherever the old one matches exactly.
/// Carriage returns in an exact quote are intended.
pub(super) fn is_literal(old: &str, new: &str) -> bool {
    !new.contains(['\n', '\r']) || old.contains('\r') || new.contains('\r')
}

/// Converts line feeds to this ending.
pub(super) fn convert_line_endings(indented: Vec<u8>, ending: LineEnding) -> Vec<u8> {
    if ending == LineEnding::Lf {
        return indented;
    }
    let mut out = Vec::with_capacity(indented.len() + 16);
    for line in indented.split_inclusive(|byte| *byte == b'\n') {
        match line.strip_suffix(b"\n") {
            Some(body) => {
                out.extend_from_slice(body);
                out.extend_from_slice(ending.ending_bytes());
            }
            None => out.extend_from_slice(line),
        }
    }
    out
}
