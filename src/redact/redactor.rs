//! Masks known secret values in a text. Not here: streams (masker) and guesses (patterns).

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use aho_corasick::{AhoCorasick, MatchKind};

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
        let Some(automaton) = &known.automaton else { return (Cow::Borrowed(text), 0) };
        let mut out = String::new();
        let (mut from, mut masked) = (0, 0);
        for found in automaton.find_iter(text) {
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
    pub(super) automaton: Option<AhoCorasick>,
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
        let automaton = AhoCorasick::builder()
            .match_kind(MatchKind::LeftmostLongest)
            .build(&forms)
            .expect("secrets fit in an automaton: they are far below its 2 GB");
        Self { forms, firsts, longest, automaton: Some(automaton) }
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
