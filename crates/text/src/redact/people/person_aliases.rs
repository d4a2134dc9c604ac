//! Finds identifiers of people in a text in one pass, and aliases in another. Of overlapping identifiers the leftmost
//! counts, of those that begin together the longest.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::fmt;
use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, Anchored, Input, MatchKind, StartKind};
use regex::Regex;

use super::folded_text::{FoldedText, MAX_SPACE_BYTES, fold_with_positions};
use super::phone_numbers::{MAX_PHONE_BYTES, PhoneForms};
use super::word_boundary::{is_mail_end, is_mail_start, is_name_boundary, is_name_start};
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

/// An alias in a regular expression.
static IN_PATTERN: LazyLock<Regex> = LazyLock::new(|| {
    let form = r"(?i-u)person\\?-[a-z2-9]{7}(?:@example\\?\.invalid)?|\\?\+999[0-9]{12}";
    Regex::new(form).expect("a constant")
});

/// Returns whether there may be an alias in a text, also an escaped one in JSON.
pub(in crate::redact) fn may_have_alias(text: &str) -> bool {
    static ANYWHERE: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"(?i-u)person\\*-[a-z2-9]{7}|\+999[0-9]{12}|\\u").expect("a constant")
    });
    ANYWHERE.is_match(text)
}

impl PersonIdentifier {
    /// Returns whether it would be found between these texts.
    fn stands_between(&self, before: &str, after: &str) -> bool {
        let mut inner = self.text.chars();
        let next = after.chars().next();
        match self.kind {
            IdentifierKind::Name => {
                is_name_start(before, inner.next())
                    && is_name_boundary(self.text.chars().next_back(), next)
            }
            IdentifierKind::Mail => is_mail_start(before) && is_mail_end(after),
            IdentifierKind::Phone => {
                let is_digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
                let is_continued = is_digit(before.chars().next_back()) && is_digit(inner.next());
                !is_continued && !is_digit(next)
            }
        }
    }
}

impl PersonAliases {
    /// Prepares the search for these identifiers. Too many for the search are refused; an error is part of a sentence.
    pub fn new(identifiers: Vec<PersonIdentifier>) -> Result<Self, String> {
        let mut places = Vec::new();
        let mut patterns = Vec::new();
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
            .start_kind(StartKind::Both)
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

    /// Replaces aliases by the identifiers, as the owner wrote these. An alias stays where its identifier would be a part
    /// of a longer word: there it would not be replaced again.
    pub fn resolve_aliases<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let found: Vec<_> = self.aliases.find_iter(text).collect();
        let identifier = |at: usize| &self.identifiers[found[at].pattern().as_usize()];
        let mut out = String::new();
        let mut from = 0;
        let mut is_changed = false;
        for (at, one) in found.iter().enumerate() {
            out.push_str(&text[from..one.start()]);
            from = one.start();
            let next = found
                .get(at + 1)
                .filter(|next| next.start() == one.end())
                .map(|_| identifier(at + 1).text.as_str());
            let after = next.unwrap_or(&text[one.end()..]);
            if identifier(at).stands_between(&out, after) {
                out.push_str(&identifier(at).text);
                (from, is_changed) = (one.end(), true);
            }
        }
        if !is_changed {
            return Cow::Borrowed(text);
        }
        out.push_str(&text[from..]);
        Cow::Owned(out)
    }

    /// Replaces aliases in a regular expression, escaped or not, by expressions for the identifiers.
    pub fn resolve_in_pattern<'t>(&self, pattern: &'t str) -> Cow<'t, str> {
        IN_PATTERN.replace_all(pattern, |found: &regex::Captures<'_>| {
            let alias = found[0].replace('\\', "");
            let whole = Input::new(&alias).anchored(Anchored::Yes);
            match self
                .aliases
                .find(whole)
                .filter(|one| one.end() == alias.len())
            {
                Some(one) => {
                    let text = &self.identifiers[one.pattern().as_usize()].text;
                    format!("(?:{})", regex::escape(text))
                }
                None => found[0].to_owned(),
            }
        })
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
            let start = one.start();
            let end = one.end();
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
        return is_mail_start(&text[..range.start]) && is_mail_end(&text[range.end..]);
    }
    let name = &text[range.clone()];
    is_name_start(&text[..range.start], name.chars().next())
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
