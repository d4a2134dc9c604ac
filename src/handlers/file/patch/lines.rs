//! The lines of a file, compared with those of a hunk as strictly as a tier asks, and found by an index. Not here:
//! which of several places is meant (placing).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

use memchr::memchr_iter;

use super::Line;
use crate::handlers::file::leniency::{Plain, Tier, split_indent};

/// The tiers, strictest first.
pub(super) const TIERS: [Tier; 5] =
    [Tier::Exact, Tier::LineEndings, Tier::TrailingSpace, Tier::Typography, Tier::Indentation];

/// UTF-8's byte order mark.
pub(super) const MARK: &str = "\u{FEFF}";

/// How a file's lines are indented against a hunk's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Shift {
    /// In the same way.
    None,
    /// By this much more.
    Deeper(Vec<u8>),
    /// By this much less.
    Shallower(Vec<u8>),
}

/// The lines of a file.
pub(super) struct FileLines<'t> {
    pub text: &'t [u8],
    starts: Vec<usize>,
    /// For each tier that was needed: the lines by the hash of what it compares.
    indexes: BTreeMap<Tier, Vec<(u32, u32)>>,
}

impl<'t> FileLines<'t> {
    /// The lines of this text. A byte order mark is no part of the first line, unless `with_mark`.
    pub(super) fn of(text: &'t [u8], with_mark: bool) -> Self {
        let first = if !with_mark && text.starts_with(MARK.as_bytes()) { MARK.len() } else { 0 };
        let mut starts = vec![first];
        starts.extend(memchr_iter(b'\n', &text[first..]).map(|at| first + at + 1));
        if starts.last() == Some(&text.len()) {
            starts.pop();
        }
        Self { text, starts, indexes: BTreeMap::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    /// Where a line begins; behind the last one, where the text ends.
    pub(super) fn start(&self, line: usize) -> usize {
        self.starts.get(line).copied().unwrap_or(self.text.len())
    }

    /// A line without its line feed.
    pub(super) fn body(&self, line: usize) -> &'t [u8] {
        let whole = &self.text[self.start(line)..self.start(line + 1)];
        whole.strip_suffix(b"\n").unwrap_or(whole)
    }

    pub(super) fn has_newline(&self, line: usize) -> bool {
        self.text[..self.start(line + 1)].ends_with(b"\n")
    }

    /// Whether the lines from `at` on are these, and how they are indented then.
    pub(super) fn matches(&self, at: usize, wanted: &[&Line], tier: Tier) -> Option<Shift> {
        if at + wanted.len() > self.len() {
            return None;
        }
        let mut shift: Option<Shift> = None;
        for (line, wanted) in (at..).zip(wanted) {
            let (body, text) = (self.body(line), wanted.text.as_bytes());
            if tier == Tier::Exact {
                if body != text || self.has_newline(line) != wanted.newline {
                    return None;
                }
            } else if key(body, tier) != key(text, tier) {
                return None;
            } else if tier == Tier::Indentation && !key(body, tier).is_empty() {
                let this = shift_of(body, text)?;
                if *shift.get_or_insert_with(|| this.clone()) != this {
                    return None;
                }
            }
        }
        if tier == Tier::Indentation { shift } else { Some(Shift::None) }
    }

    /// Every line from which on these stand, in order.
    pub(super) fn places(&mut self, wanted: &[&Line], tier: Tier) -> Vec<usize> {
        if wanted.is_empty() || wanted.len() > self.len() {
            return Vec::new();
        }
        if !self.indexes.contains_key(&tier) {
            let mut index: Vec<(u32, u32)> = (0..self.len())
                .map(|line| (hash(&key(self.body(line), tier)), u32::try_from(line).unwrap_or(u32::MAX)))
                .collect();
            index.sort_unstable();
            self.indexes.insert(tier, index);
        }
        let index = &self.indexes[&tier];
        // The rarest of the lines leads to the places.
        let hits = |wanted: &Line| {
            let wanted = hash(&key(wanted.text.as_bytes(), tier));
            let from = index.partition_point(|(hash, _)| *hash < wanted);
            let to = index.partition_point(|(hash, _)| *hash <= wanted);
            &index[from..to]
        };
        let rarest = wanted.iter().map(|line| hits(line)).enumerate().min_by_key(|(_, hits)| hits.len());
        let Some((offset, hits)) = rarest else { return Vec::new() };
        hits.iter()
            .filter_map(|(_, line)| (*line as usize).checked_sub(offset))
            .filter(|at| self.matches(*at, wanted, tier).is_some())
            .collect()
    }

    /// The lines that have this text somewhere in them.
    pub(super) fn containing(&self, text: &str) -> Vec<usize> {
        let wanted = key(text.as_bytes(), Tier::Indentation);
        if wanted.is_empty() {
            return Vec::new();
        }
        let finder = memchr::memmem::Finder::new(&wanted);
        (0..self.len())
            .filter(|line| finder.find(&key(self.body(*line), Tier::Indentation)).is_some())
            .collect()
    }
}

/// What a tier compares of a line.
fn key(line: &[u8], tier: Tier) -> Cow<'_, [u8]> {
    match tier {
        Tier::Exact => Cow::Borrowed(line),
        Tier::LineEndings => Cow::Borrowed(line.strip_suffix(b"\r").unwrap_or(line)),
        Tier::TrailingSpace => Cow::Borrowed(line.trim_ascii_end()),
        Tier::Typography => match Plain::of(line, tier).bytes {
            Cow::Borrowed(bytes) => Cow::Borrowed(bytes.trim_ascii_end()),
            Cow::Owned(bytes) => Cow::Owned(bytes.trim_ascii_end().to_vec()),
        },
        Tier::Indentation => match Plain::of(line, tier).bytes {
            Cow::Borrowed(bytes) => Cow::Borrowed(split_indent(bytes).1.trim_ascii_end()),
            Cow::Owned(bytes) => Cow::Owned(split_indent(&bytes).1.trim_ascii_end().to_vec()),
        },
    }
}

