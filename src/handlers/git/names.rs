//! Names and texts of a repository as an answer shows them: on one line, with nothing in them that a reader cannot
//! see. Not here: what stands in files, which is shown as it is.

use std::fmt::Write as _;

/// How much of a branch's name, an author's or a subject is shown.
const SHOWN: usize = 200;

/// A path. One with control characters, invisible ones, quotes or bytes that are no text is quoted, as git does.
pub(super) fn path(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.chars().any(|c| matches!(c, '"' | '\\') || is_unseen(c)) => text.to_owned(),
        _ => quoted(bytes),
    }
}

fn quoted(bytes: &[u8]) -> String {
    let mut out = String::from("\"");
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' | '\\' => out.extend(['\\', c]),
                '\n' => out.push_str("\\n"),
                '\t' => out.push_str("\\t"),
                '\r' => out.push_str("\\r"),
                c if is_unseen(c) => octal(c.encode_utf8(&mut [0; 4]).as_bytes(), &mut out),
                c => out.push(c),
            }
        }
        octal(chunk.invalid(), &mut out);
    }
    out.push('"');
    out
}

fn octal(bytes: &[u8], out: &mut String) {
    for byte in bytes {
        let _ = write!(out, "\\{byte:03o}");
    }
}

/// The path that git quoted, or the bytes as they are.
pub(super) fn unquoted(text: &[u8]) -> Vec<u8> {
    let Some(inner) = text.strip_prefix(b"\"").and_then(|text| text.strip_suffix(b"\"")) else {
        return text.to_vec();
    };
    let mut out = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let Some((&escaped, after)) = rest.split_first() else { break };
        let octal = rest.get(..3).filter(|digits| digits.iter().all(|d| (b'0'..=b'7').contains(d)));
        if let Some(digits) = octal {
            out.push(digits.iter().fold(0_u8, |sum, d| sum.wrapping_mul(8).wrapping_add(d - b'0')));
            rest = &rest[3..];
            continue;
        }
        rest = after;
        out.push(match escaped {
            b'a' => 7,
            b'b' => 8,
            b't' => b'\t',
            b'n' => b'\n',
            b'v' => 11,
            b'f' => 12,
            b'r' => b'\r',
            other => other,
        });
    }
    out
}

/// A name or a subject, on one line and not too long.
pub(super) fn line(text: &str) -> String {
    let mut out = String::new();
    for (at, c) in text.chars().enumerate() {
        if at == SHOWN {
            let _ = write!(out, "… ({} characters)", text.chars().count());
            break;
        }
        show(c, &mut out);
    }
    out
}

/// A text of several lines.
pub(super) fn block(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.replace("\r\n", "\n").chars() {
        if matches!(c, '\n' | '\t') {
            out.push(c);
        } else {
            show(c, &mut out);
        }
    }
    out
}

fn show(c: char, out: &mut String) {
    if is_unseen(c) {
        let _ = write!(out, "{}", c.escape_unicode());
    } else {
        out.push(c);
    }
}

/// Characters that change what a reader sees without being seen: controls, directions, and those of no width.
pub(super) fn is_unseen(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{ad}'
                | '\u{61c}'
                | '\u{180e}'
                | '\u{200b}'..='\u{200f}'
                | '\u{2028}'..='\u{202e}'
                | '\u{2060}'..='\u{206f}'
                | '\u{feff}'
                | '\u{e0000}'..='\u{e007f}'
        )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn plain_names_stay_and_others_are_quoted() {
        assert_eq!(path("neu ä.txt".as_bytes()), "neu ä.txt");
        assert_eq!(path(b"evil\n\x1b[31m.txt"), "\"evil\\n\\033[31m.txt\"");
        assert_eq!(path(b"caf\xe9"), "\"caf\\351\"");
        assert_eq!(path("a\u{202e}txt.exe".as_bytes()), "\"a\\342\\200\\256txt.exe\"");
        assert_eq!(line("a\u{1b}[0m\u{202e}b"), "a\\u{1b}[0m\\u{202e}b");
        assert_eq!(line(&"x".repeat(10_000)).chars().count(), SHOWN + "… (10000 characters)".chars().count());
        assert_eq!(block("a\r\nb\u{7}"), "a\nb\\u{7}");
    }

    proptest! {
        #[test]
        fn a_quoted_name_is_the_name(name in proptest::collection::vec(any::<u8>(), 1..40)) {
            let shown = path(&name);
            prop_assert!(!shown.chars().any(is_unseen), "{shown:?}");
            prop_assert_eq!(unquoted(shown.as_bytes()), name);
        }
    }
}
