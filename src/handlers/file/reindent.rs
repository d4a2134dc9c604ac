//! Adapts a new text to the indentation and the line endings of its place.

use std::ops::Range;

use memchr::{memchr, memchr_iter, memrchr};

use super::match_tier::{MatchTier, has_typographic_char, plain_spelling, split_indent};
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
    /// The one has tabs where the other has so many blanks.
    Columns {
        width: usize,
        /// The file has the tabs.
        in_tabs: bool,
        /// The columns of the file's lines, less those of the quoted ones.
        deeper: isize,
    },
}

impl IndentShift {
    /// Compares two indentations; `None` if neither ends with the other.
    pub(super) fn between(of_file: &[u8], of_quote: &[u8]) -> Option<Self> {
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

    /// Compares the indentation of lines of the file with that of quoted ones, where the ones have tabs for blanks of the
    /// others. `None` if no width of a tab explains all of them, or several do.
    pub(super) fn between_tabs_and_blanks(pairs: &[(&[u8], &[u8])]) -> Option<Self> {
        let in_tabs = pairs.iter().any(|(file, _)| file.contains(&b'\t'));
        if !in_tabs && !pairs.iter().any(|(_, quote)| quote.contains(&b'\t')) {
            return None;
        }
        let shift = |width: usize| {
            let mut all = pairs.iter().map(|(file, quote)| {
                columns_of(file, width).cast_signed() - columns_of(quote, width).cast_signed()
            });
            let first = all.next()?;
            all.all(|deeper| deeper == first).then_some(Self::Columns {
                width,
                in_tabs,
                deeper: first,
            })
        };
        let fitting: Vec<Self> = TAB_WIDTHS.into_iter().filter_map(shift).collect();
        let is_aligned = |shift: &&Self| matches!(shift, Self::Columns { deeper: 0, .. });
        match fitting.as_slice() {
            [only] => Some(only.clone()),
            several => several.iter().find(is_aligned).cloned(),
        }
    }

    /// Takes back what [`Self::apply_to`] does, if it can be taken back from every line.
    fn unshift_lines(&self, text: &str) -> Option<String> {
        let mut out = String::with_capacity(text.len());
        for line in text.split_inclusive('\n') {
            let is_blank = line.trim().is_empty();
            match self {
                Self::Deeper(more) if !is_blank => {
                    out.push_str(line.strip_prefix(str::from_utf8(more).ok()?)?);
                }
                Self::Shallower(less) if !is_blank => {
                    out.push_str(str::from_utf8(less).ok()?);
                    out.push_str(line);
                }
                Self::Columns { .. } => return None,
                _ => out.push_str(line),
            }
        }
        Some(out)
    }

    /// Indents lines as the file does. Blank lines stay unchanged.
    fn apply_to(&self, text: &str) -> Vec<u8> {
        let mut out = Vec::with_capacity(text.len());
        for line in text.split_inclusive('\n') {
            let bytes = line.as_bytes();
            let is_blank = line.trim().is_empty();
            match self {
                Self::Deeper(more) if !is_blank => out.extend([more, bytes].concat()),
                Self::Shallower(less) if !is_blank => {
                    out.extend_from_slice(bytes.strip_prefix(less.as_slice()).unwrap_or(bytes));
                }
                Self::Columns {
                    width,
                    in_tabs,
                    deeper,
                } if !is_blank => {
                    let (indent, rest) = split_indent(bytes);
                    let columns = columns_of(indent, *width).saturating_add_signed(*deeper);
                    let tabs = if *in_tabs { columns / width } else { 0 };
                    out.extend(std::iter::repeat_n(b'\t', tabs));
                    out.extend(std::iter::repeat_n(b' ', columns - tabs * width));
                    out.extend_from_slice(rest);
                }
                _ => out.extend_from_slice(bytes),
            }
        }
        out
    }
}

/// The widths of a tab that are tried.
const TAB_WIDTHS: [usize; 4] = [4, 2, 8, 3];

fn columns_of(indent: &[u8], width: usize) -> usize {
    let columns = |byte: &u8| if *byte == b'\t' { width } else { 1 };
    indent.iter().map(columns).sum()
}

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
        let mut crlf = 0_usize;
        let mut all = 0_usize;
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

    pub(super) fn bytes(self) -> &'static [u8] {
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
    let there = &text[place.range.clone()];
    let (old, new) = (
        plain_like_file(there, old, old),
        plain_like_file(there, old, new),
    );
    let ending = LineEnding::nearest_to_range(text, &place.range).unwrap_or(place.ending);
    let is_fitted = is_indented_like_file(there, &old, &new, &place.indent);
    let unshifted = if is_fitted {
        place.indent.unshift_lines(&new)
    } else {
        Some(new.clone())
    };
    let fit = |text: &str| place.indent.apply_to(text);
    if tier > MatchTier::Exact
        && let Some(new) = &unshifted
        && let Some(kept) =
            preserve_unchanged::replace_preserving(there, (&old, new), tier, fit, ending.bytes())
    {
        return kept;
    }
    let new = new.replace("\r\n", "\n");
    let fitted = if is_fitted {
        new.into_bytes()
    } else {
        fit(&new)
    };
    convert_line_endings(fitted, ending)
}

/// Returns whether the new text has the file's indentation already, and not that of the quoted text. The first line that
/// both texts have decides, or else their first lines.
pub(super) fn is_indented_like_file(
    there: &[u8],
    old: &str,
    new: &str,
    indent: &IndentShift,
) -> bool {
    if *indent == IndentShift::Same {
        return false;
    }
    let first = |text: &str| text.lines().position(|line| !line.trim().is_empty());
    let shared = new
        .lines()
        .filter(|line| !line.trim().is_empty())
        .find_map(|line| {
            let at = old.lines().position(|was| was.trim() == line.trim())?;
            Some((line, at))
        });
    let Some((line, at)) = shared.or_else(|| Some((new.lines().nth(first(new)?)?, first(old)?)))
    else {
        return false;
    };
    let of_file = there
        .split(|byte| *byte == b'\n')
        .nth(at)
        .map(|line| split_indent(line).0);
    let of_old = old
        .lines()
        .nth(at)
        .map(|line| split_indent(line.as_bytes()).0);
    let of_new = Some(split_indent(line.as_bytes()).0);
    of_new == of_file && of_new != of_old
}

/// Replaces in a text the typographic characters of the quote by plain ones, where the file has plain ones for them.
fn plain_like_file(there: &[u8], old: &str, text: &str) -> String {
    if has_typographic_char(there) || !has_typographic_char(old.as_bytes()) {
        return text.to_owned();
    }
    let mut plain = String::with_capacity(text.len());
    for c in text.chars() {
        match plain_spelling(c).filter(|_| old.contains(c)) {
            Some(spelling) => plain.push_str(spelling),
            None => plain.push(c),
        }
    }
    plain
}

/// Returns whether the new text is inserted unchanged wherever the old one matches exactly.
/// Carriage returns in an exact quote are intended.
pub(super) fn is_literal(old: &str, new: &str) -> bool {
    !new.contains('\n') || old.contains('\r')
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
                out.extend_from_slice(ending.bytes());
            }
            None => out.extend_from_slice(line),
        }
    }
    out
}
