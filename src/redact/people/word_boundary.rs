//! The boundaries of a name in a text. Between two letters or digits is no boundary. Scripts that write no spaces between
//! words are an exception: before and after each of their characters is one. So a name in Japanese text is found, and
//! one within a longer Latin or Cyrillic word is not.

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

/// Returns whether a mail address may begin at `at`.
pub(super) fn is_mail_start(text: &str, at: usize) -> bool {
    let mut before = text[..at].chars().rev();
    match before.next() {
        Some('_' | '+' | '%') => false,
        Some('.' | '-') => !before.next().is_some_and(is_joined),
        Some(c) => !is_joined(c),
        None => true,
    }
}

/// Returns whether a mail address may end at `at`.
pub(super) fn is_mail_end(text: &str, at: usize) -> bool {
    let mut after = text[at..].chars();
    match after.next() {
        Some('.' | '-') => !after.next().is_some_and(is_joined),
        Some(c) => !is_joined(c),
        None => true,
    }
}

fn is_joined(c: char) -> bool {
    (c.is_alphanumeric() || is_combining_mark(c)) && !is_unspaced(c)
}
