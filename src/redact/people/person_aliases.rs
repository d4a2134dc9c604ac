//! Finds identifiers of people in a text in one pass, and aliases in another. Of overlapping identifiers the leftmost
//! counts, of those that begin together the longest.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::fmt;
use std::ops::Range;

use aho_corasick::{AhoCorasick, MatchKind};

use super::folded_text::{FoldedText, MAX_SPACE_BYTES, fold_with_positions};
use super::phone_numbers::{MAX_PHONE_BYTES, PhoneForms};
use super::word_boundary::{is_mail_end, is_mail_start, is_name_boundary};
use super::{IdentifierKind, PersonIdentifier};

/// The identifiers of all people with their aliases.
pub struct PersonAliases {
    identifiers: Vec<PersonIdentifier>,
    /// Names and mails, folded.
    forward: AhoCorasick,
    /// The identifier of each pattern of `forward`.
    places: Vec<usize>,
    /// The folded patterns, sorted.
    sorted: Vec<String>,
    phones: PhoneForms,
    aliases: AhoCorasick,
    longest: usize,
}

/// An identifier in a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::redact) struct PersonMatch {
    pub range: Range<usize>,
    place: usize,
}

impl PersonAliases {
    /// Prepares the search for these identifiers. Too many for the search are refused; an error is part of a sentence.
    pub fn new(identifiers: Vec<PersonIdentifier>) -> Result<Self, String> {
        let (mut places, mut patterns) = (Vec::new(), Vec::new());
        for (place, identifier) in identifiers.iter().enumerate() {
            if identifier.kind != IdentifierKind::Phone {
                places.push(place);
                patterns.push(super::fold_text(identifier.text.trim()));
            }
        }
        let too_many = |error: aho_corasick::BuildError| error.to_string();
        let forward = AhoCorasick::builder()
            .match_kind(MatchKind::Standard)
            .build(&patterns)
            .map_err(too_many)?;
        let aliases = AhoCorasick::builder()
            .ascii_case_insensitive(true)
            .match_kind(MatchKind::LeftmostLongest)
            .build(identifiers.iter().map(|identifier| &identifier.alias))
            .map_err(too_many)?;
        let phones = identifiers.iter().enumerate();
        let phones = phones.filter(|(_, identifier)| identifier.kind == IdentifierKind::Phone);
        let phones = PhoneForms::new(phones.map(|(place, identifier)| (place, &*identifier.text)));
        // Decomposed letters and runs of white space make a name longer in text.
        let longest = patterns
            .iter()
            .map(|pattern| pattern.len() * 3 + pattern.matches(' ').count() * MAX_SPACE_BYTES)
            .max()
            .unwrap_or(0)
            .max(if phones.is_empty() {
                0
            } else {
                MAX_PHONE_BYTES
            });
        patterns.sort_unstable();
        Ok(Self {
            identifiers,
            forward,
            places,
            sorted: patterns,
            phones,
            aliases,
            longest,
        })
    }