fn hash(bytes: &[u8]) -> u32 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    u32::try_from(hasher.finish() >> 32).unwrap_or_default()
}

fn shift_of(body: &[u8], text: &[u8]) -> Option<Shift> {
    let (of_file, of_hunk) = (split_indent(body).0, split_indent(text).0);
    if of_file == of_hunk {
        return Some(Shift::None);
    }
    if let Some(more) = of_file.strip_suffix(of_hunk) {
        return Some(Shift::Deeper(more.to_vec()));
    }
    Some(Shift::Shallower(of_hunk.strip_suffix(of_file)?.to_vec()))
}

impl Shift {
    /// A hunk's line as it is indented in the file.
    pub(super) fn fit(&self, line: &str) -> Vec<u8> {
        let bytes = line.as_bytes();
        match self {
            _ if line.trim().is_empty() => bytes.to_vec(),
            Self::None => bytes.to_vec(),
            Self::Deeper(more) => [more, bytes].concat(),
            Self::Shallower(less) => bytes.strip_prefix(less.as_slice()).unwrap_or(bytes).to_vec(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Kind;
    use super::*;

    fn lines(text: &str) -> Vec<Line> {
        text.split('\n')
            .map(|text| Line { kind: Kind::Context, text: text.to_owned(), newline: true })
            .collect()
    }

    #[test]
    fn each_tier_finds_what_the_stricter_ones_do_not() {
        let text = "a\r\nsay “hi” \n    if x {\n      y\n    }\na\n".as_bytes();
        let mut file = FileLines::of(text, false);
        for (wanted, tier, expect) in [
            ("a", Tier::Exact, vec![5]),
            ("a", Tier::LineEndings, vec![0, 5]),
            ("say “hi”", Tier::TrailingSpace, vec![1]),
            ("say \"hi\"", Tier::Typography, vec![1]),
            ("if x {\n  y\n}", Tier::Indentation, vec![2]),
            ("if x {\n y\n}", Tier::Indentation, vec![]),
            ("}\na\nb", Tier::Exact, vec![]),
        ] {
            let wanted = lines(wanted);
            let wanted: Vec<&Line> = wanted.iter().collect();
            assert_eq!(file.places(&wanted, tier), expect, "{wanted:?}");
            if let Some(at) = expect.first() {
                let stricter = TIERS.iter().filter(|other| **other < tier);
                assert!(
                    tier == Tier::LineEndings
                        || stricter.clone().all(|tier| file.matches(*at, &wanted, *tier).is_none())
                );
            }
        }
        assert_eq!(file.containing("say \"hi"), [1]);
    }

    #[test]
    fn a_mark_belongs_to_the_first_line_only_when_asked_for() {
        let text = "\u{FEFF}a\nb".as_bytes();
        assert_eq!(FileLines::of(text, false).body(0), b"a");
        assert_eq!(FileLines::of(text, true).body(0), "\u{FEFF}a".as_bytes());
        let file = FileLines::of(text, false);
        assert!(file.has_newline(0) && !file.has_newline(1));
        assert_eq!((FileLines::of(b"", false).len(), FileLines::of(b"\n", false).len()), (0, 1));
        assert_eq!(FileLines::of(MARK.as_bytes(), false).len(), 0);
    }
}
