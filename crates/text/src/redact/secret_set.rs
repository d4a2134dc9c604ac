//! The known secret values in all their encodings, and the search for them in bytes.

use std::fmt;
use std::ops::Range;

use super::multi_pattern_search::MultiPatternSearch;
use super::unescaped::{self, UnescapedBytes};

/// The set of encodings to search for, rebuilt with every addition.
#[derive(Default)]
pub(super) struct SecretSet {
    /// Sorted and unique.
    encodings: Vec<String>,
    /// A bit for the first two bytes of every encoding.
    firsts: Vec<u64>,
    longest: usize,
    /// Some encoding contains the start of an escape sequence.
    has_escapes: bool,
    finder: Option<MultiPatternSearch>,
}

/// The matches in some bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SecretMatches {
    /// The ranges of known values: in order, without overlap.
    pub ranges: Vec<Range<usize>>,
    /// The offset up to which further bytes cannot change the result.
    pub decided: usize,
}

impl SecretSet {
    /// Returns whether all these encodings are in the set.
    pub fn contains_all(&self, forms: &[String]) -> bool {
        forms
            .iter()
            .all(|form| self.encodings.binary_search(form).is_ok())
    }

    /// Returns the set with these encodings added.
    pub fn with_encodings(&self, more: Vec<String>) -> Self {
        let mut forms = self.encodings.clone();
        forms.extend(more);
        forms.sort_unstable();
        forms.dedup();
        let mut firsts = vec![0; (1 << 16) / 64];
        for form in &forms {
            let (word, bit) = first_bytes_bit(form.as_bytes());
            firsts[word] |= bit;
        }
        let longest = forms.iter().map(String::len).max().unwrap_or(0);
        let is_escaping = forms
            .iter()
            .any(|form| unescaped::has_escapes(form.as_bytes()));
        let finder = MultiPatternSearch::new(&forms);
        Self {
            encodings: forms,
            firsts,
            longest,
            has_escapes: is_escaping,
            finder,
        }
    }

    /// Returns the length of the longest encoding.
    pub fn longest_encoding(&self) -> usize {
        self.longest
    }

    /// Finds every known value, plain and with escape sequences within it. The result does not depend on how a text
    /// was cut into chunks: further bytes cannot change the part before `decided`. Set `at_end` if no bytes follow.
    pub fn find(&self, bytes: &[u8], at_end: bool) -> SecretMatches {
        let Some(finder) = &self.finder else {
            return SecretMatches {
                ranges: Vec::new(),
                decided: bytes.len(),
            };
        };
        let shown = UnescapedBytes::remove_escapes(bytes, at_end);
        let places = match &shown {
            None => finder.find_matches(&self.encodings, bytes).collect(),
            Some(shown) => {
                let mut places: Vec<Range<usize>> = finder
                    .find_matches(&self.encodings, &shown.bytes)
                    .map(|found| shown.original_range(&found))
                    .collect();
                // Include the rest of a sequence. If it were cut, it would end elsewhere and hide or show other text.
                let mut look = |part| {
                    let within = finder.find_matches_in(part, &self.encodings, bytes);
                    places.extend(within.map(|place| shown.extend_to_sequences(&place, bytes)));
                };
                if self.has_escapes {
                    look(0..bytes.len());
                } else {
                    // No encoding spans the start of a sequence, so text before or after it was already searched.
                    shown.sequence_interiors().for_each(look);
                }
                places
            }
        };
        let places = merge_overlaps(places);
        let decided = if at_end {
            bytes.len()
        } else {
            self.decided_length(bytes, shown.as_ref(), &places)
        };
        SecretMatches {
            ranges: places,
            decided,
        }
    }

