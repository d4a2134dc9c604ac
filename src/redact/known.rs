//! The values that are searched for, in all their forms, and where they stand in bytes. Not here: which forms a value has
//! (forms), and putting the mask in their place (redactor, masker).

use std::fmt;
use std::ops::Range;

use super::finder::Finder;
use super::unescaped::Unescaped;

/// What is searched for, built anew with every addition.
#[derive(Default)]
pub(super) struct Known {
    /// Sorted, each once.
    forms: Vec<String>,
    /// A bit for every two bytes that a form begins with.
    firsts: Vec<u64>,
    longest: usize,
    finder: Option<Finder>,
}

/// What was found in some bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Found {
    /// Where known values stand: in order, none touching what another covers.
    pub places: Vec<Range<usize>>,
    /// From here on more bytes may still make a value of what is there.
    pub decided: usize,
}

impl Known {
    /// Whether all these forms are searched for already.
    pub fn has(&self, forms: &[String]) -> bool {
        forms.iter().all(|form| self.forms.binary_search(form).is_ok())
    }

    /// With these forms as well.
    pub fn with(&self, more: Vec<String>) -> Self {
        let mut forms = self.forms.clone();
        forms.extend(more);
        forms.sort_unstable();
        forms.dedup();
        let mut firsts = vec![0; (1 << 16) / 64];
        for form in &forms {
            let (word, bit) = first_two(form.as_bytes());
            firsts[word] |= bit;
        }
        let longest = forms.iter().map(String::len).max().unwrap_or(0);
        let finder = Finder::new(&forms);
        Self { forms, firsts, longest, finder }
    }

    /// Every place where a known value stands, as it is and with escape sequences within it. What is found does not
    /// depend on how a text was cut: what stands before `decided` no more bytes can change. `at_end` where none follow.
    pub fn find(&self, bytes: &[u8], at_end: bool) -> Found {
        let Some(finder) = &self.finder else { return Found { places: Vec::new(), decided: bytes.len() } };
        let mut places: Vec<Range<usize>> = finder.all(&self.forms, bytes).collect();
        let shown = Unescaped::of(bytes, at_end);
        if let Some(shown) = &shown {
            // With the rest of a sequence: cut, it would end elsewhere, and what it hid or showed would be another text.
            for place in &mut places {
                *place = shown.whole(place, bytes);
            }
            places.extend(finder.all(&self.forms, &shown.bytes).map(|found| shown.origins(&found)));
        }
        let places = joined(places);
        let decided = if at_end { bytes.len() } else { self.decided(bytes, shown.as_ref(), &places) };
        Found { places, decided }
    }

    /// How far no more bytes can change what was found. What stands after that is looked at again as if nothing were
    /// before it: so it begins neither inside of a place nor inside of a sequence.
    fn decided(&self, bytes: &[u8], shown: Option<&Unescaped>, places: &[Range<usize>]) -> usize {
        let mut decided = self.undecided(bytes);
        if let Some(shown) = shown {
            let undecided = self.undecided(&shown.bytes);
            if undecided < shown.bytes.len() {
                decided = decided.min(shown.origin(undecided));
            }
            decided = decided.min(shown.open.unwrap_or(decided));
        }
        loop {
            let last = places.partition_point(|place| place.start < decided).checked_sub(1);
            let over = last.map(|last| &places[last]).filter(|place| decided < place.end);
            let whole = over.map_or(decided, |place| place.start);
            let border = shown.map_or(whole, |shown| shown.border(whole));
            if border == decided {
                return decided;
            }
            decided = border;
        }
    }

    /// The first byte of an end that may still become a known value; the length where there is none.
    fn undecided(&self, bytes: &[u8]) -> usize {
        let from = (bytes.len() + 1).saturating_sub(self.longest);
        (from..bytes.len())
            .find(|&at| {
                let rest = &bytes[at..];
                (rest.len() < 2 || self.may_begin(rest)) && self.begins_a_form(rest)
            })
            .unwrap_or(bytes.len())
    }

    #[inline]
    fn may_begin(&self, rest: &[u8]) -> bool {
        let (word, bit) = first_two(rest);
        self.firsts[word] & bit != 0
    }

    fn begins_a_form(&self, part: &[u8]) -> bool {
        let at = self.forms.partition_point(|form| form.as_bytes() <= part);
        self.forms.get(at).is_some_and(|form| form.as_bytes().starts_with(part))
    }
}

/// The word and the bit of two bytes.
#[inline]
fn first_two(bytes: &[u8]) -> (usize, u64) {
    let number = usize::from(bytes[0]) << 8 | usize::from(bytes[1]);
    (number / 64, 1 << (number % 64))
}

/// What overlaps becomes one.
fn joined(mut places: Vec<Range<usize>>) -> Vec<Range<usize>> {
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

impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Known({} forms)", self.forms.len())
    }
}
