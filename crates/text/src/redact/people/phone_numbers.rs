//! Phone numbers in text: digits with separators on one line, compared by their digits.

use std::collections::HashMap;
use std::ops::Range;

/// The most digits of a number with its prefixes.
const MAX_DIGITS: usize = 18;
/// The fewest digits of a form; shorter ones are found in ordinary text.
const MIN_DIGITS: usize = 6;
/// The fewest digits of a form without any prefix.
const MIN_BARE_DIGITS: usize = 8;
/// The most bytes of a number in text.
pub(super) const MAX_PHONE_BYTES: usize = 48;
/// The most separators in a row, as in `) - `.
const MAX_SEPARATORS: usize = 3;
const FILTER_DIGITS: usize = 4;

/// Country codes of two digits; 1 and 7 have one digit, the others three (ITU-T E.164).
const TWO_DIGIT_CODES: &[&str] = &[
    "20", "27", "30", "31", "32", "33", "34", "36", "39", "40", "41", "43", "44", "45", "46", "47",
    "48", "49", "51", "52", "53", "54", "55", "56", "57", "58", "60", "61", "62", "63", "64", "65",
    "66", "81", "82", "84", "86", "90", "91", "92", "93", "94", "95", "98",
];

/// Returns the digits of a number; with a `+` before them if it has its country code.
pub fn normalized_digits(text: &str) -> String {
    let text = text.trim();
    let without_trunk = text.replace("(0)", "");
    let is_international =
        text.starts_with('+') || text.starts_with("(+") || text.starts_with("00");
    let source = if is_international {
        &without_trunk
    } else {
        text
    };
    let digits: String = source.chars().filter(char::is_ascii_digit).collect();
    match digits.strip_prefix("00") {
        Some(rest) if is_international => format!("+{rest}"),
        _ if is_international => format!("+{digits}"),
        _ => digits,
    }
}

/// Returns the digits under which a number may be written: the full form, and the forms in its own country.
pub fn phone_forms(text: &str) -> (Vec<String>, Vec<String>) {
    let normalized = normalized_digits(text);
    let Some(full) = normalized.strip_prefix('+') else {
        return (vec![normalized], Vec::new());
    };
    let code_length = match full.as_bytes().first() {
        Some(b'1' | b'7') => 1,
        _ if full
            .get(..2)
            .is_some_and(|code| TWO_DIGIT_CODES.contains(&code)) =>
        {
            2
        }
        _ => 3,
    };
    let (code, rest) = full.split_at(code_length.min(full.len()));
    let international = vec![
        full.to_owned(),
        format!("00{full}"),
        format!("011{full}"),
        format!("{code}0{rest}"),
        format!("00{code}0{rest}"),
    ];
    let mut national = vec![format!("0{rest}")];
    if code == "7" {
        national.push(format!("8{rest}"));
    }
    if rest.len() >= MIN_BARE_DIGITS {
        national.push(rest.to_owned());
    }
    (international, national)
}

/// The forms of all numbers.
pub(super) struct PhoneForms {
    by_digits: HashMap<u64, usize>,
    /// The digits of all forms, sorted.
    sorted: Vec<String>,
    beginnings: Vec<bool>,
}

