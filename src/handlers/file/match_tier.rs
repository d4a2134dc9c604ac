//! The differences that are ignored between a quoted line and the file's, tier by tier.

use std::borrow::Cow;

use memchr::memchr3_iter;

/// The strictness of a match, strictest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MatchTier {
    Exact,
    LineEndings,
    TrailingSpace,
    Typography,
    Indentation,
    /// Tabs for blanks at the beginning of lines, or blanks for tabs.
    Tabs,
}

impl MatchTier {
    /// The ignored difference, for the answer. Without a carriage return in the file or the quote, line endings can differ
    /// only in the last one.
    pub(super) fn describe(self, has_returns: bool) -> Option<&'static str> {
        match self {
            Self::Exact => None,
            Self::LineEndings if has_returns => Some("matched with the file's line endings"),
            Self::LineEndings => Some("matched at the file's end, which has no newline"),
            Self::TrailingSpace => Some("matched without regard to blanks at line ends"),
            Self::Typography => {
                Some("matched with plain for typographic quotes, dashes and blanks")
            }
            Self::Indentation => {
                Some("matched at another indentation; new_string was indented like the file")
            }
            Self::Tabs => Some(
                "matched with other blanks and tabs at the beginning of lines; new_string was indented like the file",
            ),
        }
    }
}

/// A line with typographic characters replaced, and a map back to its own bytes.
#[derive(Debug)]
pub(super) struct PlainLine<'a> {
    pub bytes: Cow<'a, [u8]>,
    /// The original offset of every byte of `bytes` and of its end; `None` where they are equal.
    origin: Option<Vec<usize>>,
}

impl<'a> PlainLine<'a> {
    /// Normalizes a line as a tier compares it.
    pub(super) fn from_line(line: &'a [u8], tier: MatchTier) -> Self {
        if tier < MatchTier::Typography || !has_typographic_char(line) {
            return Self {
                bytes: Cow::Borrowed(line),
                origin: None,
            };
        }
        let mut bytes = Vec::with_capacity(line.len());
        let mut origin = Vec::with_capacity(line.len() + 1);
        let mut at = 0;
        let mut put = |text: &[u8], from: usize| {
            bytes.extend_from_slice(text);
            origin.extend(std::iter::repeat_n(from, text.len()));
        };
        for chunk in line.utf8_chunks() {
            for c in chunk.valid().chars() {
                put(
                    plain_spelling(c)
                        .unwrap_or(c.encode_utf8(&mut [0; 4]))
                        .as_bytes(),
                    at,
                );
                at += c.len_utf8();
            }
            put(chunk.invalid(), at);
            at += chunk.invalid().len();
        }
        origin.push(at);
        Self {
            bytes: Cow::Owned(bytes),
            origin: Some(origin),
        }
    }

    /// The original offset of a normalized byte.
    pub(super) fn origin_offset(&self, at: usize) -> usize {
        self.origin.as_ref().map_or(at, |origin| origin[at])
    }
}

/// The plain spelling of a typographic character.
pub(super) fn plain_spelling(c: char) -> Option<&'static str> {
    Some(match c {
        '\u{2018}' | '\u{2019}' | '\u{201A}' | '\u{201B}' | '\u{2032}' => "'",
        '\u{201C}' | '\u{201D}' | '\u{201E}' | '\u{201F}' | '\u{2033}' => "\"",
        '\u{2010}'..='\u{2015}' | '\u{2212}' => "-",
        '\u{2026}' => "...",
        '\u{00A0}' | '\u{2000}'..='\u{200A}' | '\u{202F}' | '\u{205F}' | '\u{3000}' => " ",
        _ => return None,
    })
}

/// Returns whether the bytes contain a character with a plain spelling. Most non-ASCII text has
/// none and need not be decoded.
pub(super) fn has_typographic_char(bytes: &[u8]) -> bool {
    memchr3_iter(0xC2, 0xE2, 0xE3, bytes).any(|at| {
        let width = if bytes[at] == 0xC2 { 2 } else { 3 };
        let char = bytes
            .get(at..at + width)
            .and_then(|char| std::str::from_utf8(char).ok());
        char.and_then(|char| char.chars().next())
            .and_then(plain_spelling)
            .is_some()
    })
}

/// The line without its line feed and the carriage return before it.
pub(super) fn strip_line_ending(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    line.strip_suffix(b"\r").unwrap_or(line)
}

/// The part of a line that a tier compares. The line may have its ending.
pub(super) fn comparison_key(line: &[u8], tier: MatchTier) -> Cow<'_, [u8]> {
    if tier == MatchTier::Exact {
        return Cow::Borrowed(line);
    }
    let body = strip_line_ending(line);
    match PlainLine::from_line(body, tier).bytes {
        Cow::Borrowed(bytes) => Cow::Borrowed(trim_blanks(bytes, tier)),
        Cow::Owned(bytes) => Cow::Owned(trim_blanks(&bytes, tier).to_vec()),
    }
}