    /// Replaces the identifiers of people by their aliases.
    pub fn replace_people<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let found = self.find_people(text);
        if found.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut out = String::with_capacity(text.len() + 16);
        let mut from = 0;
        for one in &found {
            out.push_str(&text[from..one.range.start]);
            out.push_str(self.alias_of(one));
            from = one.range.end;
        }
        out.push_str(&text[from..]);
        Cow::Owned(out)
    }

    /// Replaces aliases by the identifiers, as the owner wrote these, each written by `write`.
    pub fn resolve_aliases<'t>(&self, text: &'t str, write: fn(&str) -> String) -> Cow<'t, str> {
        let mut out = String::new();
        let mut from = 0;
        for found in self.aliases.find_iter(text) {
            out.push_str(&text[from..found.start()]);
            out.push_str(&write(&self.identifiers[found.pattern().as_usize()].text));
            from = found.end();
        }
        if from == 0 {
            return Cow::Borrowed(text);
        }
        out.push_str(&text[from..]);
        Cow::Owned(out)
    }

    /// Returns the length in bytes of the longest text that may be an identifier.
    pub(in crate::redact) fn longest_text(&self) -> usize {
        self.longest
    }

    pub(in crate::redact) fn alias_of(&self, found: &PersonMatch) -> &str {
        &self.identifiers[found.place].alias
    }

    /// Finds all identifiers, in order, none over another.
    pub(in crate::redact) fn find_people(&self, text: &str) -> Vec<PersonMatch> {
        let mut found = self.find_candidates(text, &fold_with_positions(text));
        keep_leftmost_longest(&mut found);
        found
    }

    /// Finds identifiers, and the position up to which later text cannot change them.
    pub(in crate::redact) fn find_decided(&self, text: &str) -> (Vec<PersonMatch>, usize) {
        let folded = fold_with_positions(text);
        let mut found = self.find_candidates(text, &folded);
        keep_leftmost_longest(&mut found);
        let mut decided = self.open_position(&folded);
        if !self.phones.is_empty() {
            decided = decided.min(self.phones.open_start(text.as_bytes()));
        }
        decided = decided.min(text.len());
        // The two characters after an identifier decide if it ends there.
        let is_open = |one: &PersonMatch| text[one.range.end..].chars().nth(1).is_none();
        if let Some(open) = found
            .iter()
            .find(|one| is_open(one) || one.range.end > decided)
        {
            decided = decided.min(open.range.start);
        }
        found.retain(|one| one.range.end <= decided);
        (found, decided)
    }

    /// Returns the position in the source at which a name or a mail may begin that later text completes.
    fn open_position(&self, folded: &FoldedText) -> usize {
        let text = &folded.text;
        // A mark that follows may change the last letter.
        let last = text.chars().next_back();
        let core_end = text.len() - last.filter(|c| c.is_alphabetic()).map_or(0, char::len_utf8);
        let longest = self.sorted.iter().map(String::len).max().unwrap_or(0);
        let from = text.ceil_char_boundary(text.len().saturating_sub(longest + 4));
        let is_beginning = |part: &str| {
            let at = self
                .sorted
                .partition_point(|pattern| pattern.as_str() < part);
            !part.is_empty()
                && self
                    .sorted
                    .get(at)
                    .is_some_and(|pattern| pattern.starts_with(part))
        };
        let starts = text[from..].char_indices().map(|(at, _)| from + at);
        let open = starts
            .take_while(|at| *at < core_end)
            .find(|at| is_beginning(&text[*at..]) || is_beginning(&text[*at..core_end]));
        folded.source_end(open.unwrap_or(core_end))
    }

    fn find_candidates(&self, text: &str, folded: &FoldedText) -> Vec<PersonMatch> {
        let mut found = Vec::new();
        for one in self.forward.find_overlapping_iter(&folded.text) {
            let place = self.places[one.pattern().as_usize()];
            let (start, end) = (one.start(), one.end());
            if !stands_alone(&folded.text, start..end, self.identifiers[place].kind) {
                continue;
            }
            let range = folded.source_position(start)..folded.source_end(end);
            // A position within a letter that became two is none.
            if range.start < range.end
                && text.is_char_boundary(range.start)
                && text.is_char_boundary(range.end)
            {
                found.push(PersonMatch { range, place });
            }
        }
        if !self.phones.is_empty() {
            let mut numbers = Vec::new();
            self.phones.find_numbers(text.as_bytes(), &mut numbers);
            found.extend(
                numbers
                    .into_iter()
                    .map(|(range, place)| PersonMatch { range, place }),
            );
        }
        found
    }
}

/// Returns whether a match in a folded text is not a part of something longer.
fn stands_alone(text: &str, range: Range<usize>, kind: IdentifierKind) -> bool {
    if kind == IdentifierKind::Mail {
        return is_mail_start(text, range.start) && is_mail_end(text, range.end);
    }
    let name = &text[range.clone()];
    is_name_boundary(text[..range.start].chars().next_back(), name.chars().next())
        && is_name_boundary(name.chars().next_back(), text[range.end..].chars().next())
}

/// Returns the matches in order, without those that overlap an earlier or longer one.
fn keep_leftmost_longest(found: &mut Vec<PersonMatch>) {
    found.sort_unstable_by_key(|one| (one.range.start, Reverse(one.range.end)));
    let mut end = 0;
    found.retain(|one| {
        let is_free = one.range.start >= end;
        if is_free {
            end = one.range.end;
        }
        is_free
    });
}

impl fmt::Debug for PersonAliases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PersonAliases({} identifiers)", self.identifiers.len())
    }
}
