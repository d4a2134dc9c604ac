//! Masks known secret values in a text. Not here: streams (masker) and guesses (patterns).

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use parking_lot::{RwLock, RwLockUpgradableReadGuard};

use super::people::{IdentityMapSource, PersonAliases, as_text, may_have_alias};
use super::secret_set::SecretSet;
use super::{MASK, Masker, Secret, encodings};

/// The text in place of any while the identity map cannot be read.
const WITHHELD: &str = "[withheld: the identity map cannot be read]";

/// Masks known secret values, and replaces the owner's contacts by their aliases. Clones share both, so that a value
/// added later is masked everywhere from then on.
#[derive(Debug, Clone, Default)]
pub struct Redactor {
    secret_set: Arc<RwLock<Arc<SecretSet>>>,
    people: Arc<RwLock<PeopleState>>,
}

#[derive(Default)]
struct PeopleState {
    source: Option<Arc<dyn IdentityMapSource>>,
    /// The last readable map.
    aliases: Option<Arc<PersonAliases>>,
    /// The reason why the present map cannot be read.
    obstacle: Option<String>,
}

impl fmt::Debug for PeopleState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PeopleState({:?})", self.aliases)
    }
}

impl Redactor {
    /// Creates a redactor for these values.
    pub fn new(values: impl IntoIterator<Item = Secret<String>>) -> Self {
        let redactor = Self::default();
        redactor.add_secrets(values);
        redactor
    }

    /// Masks this value too from now on. Returns false for a value under eight bytes, which is not masked because it
    /// would match harmless text.
    pub fn add_secret(&self, value: &Secret<String>) -> bool {
        let forms = encodings::all_encodings(value.expose());
        let maskable = !forms.is_empty();
        if maskable {
            self.add_encodings(forms);
        }
        maskable
    }

    /// Masks these values too from now on.
    pub fn add_secrets(&self, values: impl IntoIterator<Item = Secret<String>>) {
        let forms: Vec<String> = values
            .into_iter()
            .flat_map(|value| encodings::all_encodings(value.expose()))
            .collect();
        if !forms.is_empty() {
            self.add_encodings(forms);
        }
    }

    /// Replaces the people of this identity map from now on.
    pub fn set_identity_map(&self, source: Arc<dyn IdentityMapSource>) {
        self.people.write().source = Some(source);
        self.refresh_people();
    }

    /// Loads the identity map if it changed.
    pub fn refresh_people(&self) {
        // Held until the result is stored: of two loads, the later one counts.
        let people = self.people.upgradable_read();
        let loaded = people
            .source
            .as_ref()
            .map(|source| source.load_if_changed());
        let Some(loaded) = loaded.flatten() else {
            return;
        };
        let mut people = RwLockUpgradableReadGuard::upgrade(people);
        match loaded {
            Ok(aliases) => {
                people.aliases = aliases.map(Arc::new);
                people.obstacle = None;
            }
            Err(why) => people.obstacle = Some(why),
        }
    }

    /// Returns the reason why the identity map cannot be read, if there is one that cannot.
    pub fn people_obstacle(&self) -> Option<String> {
        self.people.read().obstacle.clone()
    }

    /// Returns whether there are people and may be an alias of one in a text, also in JSON.
    pub fn may_have_alias(&self, text: &str) -> bool {
        self.people.read().aliases.is_some() && may_have_alias(text)
    }