    /// Returns the offset up to which further bytes cannot change the matches. The rest is searched again as if
    /// nothing preceded it, so it begins neither inside a match nor inside a sequence.
    fn decided_length(
        &self,
        bytes: &[u8],
        shown: Option<&UnescapedBytes>,
        places: &[Range<usize>],
    ) -> usize {
        let mut decided = self.undecided_start(bytes);
        if let Some(shown) = shown {
            let undecided = self.undecided_start(&shown.bytes);
            if undecided < shown.bytes.len() {
                decided = decided.min(shown.original_offset(undecided));
            }
            decided = decided.min(shown.open.unwrap_or(decided));
        }
        loop {
            let last = places
                .partition_point(|place| place.start < decided)
                .checked_sub(1);
            let over = last
                .map(|last| &places[last])
                .filter(|place| decided < place.end);
            let whole = over.map_or(decided, |place| place.start);
            let border = shown.map_or(whole, |shown| shown.sequence_start(whole));
            if border == decided {
                return decided;
            }
            decided = border;
        }
    }

    /// Returns the start of a suffix that may still become a known value, or the length if there is none.
    fn undecided_start(&self, bytes: &[u8]) -> usize {
        let from = (bytes.len() + 1).saturating_sub(self.longest);
        (from..bytes.len())
            .find(|&at| {
                let rest = &bytes[at..];
                (rest.len() < 2 || self.may_start_encoding(rest)) && self.is_encoding_prefix(rest)
            })
            .unwrap_or(bytes.len())
    }

    #[inline]
    fn may_start_encoding(&self, rest: &[u8]) -> bool {
        let (word, bit) = first_bytes_bit(rest);
        self.firsts[word] & bit != 0
    }

    fn is_encoding_prefix(&self, part: &[u8]) -> bool {
        let at = self
            .encodings
            .partition_point(|form| form.as_bytes() <= part);
        self.encodings
            .get(at)
            .is_some_and(|form| form.as_bytes().starts_with(part))
    }
}

/// Returns the word and the bit for the first two bytes.
#[inline]
fn first_bytes_bit(bytes: &[u8]) -> (usize, u64) {
    let number = usize::from(bytes[0]) << 8 | usize::from(bytes[1]);
    (number / 64, 1 << (number % 64))
}

fn merge_overlaps(mut places: Vec<Range<usize>>) -> Vec<Range<usize>> {
    places.sort_unstable_by_key(|place| place.start);
    let mut joined: Vec<Range<usize>> = Vec::with_capacity(places.len());
    for place in places {
        match joined.last_mut() {
            Some(last) if place.start < last.end => last.end = last.end.max(place.end),
            _ => joined.push(place),
        }
    }
    joined
}

impl fmt::Debug for SecretSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Known({} forms)", self.encodings.len())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn what_stands_within_sequences_is_found_as_if_everything_were_looked_at(
            forms in prop::collection::btree_set("[ab3;m\\[\\]]{3,9}", 1..20),
            text in "(?:[ab3;m\\[\\]]|\x1b|\x1b\\[3?m|\x1b\\][ab3;]{0,9}(?:\x07|\x1b\\\\)|\0){0,60}", at_end: bool,
        ) {
            let known = SecretSet::default().with_encodings(forms.into_iter().collect());
            prop_assert!(!known.has_escapes);
            let found = known.find(text.as_bytes(), at_end);
            let all = SecretSet { has_escapes: true, ..known }.find(text.as_bytes(), at_end);
            let decided = all.decided;
            prop_assert_eq!(found.decided, decided);
            let until = |found: SecretMatches| {
                found.ranges.into_iter().take_while(|place| place.end <= decided).collect::<Vec<_>>()
            };
            prop_assert_eq!(until(found), until(all));
        }
    }

    #[test]
    fn a_value_with_the_beginning_of_a_sequence_in_it_is_found() {
        let known = SecretSet::default().with_encodings(vec!["ab\x1b[31mcd".to_owned()]);
        assert_eq!(
            known.find(b"x ab\x1b[31mcd y", true).ranges,
            [Range { start: 2, end: 11 }]
        );
    }
}