impl PhoneForms {
    /// Collects the forms of numbers, each with its place in a list.
    pub fn new<'t>(numbers: impl Iterator<Item = (usize, &'t str)>) -> Self {
        let mut first = Vec::new();
        let mut second = Vec::new();
        for (place, text) in numbers {
            let (international, national) = phone_forms(text);
            first.extend(international.into_iter().map(|form| (form, place)));
            second.extend(national.into_iter().map(|form| (form, place)));
        }
        let mut forms = Self {
            by_digits: HashMap::new(),
            sorted: Vec::new(),
            beginnings: vec![false; 10_usize.pow(FILTER_DIGITS.try_into().expect("four"))],
        };
        // A full number counts before one of another country that looks the same at home.
        for (form, place) in first.into_iter().chain(second) {
            if (MIN_DIGITS..=MAX_DIGITS).contains(&form.len()) {
                forms.beginnings[form[..FILTER_DIGITS].parse::<usize>().unwrap_or(0)] = true;
                forms
                    .by_digits
                    .entry(digits_key(form.bytes()))
                    .or_insert(place);
                forms.sorted.push(form);
            }
        }
        forms.sorted.sort_unstable();
        forms
    }

    pub fn is_empty(&self) -> bool {
        self.sorted.is_empty()
    }

    /// Finds the longest number at each place; they may overlap.
    pub fn find_numbers(&self, bytes: &[u8], found: &mut Vec<(Range<usize>, usize)>) {
        let mut at = 0;
        while at < bytes.len() {
            if bytes[at].is_ascii_digit() {
                if let Some((end, place)) = self.number_at(bytes, at) {
                    found.push((number_start(bytes, at, end)..end, place));
                }
                at += bytes[at..]
                    .iter()
                    .take_while(|byte| byte.is_ascii_digit())
                    .count();
            } else {
                at += 1;
            }
        }
    }

    fn number_at(&self, bytes: &[u8], start: usize) -> Option<(usize, usize)> {
        let mut digits = Digits::new(bytes, start);
        let mut filter = 0_usize;
        let mut key = 1_u64;
        let mut best = None;
        while let Some((digit, end)) = digits.next() {
            key = key * 10 + u64::from(digit - b'0');
            if digits.count <= FILTER_DIGITS {
                filter = filter * 10 + usize::from(digit - b'0');
                if digits.count == FILTER_DIGITS && !self.beginnings[filter] {
                    return None;
                }
            }
            let is_run_end = !bytes.get(end).is_some_and(u8::is_ascii_digit);
            let place = self.by_digits.get(&key);
            if let Some(place) = place.filter(|_| is_run_end && digits.count >= MIN_DIGITS) {
                best = Some((end, *place));
            }
        }
        best
    }

    /// Returns where the first number may begin that later bytes can complete.
    pub fn open_start(&self, bytes: &[u8]) -> usize {
        let from = bytes.len().saturating_sub(MAX_PHONE_BYTES);
        for at in from..bytes.len() {
            let follows_digit = at > 0 && bytes[at - 1].is_ascii_digit();
            if matches!(bytes[at], b'+' | b'(') {
                if bytes[at..].iter().all(|byte| matches!(byte, b'+' | b'(')) {
                    return at;
                }
            } else if bytes[at].is_ascii_digit() && !follows_digit && self.is_open(bytes, at) {
                let signs = bytes[..at].iter().rev().take(3);
                return at - signs.take_while(|byte| matches!(byte, b'+' | b'(')).count();
            }
        }
        bytes.len()
    }

    fn is_open(&self, bytes: &[u8], start: usize) -> bool {
        let mut digits = Digits::new(bytes, start);
        let mut text = String::new();
        let mut end = start;
        for (digit, after) in &mut digits {
            text.push(char::from(digit));
            end = after;
        }
        let is_cut = bytes.len() - end <= MAX_SEPARATORS * 3
            && separators_end(bytes, end).is_none_or(|end| end == bytes.len());
        let at = self.sorted.partition_point(|form| *form < text);
        is_cut
            && self
                .sorted
                .get(at)
                .is_some_and(|form| form.starts_with(&text))
    }
}

fn digits_key(digits: impl Iterator<Item = u8>) -> u64 {
    digits.fold(1, |key, digit| key * 10 + u64::from(digit - b'0'))
}

/// Returns the start of a number with the sign before its first digit.
fn number_start(bytes: &[u8], first: usize, end: usize) -> usize {
    let closes = bytes[first..end].contains(&b')');
    let mut start = first;
    if closes && start > 0 && bytes[start - 1] == b'(' {
        start -= 1;
    }
    if start > 0 && bytes[start - 1] == b'+' {
        start -= 1;
        if closes && start > 0 && bytes[start - 1] == b'(' && !bytes[start..end].contains(&b'(') {
            start -= 1;
        }
    }
    start
}

/// The digits of a number, each with the position after it.
struct Digits<'t> {
    bytes: &'t [u8],
    start: usize,
    at: usize,
    count: usize,
}

impl<'t> Digits<'t> {
    fn new(bytes: &'t [u8], start: usize) -> Self {
        Self {
            bytes,
            start,
            at: start,
            count: 0,
        }
    }
}

impl Iterator for Digits<'_> {
    type Item = (u8, usize);

    fn next(&mut self) -> Option<(u8, usize)> {
        let at = separators_end(self.bytes, self.at)?;
        let digit = *self.bytes.get(at)?;
        if !digit.is_ascii_digit() || self.count == MAX_DIGITS || at - self.start >= MAX_PHONE_BYTES
        {
            return None;
        }
        self.at = at + 1;
        self.count += 1;
        Some((digit, self.at))
    }
}

/// Returns the position after the separators; `None` if there are too many.
fn separators_end(bytes: &[u8], mut at: usize) -> Option<usize> {
    for _ in 0..=MAX_SEPARATORS {
        at += match bytes.get(at..).unwrap_or_default() {
            [b' ' | b'-' | b'.' | b'/' | b'(' | b')', ..] => 1,
            [0xc2, 0xa0, ..] => 2,
            [0xe2, 0x80, 0x91 | 0x93 | 0xaf, ..] => 3,
            _ => return Some(at),
        };
    }
    None
}
