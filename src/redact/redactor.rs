//! Masks known secret values in a text. Not here: streams (masker) and guesses (patterns).

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use aho_corasick::{AhoCorasick, Input, Match, MatchKind, Span, packed};

use super::{MASK, Masker, Secret, forms};

/// Masks known secret values. Clones share their values, so that one added later is masked everywhere from then on.
#[derive(Debug, Clone, Default)]
pub struct Redactor {
    known: Arc<RwLock<Arc<Known>>>,
}

impl Redactor {
    /// A redactor for these values.
    pub fn new(values: impl IntoIterator<Item = Secret<String>>) -> Self {
        let redactor = Self::default();
        redactor.add_all(values);
        redactor
    }

    /// Masks this value too from now on. A value under eight bytes is not masked, since it would be found in
    /// innocent text; false says so.
    pub fn add(&self, value: &Secret<String>) -> bool {
        let forms = forms::of(value.expose());
        let maskable = !forms.is_empty();
        if maskable {
            self.learn(forms);
        }
        maskable
    }

    /// Masks these values too from now on.
    pub fn add_all(&self, values: impl IntoIterator<Item = Secret<String>>) {
        let forms: Vec<String> = values.into_iter().flat_map(|value| forms::of(value.expose())).collect();
        if !forms.is_empty() {
            self.learn(forms);
        }
    }

    /// The text with every known value masked, and how many places were. Nothing is copied where nothing is found.
    pub fn scrub<'t>(&self, text: &'t str) -> (Cow<'t, str>, u64) {
        let known = self.known();
        let Some(finder) = &known.finder else { return (Cow::Borrowed(text), 0) };
        let mut out = String::new();
        let (mut from, mut masked) = (0, 0);
        for found in finder.find_all(text.as_bytes()) {
            out.push_str(&text[from..found.start()]);
            out.push_str(MASK);
            from = found.end();
            masked += 1;
        }
        if masked == 0 {
            return (Cow::Borrowed(text), 0);
        }
        out.push_str(&text[from..]);
        (Cow::Owned(out), masked)
    }

    /// Masks a stream of bytes, across the borders of its chunks.
    pub fn stream(&self) -> Masker {
        Masker::new(self.clone())
    }

    pub(super) fn known(&self) -> Arc<Known> {
        Arc::clone(&self.known.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn learn(&self, forms: Vec<String>) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        *known = Arc::new(known.with(forms));
    }
}

/// What is searched for, built anew with every addition.
#[derive(Default)]
pub(super) struct Known {
    /// Sorted, each once.
    forms: Vec<String>,
    /// The bytes that a form begins with.
    firsts: Vec<bool>,
    longest: usize,
    pub(super) finder: Option<Finder>,
}

/// Finds the forms, the first first and of those the longest.
pub(super) enum Finder {
    /// By vector instructions: several times as fast, for as many forms as a handful of secrets has.
    Few(packed::Searcher),
    /// By an automaton, however many there are and whatever the processor.
    Many(AhoCorasick),
}

impl Finder {
    fn new(forms: &[String]) -> Self {
        let few = packed::Config::new()
            .match_kind(packed::MatchKind::LeftmostLongest)
            .builder()
            .extend(forms)
            .build();
        few.map_or_else(|| Self::many(forms), Self::Few)
    }

    fn many(forms: &[String]) -> Self {
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(forms)
            .expect("secrets fit in an automaton: they are far below its 2 GB");
        Self::Many(automaton)
    }

    /// Every place, none within another.
    pub(super) fn find_all<'f>(&'f self, bytes: &'f [u8]) -> impl Iterator<Item = Match> + 'f {
        let mut from = 0;
        std::iter::from_fn(move || {
            let found = self.find(bytes, from)?;
            from = found.end();
            Some(found)
        })
    }

    fn find(&self, bytes: &[u8], from: usize) -> Option<Match> {
        let span = Span::from(from..bytes.len());
        match self {
            Self::Few(searcher) => searcher.find_in(bytes, span),
            Self::Many(automaton) => automaton.find(Input::new(bytes).span(span)),
        }
    }
}

impl Known {
    fn with(&self, more: Vec<String>) -> Self {
        let mut forms = self.forms.clone();
        forms.extend(more);
        forms.sort_unstable();
        forms.dedup();
        let mut firsts = vec![false; 256];
        for form in &forms {
            firsts[usize::from(form.as_bytes()[0])] = true;
        }
        let longest = forms.iter().map(String::len).max().unwrap_or(0);
        let finder = Finder::new(&forms);
        Self { forms, firsts, longest, finder: Some(finder) }
    }

    /// The first place at which what is there may still become a known value, or a longer one than it is: from
    /// there on a stream must wait for more. The end where there is none.
    pub(super) fn undecided(&self, bytes: &[u8], from: usize) -> usize {
        let from = from.max((bytes.len() + 1).saturating_sub(self.longest));
        (from..bytes.len())
            .find(|&at| self.firsts[usize::from(bytes[at])] && self.begins_a_form(&bytes[at..]))
            .unwrap_or(bytes.len())
    }

    fn begins_a_form(&self, part: &[u8]) -> bool {
        let at = self.forms.partition_point(|form| form.as_bytes() <= part);
        self.forms.get(at).is_some_and(|form| form.as_bytes().starts_with(part))
    }
}

impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Known({} forms)", self.forms.len())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn both_finders_find_the_same(
            forms in prop::collection::vec("[ab/é+]{2,14}", 1..80), text in "[abc/é+\n]{0,300}",
        ) {
            let found = |finder: &Finder| {
                finder.find_all(text.as_bytes()).map(|found| found.range()).collect::<Vec<_>>()
            };
            prop_assert_eq!(found(&Finder::new(&forms)), found(&Finder::many(&forms)));
        }
    }
}
