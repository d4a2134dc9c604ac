//! Names and texts of a repository for display, with invisible characters escaped.

use std::fmt::Write as _;

use punie_text::output::path_text::{is_invisible, path_text_from_bytes, unquote_path_bytes};

/// The characters shown of a branch name, an author or a subject.
const MAX_LINE_CHARS: usize = 200;

/// Returns the path that git quoted, or the bytes unchanged.
pub(super) fn unquote_path(text: &[u8]) -> Vec<u8> {
    unquote_path_bytes(text).unwrap_or_else(|| text.to_vec())
}

/// Formats a path with the previous path before it, if it was renamed.
pub(super) fn renamed_path(from: Option<&[u8]>, to: &[u8]) -> String {
    let from = from.map_or_else(String::new, |from| {
        format!("{} -> ", path_text_from_bytes(from))
    });
    from + &path_text_from_bytes(to)
}

/// Counts the characters that no text needs and a terminal would interpret.
pub(super) fn count_control_chars(text: &str) -> u64 {
    let is_counted = |c: &char| c.is_control() && !matches!(c, '\n' | '\t' | '\r');
    text.chars().filter(is_counted).count() as u64
}

/// Formats a name or a subject on one line, cut to a maximum length.
pub(super) fn escape_line(text: &str) -> String {
    let mut out = String::new();
    for (at, c) in text.chars().enumerate() {
        if at == MAX_LINE_CHARS {
            let _ = write!(out, "… ({} characters)", text.chars().count());
            break;
        }
        push_visible(c, &mut out);
    }
    out
}

/// Formats a text of several lines.
pub(super) fn escape_block(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.replace("\r\n", "\n").chars() {
        if matches!(c, '\n' | '\t') {
            out.push(c);
        } else {
            push_visible(c, &mut out);
        }
    }
    out
}

fn push_visible(c: char, out: &mut String) {
    if is_invisible(c) {
        let _ = write!(out, "{}", c.escape_unicode());
    } else {
        out.push(c);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_texts_show_what_is_not_seen() {
        assert_eq!(escape_line("a\u{1b}[0m\u{202e}b"), "a\\u{1b}[0m\\u{202e}b");
        assert_eq!(
            escape_line(&"x".repeat(10_000)).chars().count(),
            MAX_LINE_CHARS + "… (10000 characters)".chars().count()
        );
        assert_eq!(escape_block("a\r\nb\u{7}"), "a\nb\\u{7}");
    }
}
