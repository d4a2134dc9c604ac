//! Fits a new text to its place: the indentation and the line endings that are there. Not here: finding the place
//! (matcher).

use std::ops::Range;

use memchr::{memchr, memchr_iter, memrchr};

use super::keeping;
use super::match_tier::Tier;

/// The nearest line ending is looked for so far from a place, in bytes.
pub(super) const NEAR: usize = 4 << 10;

/// The place of a quoted text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub range: Range<usize>,
    pub indent: Indent,
    /// The ending of lines where nothing nearer says it.
    pub ending: Ending,
}

/// The indentation of the file's lines against that of the quoted ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Indent {
    Same,
    Deeper(Vec<u8>),
    Shallower(Vec<u8>),
}

impl Indent {
    /// Compares two indentations; none where neither ends with the other.
    pub(super) fn between(of_file: &[u8], of_quote: &[u8]) -> Option<Self> {
        if of_file == of_quote {
            return Some(Self::Same);
        }
        let more = of_file.strip_suffix(of_quote).map(|more| Self::Deeper(more.to_vec()));
        more.or_else(|| of_quote.strip_suffix(of_file).map(|less| Self::Shallower(less.to_vec())))
    }

    /// Indents lines as the file does. Blank lines stay as they are.
    fn apply(&self, text: &str) -> Vec<u8> {
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
pub(super) enum Ending {
    Lf,
    Crlf,
    /// A carriage return alone, as in files of old.
    Cr,
}

impl Ending {
    /// The ending of the first line; `Lf` where there is none.
    pub(super) fn of_file(text: &[u8]) -> Self {
        match memchr(b'\n', text) {
            Some(at) => Self::at(text, at),
            // One alone may be there by accident.
            None if memchr_iter(b'\r', text).nth(1).is_some() => Self::Cr,
            None => Self::Lf,
        }
    }

    /// Of a line feed.
    fn at(text: &[u8], newline: usize) -> Self {
        if newline > 0 && text[newline - 1] == b'\r' { Self::Crlf } else { Self::Lf }
    }

    /// The ending of the lines in or around a place: most of those in it decide, else the nearest one behind or
    /// before it. None where no line ends so near.
    pub(super) fn around(text: &[u8], range: &Range<usize>) -> Option<Self> {
        let (mut crlf, mut all) = (0_usize, 0_usize);
        for at in memchr_iter(b'\n', &text[range.clone()]) {
            all += 1;
            crlf += usize::from(Self::at(text, range.start + at) == Self::Crlf);
        }
        if all > 0 {
            return Some(if crlf * 2 > all { Self::Crlf } else { Self::Lf });
        }
        let behind = &text[range.end..text.len().min(range.end + NEAR)];
        let from = range.start.saturating_sub(NEAR);
        let nearest = memchr(b'\n', behind)
            .map(|at| range.end + at)
            .or_else(|| memrchr(b'\n', &text[from..range.start]).map(|at| from + at));
        nearest.map(|at| Self::at(text, at))
    }

    pub(super) fn bytes(self) -> &'static [u8] {
        match self {
            Self::Lf => b"\n",
            Self::Crlf => b"\r\n",
            Self::Cr => b"\r",
        }
    }
}

/// The text to put in a place: `new` with the indentation and the line endings that are there.
pub(super) fn replacement(text: &[u8], old: &str, new: &str, tier: Tier, place: &Place) -> Vec<u8> {
    if tier == Tier::Exact && is_literal(old, new) {
        return new.as_bytes().to_vec();
    }
    let fit = |text: &str| place.indent.apply(text);
    let ending = Ending::around(text, &place.range).unwrap_or(place.ending);
    let there = &text[place.range.clone()];
    if tier > Tier::Exact
        && let Some(kept) = keeping::keep(there, (old, new), tier, fit, ending.bytes())
    {
        return kept;
    }
    ended(fit(&new.replace("\r\n", "\n")), ending)
}

/// Tells whether the new text goes as it is to wherever the old one stands exactly. Carriage returns in an exact quote
/// are meant.
pub(super) fn is_literal(old: &str, new: &str) -> bool {
    !new.contains(['\n', '\r']) || old.contains('\r') || new.contains('\r')
}

/// Lines that end with a line feed, with this ending.
pub(super) fn ended(indented: Vec<u8>, ending: Ending) -> Vec<u8> {
    if ending == Ending::Lf {
        return indented;
    }
    let mut out = Vec::with_capacity(indented.len() + 16);
    for line in indented.split_inclusive(|byte| *byte == b'\n') {
        match line.strip_suffix(b"\n") {
            Some(body) => {
                out.extend_from_slice(body);
                out.extend_from_slice(ending.bytes());
            }
            None => out.extend_from_slice(line),
        }
    }
    out
}
