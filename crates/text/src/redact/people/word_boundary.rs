//! The boundaries of a name in a text. Between two letters or digits is no boundary. Scripts that write no spaces between
//! words are an exception: before and after each of their characters is one. So a name in Japanese text is found, and
//! one within a longer Latin or Cyrillic word is not. The end of an escape, as of the `\n` in JSON, is a boundary too.

use unicode_normalization::char::is_combining_mark;

/// Returns whether this is a character of a script without spaces between words, or with particles right after names.
pub fn is_unspaced(c: char) -> bool {
    matches!(c,
        '\u{e00}'..='\u{eff}'       // Thai, Lao
        | '\u{f00}'..='\u{fff}'     // Tibetan
        | '\u{1000}'..='\u{109f}'   // Myanmar
        | '\u{1100}'..='\u{11ff}'   // Hangul letters
        | '\u{1780}'..='\u{17ff}'   // Khmer
        | '\u{2e80}'..='\u{2fdf}'   // parts of Han characters
        | '\u{3005}'..='\u{318f}'   // kana, Bopomofo, Hangul letters
        | '\u{31a0}'..='\u{31ff}'
        | '\u{3400}'..='\u{9fff}'   // Han
        | '\u{ac00}'..='\u{d7af}'   // Hangul
        | '\u{f900}'..='\u{faff}'
        | '\u{ff66}'..='\u{ff9f}'   // narrow katakana
        | '\u{20000}'..='\u{3ffff}')
}

/// The longest escape: a sequence that sets a terminal's colours.
pub(super) const MAX_ESCAPE_BYTES: usize = 32;

/// Returns whether a name with this first character may begin after a text.
pub(super) fn is_name_start(before: &str, first: Option<char>) -> bool {
    is_name_boundary(before.chars().next_back(), first) || ends_with_escape(before)
}

/// Returns whether a text ends with an escape: of JSON and source code, of an address, or of a terminal.
fn ends_with_escape(text: &str) -> bool {
    let bytes = text.as_bytes();
    let all_hex = |digits: &[u8]| digits.iter().all(u8::is_ascii_hexdigit);
    match bytes {
        [.., b'\\', b'n' | b'r' | b't' | b'b' | b'f' | b'v' | b'0'] => true,
        [.., b'%', a, b] => all_hex(&[*a, *b]),
        [.., b'\\', b'u', a, b, c, d] => all_hex(&[*a, *b, *c, *d]),
        _ => ends_with_control_sequence(bytes),
    }
}

/// Returns whether bytes end with a control sequence of a terminal (ECMA-48).
fn ends_with_control_sequence(bytes: &[u8]) -> bool {
    let Some((b'a'..=b'z' | b'A'..=b'Z', before)) = bytes.split_last() else {
        return false;
    };
    let is_parameter = |byte: &&u8| matches!(byte, b'0'..=b'?');
    let parameters = before.iter().rev().take(MAX_ESCAPE_BYTES);
    let count = parameters.take_while(is_parameter).count();
    before[..before.len() - count].ends_with(b"\x1b[")
}

/// Returns whether a name may begin or end between these neighbours.
pub(super) fn is_name_boundary(before: Option<char>, after: Option<char>) -> bool {
    let (Some(before), Some(after)) = (before, after) else {
        return true;
    };
    if is_combining_mark(after) {
        return false;
    }
    !is_joined(before) || !is_joined(after)
}

/// Returns whether a mail address may begin after a text.
pub(super) fn is_mail_start(before: &str) -> bool {
    let mut characters = before.chars().rev();
    match characters.next() {
        Some('+' | '%') => false,
        // `_` may be a sign of Markdown.
        Some('.' | '-' | '_') => !characters.next().is_some_and(is_joined),
        Some(c) => !is_joined(c) || ends_with_escape(before),
        None => true,
    }
}

/// Returns whether a mail address may end before a text.
pub(super) fn is_mail_end(after: &str) -> bool {
    let mut after = after.chars();
    match after.next() {
        Some('.' | '-') => !after.next().is_some_and(is_joined),
        Some(c) => !is_joined(c),
        None => true,
    }
}

fn is_joined(c: char) -> bool {
    (c.is_alphanumeric() || is_combining_mark(c)) && !is_unspaced(c)
}