/// The line without the blanks that a tier ignores at its ends.
pub(super) fn trim_blanks(line: &[u8], tier: MatchTier) -> &[u8] {
    match tier {
        MatchTier::Exact | MatchTier::LineEndings => line,
        MatchTier::TrailingSpace | MatchTier::Typography => line.trim_ascii_end(),
        MatchTier::Indentation | MatchTier::Tabs => split_indent(line.trim_ascii_end()).1,
    }
}

/// Splits a line after its indentation.
pub(super) fn split_indent(line: &[u8]) -> (&[u8], &[u8]) {
    let at = line
        .iter()
        .position(|b| !matches!(b, b' ' | b'\t'))
        .unwrap_or(line.len());
    line.split_at(at)
}

/// Removes the numbers before lines, if every line has one and they count up: with a tab or an arrow behind them as Read
/// puts them there, or with a bar.
pub(super) fn strip_line_numbers(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut last: Option<u64> = None;
    for line in text.split_inclusive('\n') {
        let trimmed = line.trim_start_matches(' ');
        let digits = trimmed.bytes().take_while(u8::is_ascii_digit).count();
        let rest = &trimmed[digits..];
        let mut parted = ["\t", "\u{2192}", " | "].into_iter();
        // Behind the bar of an empty line often no blank is left.
        let rest = parted
            .find_map(|sign| rest.strip_prefix(sign))
            .or_else(|| Some(rest.strip_prefix(" |")?).filter(|rest| rest.trim().is_empty()))?;
        let n: u64 = trimmed[..digits].parse().ok()?;
        if last.is_some_and(|last| n != last + 1) {
            return None;
        }
        last = Some(n);
        out.push_str(rest);
    }
    last.map(|_| out)
}

/// Takes the blank lines before and behind a quote, and as many of them around the new text as it has. `None` if there are
/// none, or no other difference.
pub(super) fn strip_blank_lines_around(old: &str, new: &str) -> Option<(String, String)> {
    let is_blank = |line: &&str| line.trim().is_empty();
    let lines: Vec<&str> = old.split_inclusive('\n').collect();
    let before = lines.iter().take_while(|line| is_blank(line)).count();
    let behind = lines.iter().rev().take_while(|line| is_blank(line)).count();
    if before + behind == 0 || before == lines.len() {
        return None;
    }
    let strip = |text: &str| {
        let lines: Vec<&str> = text.split_inclusive('\n').collect();
        let from = lines
            .iter()
            .take(before)
            .take_while(|line| is_blank(line))
            .count();
        let rest = lines[from..].iter().rev().take(behind);
        let to = lines.len() - rest.take_while(|line| is_blank(line)).count();
        lines[from..to].concat()
    };
    let old = strip(old);
    let new = strip(new);
    // The blank lines are the change.
    (old != new).then_some((old, new))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_spelling_leads_back_to_its_bytes() {
        let line = "a “b” … c".as_bytes();
        let plain = PlainLine::from_line(line, MatchTier::Typography);
        assert_eq!(plain.bytes.as_ref(), b"a \"b\" ... c");
        assert_eq!(
            &line[plain.origin_offset(2)..plain.origin_offset(5)],
            "“b”".as_bytes()
        );
        assert_eq!(plain.origin_offset(plain.bytes.len()), line.len());
    }

    #[test]
    fn every_typographic_character_is_noticed_and_no_other() {
        for c in ('\u{80}'..='\u{FFFF}').chain(['🦀']) {
            let text = format!("a{c}b");
            assert_eq!(
                has_typographic_char(text.as_bytes()),
                plain_spelling(c).is_some(),
                "U+{:04X}",
                u32::from(c)
            );
        }
        assert!(!has_typographic_char(b"caf\xe9 \xe2\x80 \xc2"));
    }

    #[test]
    fn pasted_numbers_go_only_when_they_are_numbers() {
        assert_eq!(
            strip_line_numbers("     9\tfn a() {\n    10\t}\n").as_deref(),
            Some("fn a() {\n}\n")
        );
        assert_eq!(strip_line_numbers("1\u{2192}x").as_deref(), Some("x"));
        assert_eq!(
            strip_line_numbers("12 | a {\n13 |\n14 |   b | c\n").as_deref(),
            Some("a {\n\n  b | c\n")
        );
        assert_eq!(strip_line_numbers("12 |a\n"), None);
        assert_eq!(strip_line_numbers("     9\ta\n    11\tb\n"), None);
        assert_eq!(strip_line_numbers("x\n"), None);
        assert_eq!(strip_line_numbers(""), None);
    }
}
