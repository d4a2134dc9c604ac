//! What is put in a place: the new text with the indentation and the line endings that are there. Not here: finding the
//! place (matcher).

use std::ops::Range;

use memchr::{memchr, memchr_iter, memrchr};

use super::keeping;
use super::leniency::Tier;
use super::matcher::Place;

/// The nearest line ending is looked for so far from a place, in bytes.
pub(super) const NEAR: usize = 4 << 10;

/// How the file's lines are indented against the quoted ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Indent {
    Same,
    Deeper(Vec<u8>),
    Shallower(Vec<u8>),
}

/// How a line ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ending {
    Lf,
    Crlf,
    /// A carriage return alone, as in files of old.
    Cr,
}

impl Ending {
    /// How the first line ends; `Lf` where there is none.
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

    /// How the lines in or around a place end: most of those in it decide, else the nearest one behind or before it.
    /// None where there is no line end so near.
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

    fn bytes(self) -> &'static [u8] {
        match self {
            Self::Lf => b"\n",
            Self::Crlf => b"\r\n",
            Self::Cr => b"\r",
        }
    }
}

/// What to put in a place: `new` with the indentation and the line endings that are there.
pub(super) fn replacement(text: &[u8], old: &str, new: &str, tier: Tier, place: &Place) -> Vec<u8> {
    if tier == Tier::Exact && is_literal(old, new) {
        return new.as_bytes().to_vec();
    }
    let fit = |text: &str| match &place.indent {
        Indent::Same => text.as_bytes().to_vec(),
        Indent::Deeper(more) => reindent(text, |line| [more, line].concat()),
        Indent::Shallower(less) => {
            reindent(text, |line| line.strip_prefix(less.as_slice()).unwrap_or(line).to_vec())
        }
    };
    let ending = Ending::around(text, &place.range).unwrap_or(place.ending);
    let there = &text[place.range.clone()];
    if tier > Tier::Exact
        && let Some(kept) = keeping::keep(there, (old, new), tier, fit, ending.bytes())
    {
        return kept;
    }
    ended(fit(&new.replace("\r\n", "\n")), ending)
}

/// Whether the new text goes as it is to wherever the old one stands exactly. Who writes carriage returns in an exact
/// quote means them.
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

fn reindent(text: &str, change: impl Fn(&[u8]) -> Vec<u8>) -> Vec<u8> {
    text.split_inclusive('\n')
        .flat_map(
            |line| if line.trim().is_empty() { line.as_bytes().to_vec() } else { change(line.as_bytes()) },
        )
        .collect()
}
