//! A text in the form in which names are compared: lower case, composed (NFC), one space for a run of white space, and
//! without invisible characters; with the way back to its positions. Written for speed: all output passes here.

use std::sync::LazyLock;

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::canonical_combining_class;

/// A longer run of white space separates the parts of a name.
pub(super) const MAX_SPACE_BYTES: usize = 64;
/// The most marks of a letter that are composed, as in Unicode's Stream-Safe Text Format (UAX #15): so the time is linear.
const MAX_MARKS: usize = 30;
/// The characters that a table answers: Latin, Greek, Cyrillic, Armenian, Hebrew.
const TABLE: usize = 0x600;

pub(super) struct FoldedText {
    pub text: String,
    shifts: Vec<Shift>,
}

/// A folded position from which on the source is another distance away.
struct Shift {
    folded: usize,
    /// The end of the text before it in the source.
    end: usize,
    /// The start of the text after it. Invisible characters lie between the two.
    start: usize,
}

impl FoldedText {
    pub fn source_position(&self, folded: usize) -> usize {
        self.last_shift(folded)
            .map_or(folded, |shift| shift.start + (folded - shift.folded))
    }

    /// Returns the position in the source at which the text before a folded one ends.
    pub fn source_end(&self, folded: usize) -> usize {
        match self.last_shift(folded) {
            Some(shift) if shift.folded == folded => shift.end,
            Some(shift) => shift.start + (folded - shift.folded),
            None => folded,
        }
    }

    fn last_shift(&self, folded: usize) -> Option<&Shift> {
        let after = self.shifts.partition_point(|shift| shift.folded <= folded);
        self.shifts[..after].last()
    }
}

/// Returns the form in which names are compared.
pub fn fold_text(text: &str) -> String {
    fold_with_positions(text).text
}

/// Folds a text, with the way back.
pub(super) fn fold_with_positions(text: &str) -> FoldedText {
    let mut folding = Folding {
        source: text,
        at: 0,
        out: String::with_capacity(text.len() + 16),
        shifts: Vec::new(),
    };
    while folding.at < text.len() {
        folding.fold_next();
    }
    FoldedText {
        text: folding.out,
        shifts: folding.shifts,
    }
}

struct Folding<'t> {
    source: &'t str,
    at: usize,
    out: String,
    shifts: Vec<Shift>,
}

impl Folding<'_> {
    fn fold_next(&mut self) {
        let rest = &self.source[self.at..];
        // A single space stays; a second one begins a run.
        let bytes = rest.as_bytes();
        let ends_plain = |at: usize| match bytes[at] {
            b' ' => bytes.get(at + 1) == Some(&b' '),
            byte => !byte.is_ascii_graphic(),
        };
        let plain = (0..bytes.len())
            .find(|at| ends_plain(*at))
            .unwrap_or(bytes.len());
        let plain = if plain < rest.len() && bytes[..plain].ends_with(b" ") {
            plain - 1
        } else {
            plain
        };
        if plain > 0 {
            let from = self.out.len();
            self.out.push_str(&rest[..plain]);
            self.out[from..].make_ascii_lowercase();
            self.at += plain;
        }
        // Many words of other scripts follow each other without ASCII between them but spaces.
        while let Some(c) = self.source[self.at..].chars().next() {
            if c.is_ascii_graphic() {
                return;
            }
            self.fold_char(c);
        }
    }

    fn fold_char(&mut self, c: char) {
        if c.is_whitespace() {
            return self.fold_space();
        }
        let length = c.len_utf8();
        if let Some(simple) = simple_fold(c) {
            self.out.push(simple);
            self.at += length;
            if simple.len_utf8() != length {
                self.mark_shift(self.at);
            }
            return;
        }
        let before = self.at;
        let was = self.out.len();
        self.fold_unusual(c);
        self.at += length;
        let is_invisible = self.out.len() == was && is_invisible(c);
        self.mark_shift(if is_invisible { before } else { self.at });
    }

    fn fold_space(&mut self) {
        let rest = &self.source[self.at..];
        if rest.as_bytes()[0] == b' ' && !rest[1..].starts_with(char::is_whitespace) {
            self.out.push(' ');
            self.at += 1;
            return;
        }
        let run = rest.len() - rest.trim_start().len();
        self.out.push(' ');
        if run > MAX_SPACE_BYTES {
            self.out.push(' ');
        }
        self.at += run;
        if run > 1 {
            self.mark_shift(self.at);
        }
    }

    fn fold_unusual(&mut self, c: char) {
        match c {
            _ if is_invisible(c) => {}
            'ß' | 'ẞ' => self.out.push_str("ss"),
            'ς' => self.out.push('σ'),
            '\u{2018}' | '\u{2019}' | '\u{2bc}' => self.out.push('\''),
            '\u{2010}' | '\u{2011}' => self.out.push('-'),
            _ if canonical_combining_class(c) != 0 || matches!(c, '\u{1160}'..='\u{11ff}') => {
                self.compose(c);
            }
            // The capital I with a dot and the like become several characters.
            _ => self.out.extend(c.to_lowercase().nfc()),
        }
    }

    /// Composes a mark with the character before it and that one's marks.
    fn compose(&mut self, mark: char) {
        let is_base = |c: char| canonical_combining_class(c) == 0;
        let nearest = self.out.char_indices().rev().take(MAX_MARKS + 1);
        let Some(base) = nearest
            .into_iter()
            .find_map(|(at, c)| is_base(c).then_some(at))
        else {
            self.out.push(mark);
            return;
        };
        let mut joined = self.out.split_off(base);
        joined.push(mark);
        self.out.extend(joined.nfc());
        // Shifts within what was composed are void.
        while self.shifts.last().is_some_and(|shift| shift.folded > base) {
            self.shifts.pop();
        }
    }

    /// Records that the text before the present position ends at `end` in the source.
    fn mark_shift(&mut self, end: usize) {
        let folded = self.out.len();
        let start = self.at;
        match self
            .shifts
            .last_mut()
            .filter(|shift| shift.folded == folded)
        {
            Some(last) => last.start = start,
            None => self.shifts.push(Shift { folded, end, start }),
        }
    }
}

fn is_invisible(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

/// Returns the folded character where it is one that stands alone; `None` for all that need a closer look.
fn simple_fold(c: char) -> Option<char> {
    static FOLDED: LazyLock<Box<[Option<char>]>> = LazyLock::new(|| {
        (0..TABLE)
            .map(|code| fold_alone(char::from_u32(u32::try_from(code).ok()?)?))
            .collect()
    });
    if let Some(known) = FOLDED.get(c as usize) {
        return *known;
    }
    match c {
        // Kana, Han and Hangul have no case; their marks are outside of these ranges.
        '\u{3041}'..='\u{3098}'
        | '\u{309b}'..='\u{30ff}'
        | '\u{3400}'..='\u{9fff}'
        | '\u{ac00}'..='\u{d7a3}'
        | '\u{3001}'..='\u{3029}'
        | '\u{ff01}'..='\u{ff20}' => Some(c),
        _ => None,
    }
}

fn fold_alone(c: char) -> Option<char> {
    let is_special = matches!(c, '\u{ad}' | 'ß' | 'ς' | '\u{2bc}')
        || c.is_whitespace()
        || canonical_combining_class(c) != 0;
    if is_special {
        return None;
    }
    let mut lower = c.to_lowercase().nfc();
    match (lower.next(), lower.next()) {
        (Some(one), None) => Some(one),
        _ => None,
    }
}