    /// Replaces aliases of people by what the owner wrote.
    pub fn resolve_aliases<'t>(&self, text: &'t str) -> Cow<'t, str> {
        match self.current_people() {
            Some(people) => people.resolve_aliases(text),
            None => Cow::Borrowed(text),
        }
    }

    /// Replaces aliases of people in a regular expression.
    pub fn resolve_in_pattern<'t>(&self, pattern: &'t str) -> Cow<'t, str> {
        match self.current_people() {
            Some(people) => people.resolve_in_pattern(pattern),
            None => Cow::Borrowed(pattern),
        }
    }

    /// Masks every known secret and replaces people, and returns the number of secrets. Copies nothing if there are none.
    pub fn mask<'t>(&self, text: &'t str) -> (Cow<'t, str>, u64) {
        let (masked, count) = self.mask_secrets(text);
        if self.withholds_text() && !masked.is_empty() {
            return (Cow::Borrowed(WITHHELD), count);
        }
        let Some(people) = self.current_people() else {
            return (masked, count);
        };
        match people.replace_people(&masked) {
            Cow::Borrowed(_) => (masked, count),
            Cow::Owned(replaced) => (Cow::Owned(replaced), count),
        }
    }

    /// Masks only secrets, for text that the owner alone sees.
    pub fn mask_secrets<'t>(&self, text: &'t str) -> (Cow<'t, str>, u64) {
        let known = self.current_set();
        let places = known.find(text.as_bytes(), true).ranges;
        if places.is_empty() {
            return (Cow::Borrowed(text), 0);
        }
        let mut out = String::with_capacity(text.len());
        let mut from = 0;
        for place in &places {
            out.push_str(&text[from..place.start]);
            out.push_str(MASK);
            from = place.end;
        }
        out.push_str(&text[from..]);
        (Cow::Owned(out), places.len() as u64)
    }

    /// Creates a masker for a stream of bytes, which also masks values across chunks.
    pub fn stream_masker(&self) -> Masker {
        Masker::new(self.clone())
    }

    /// Returns the ranges of known values in order, and the offset up to which further bytes cannot change them. Set
    /// `at_end` if no bytes follow.
    pub fn secret_ranges(&self, bytes: &[u8], at_end: bool) -> (Vec<Range<usize>>, usize) {
        let found = self.current_set().find(bytes, at_end);
        let Some(people) = self.current_people() else {
            return (found.ranges, found.decided);
        };
        let text = as_text(bytes, at_end);
        let (matches, decided) = if at_end {
            (people.find_people(&text), text.len())
        } else {
            people.find_decided(&text)
        };
        let people_ranges = matches.into_iter().map(|one| one.range);
        let ranges = join_overlapping(found.ranges.into_iter().chain(people_ranges).collect());
        let mut decided = decided.min(found.decided);
        if let Some(cut) = ranges.iter().find(|range| range.end > decided) {
            decided = decided.min(cut.start);
        }
        let whole = ranges.into_iter().filter(|range| range.end <= decided);
        (whole.collect(), decided)
    }

    /// Returns the length of the longest text that is masked or replaced; 0 if none is known.
    pub fn longest_secret(&self) -> usize {
        let longest_person = self
            .current_people()
            .map_or(0, |people| people.longest_text());
        self.current_set().longest_encoding().max(longest_person)
    }

    /// Returns whether there is an identity map, readable or not.
    pub(super) fn has_people(&self) -> bool {
        let people = self.people.read();
        people.aliases.is_some() || people.obstacle.is_some()
    }

    /// Returns whether no text may leave: there is an identity map, and it could not be read since the start.
    pub(super) fn withholds_text(&self) -> bool {
        let people = self.people.read();
        people.aliases.is_none() && people.obstacle.is_some()
    }

    pub(super) fn current_people(&self) -> Option<Arc<PersonAliases>> {
        self.people.read().aliases.clone()
    }

    pub(super) fn current_set(&self) -> Arc<SecretSet> {
        Arc::clone(&self.secret_set.read())
    }

    fn add_encodings(&self, forms: Vec<String>) {
        let mut known = self.secret_set.write();
        if known.contains_all(&forms) {
            return;
        }
        *known = Arc::new(known.with_encodings(forms));
    }
}

/// Returns the ranges in order; those that overlap become one.
fn join_overlapping(mut ranges: Vec<Range<usize>>) -> Vec<Range<usize>> {
    ranges.sort_unstable_by_key(|range| range.start);
    let mut joined: Vec<Range<usize>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match joined.last_mut().filter(|last| range.start < last.end) {
            Some(last) => last.end = last.end.max(range.end),
            None => joined.push(range),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE};

    use super::*;

    /// A value whose encodings are long and of all letters.
    fn long() -> String {
        (0..150_u8)
            .map(|n| char::from(b'!' + n.wrapping_mul(37) % 90))
            .collect()
    }

    #[test]
    fn base64_that_is_broken_into_lines_keeps_no_line_of_a_value() {
        let value = long();
        let redactor = Redactor::new([Secret::new(value.clone())]);
        for before in 0..80 {
            let whole = format!("{}{value}{}", "x".repeat(before), "y".repeat(50));
            let encodings = [STANDARD.encode(&whole), URL_SAFE.encode(&whole)];
            for (encoded, width) in encodings
                .iter()
                .flat_map(|encoded| [60, 64, 76].map(|width| (encoded, width)))
            {
                let lines = encoded
                    .as_bytes()
                    .chunks(width)
                    .map(|line| std::str::from_utf8(line).expect("ASCII"));
                let text = lines.collect::<Vec<_>>().join("\n");
                let (scrubbed, _) = redactor.mask(&text);
                let first = (before * 8).div_ceil(6);
                let last = (before + value.len()) * 8 / 6;
                for at in first..last - 40 {
                    let part = &encoded[at..at + 40];
                    assert!(
                        !scrubbed.contains(part),
                        "{before} {width}: {part} in {scrubbed}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_colour_in_a_value_does_not_hide_it() {
        let redactor = Redactor::new([Secret::new("hunter2hunter2".to_owned())]);
        let scrub = |text: &str| redactor.mask(text).0.into_owned();
        assert_eq!(
            scrub("pw=hunter\x1b[01;31m\x1b[K2hun\x1b[mter2;"),
            "pw=[REDACTED:secret];"
        );
        assert_eq!(
            scrub("\x1b[1mhunter2hunter2\x1b[m"),
            "\x1b[1m[REDACTED:secret]\x1b[m"
        );
        let link = "\x1b]8;;http://x/?t=hunter2hunter2\x07link";
        assert_eq!(scrub(link), "\x1b]8;;http://x/?t=[REDACTED:secret]\x07link");
        let wide: String = "hunter2hunter2".chars().flat_map(|c| [c, '\0']).collect();
        assert_eq!(scrub(&format!("{wide}!")), "[REDACTED:secret]\0!");
        assert_eq!(scrub("hunter\x1b[31mhunter2"), "hunter\x1b[31mhunter2");
    }

    #[test]
    fn values_within_each_other_are_masked_to_the_end_of_the_last() {
        let redactor =
            Redactor::new(["abcdefgh", "efghijkl"].map(|value| Secret::new(value.to_owned())));
        assert_eq!(redactor.mask("+abcdefghijkl+").0, "+[REDACTED:secret]+");
        assert_eq!(
            redactor.mask("abcdefghefghijkl").0,
            "[REDACTED:secret][REDACTED:secret]"
        );
    }
}
