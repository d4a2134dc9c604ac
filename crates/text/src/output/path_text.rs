//! The one spelling of paths in answers: as they are, or quoted as git quotes them where a reader could not see or type
//! them.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::Path;

pub use punie_core::visible_text::is_invisible;

/// A path in an answer. One with control characters, invisible ones or bytes that are not UTF-8 is quoted with octal
/// escapes, as git does: `"caf\351"`.
pub fn path_text(path: &Path) -> String {
    path_text_from_bytes(path.as_os_str().as_encoded_bytes())
}

/// Formats a path of which only the bytes are known.
pub fn path_text_from_bytes(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.starts_with('"') && !text.chars().any(is_invisible) => text.to_owned(),
        _ => quote_bytes(bytes),
    }
}

fn quote_bytes(bytes: &[u8]) -> String {
    let mut out = String::from("\"");
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '"' | '\\' => out.extend(['\\', c]),
                '\n' => out.push_str("\\n"),
                '\t' => out.push_str("\\t"),
                '\r' => out.push_str("\\r"),
                c if is_invisible(c) => push_octal(c.encode_utf8(&mut [0; 4]).as_bytes(), &mut out),
                c => out.push(c),
            }
        }
        push_octal(chunk.invalid(), &mut out);
    }
    out.push('"');
    out
}

fn push_octal(bytes: &[u8], out: &mut String) {
    for byte in bytes {
        let _ = write!(out, "\\{byte:03o}");
    }
}

/// The bytes of a quoted path; none where it is not quoted.
pub fn unquote_path_bytes(text: &[u8]) -> Option<Vec<u8>> {
    let inner = text.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
    let mut out = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let Some(&escaped) = rest.first() else {
            break;
        };
        // An escape that git does not write stands for its character.
        let (value, length) = unescape_byte(rest).unwrap_or((escaped, 1));
        out.push(value);
        rest = &rest[length..];
    }
    Some(out)
}

/// Reads what follows a backslash in a name that git quoted: three octal digits or one letter. Returns the byte, and
/// the length of what was read. `None` for anything else.
pub fn unescape_byte(rest: &[u8]) -> Option<(u8, usize)> {
    let octal = rest
        .get(..3)
        .filter(|digits| digits.iter().all(|d| (b'0'..=b'7').contains(d)));
    if let Some(digits) = octal {
        let value = digits
            .iter()
            .fold(0_u16, |sum, digit| sum * 8 + u16::from(digit - b'0'));
        return Some((u8::try_from(value).ok()?, 3));
    }
    let byte = match *rest.first()? {
        b'a' => 7,
        b'b' => 8,
        b't' => b'\t',
        b'n' => b'\n',
        b'v' => 11,
        b'f' => 12,
        b'r' => b'\r',
        same @ (b'"' | b'\\') => same,
        _ => return None,
    };
    Some((byte, 1))
}

/// The path that a text stands for: quoted as answers quote it, or as it is.
pub fn path_from_text(text: &str) -> OsString {
    unquote_path_bytes(text.as_bytes()).map_or_else(|| OsString::from(text), os_string_from_bytes)
}

/// Returns the file name or path of these bytes.
#[cfg(unix)]
pub fn os_string_from_bytes(bytes: Vec<u8>) -> OsString {
    std::os::unix::ffi::OsStringExt::from_vec(bytes)
}

/// Returns the file name or path of these bytes, which are UTF-8 on this system.
#[cfg(not(unix))]
pub fn os_string_from_bytes(bytes: Vec<u8>) -> OsString {
    String::from_utf8_lossy(&bytes).into_owned().into()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn plain_paths_stay_and_others_are_quoted() {
        for (path, expect) in [
            ("neu ä.txt".as_bytes(), "neu ä.txt"),
            (b"evil\n\x1b[31m.txt", "\"evil\\n\\033[31m.txt\""),
            (b"caf\xe9", "\"caf\\351\""),
            ("a\u{202e}txt.exe".as_bytes(), "\"a\\342\\200\\256txt.exe\""),
            (br#"a"b\c"#, r#"a"b\c"#),
            (br#""a""#, r#""\"a\"""#),
        ] {
            assert_eq!(path_text_from_bytes(path), expect);
        }
    }

    proptest! {
        #[test]
        fn a_shown_path_is_the_path(name in proptest::collection::vec(any::<u8>(), 1..40)) {
            let shown = path_text_from_bytes(&name);
            prop_assert!(!shown.chars().any(is_invisible), "{shown:?}");
            let back = path_from_text(&shown);
            #[cfg(unix)]
            prop_assert_eq!(back.as_encoded_bytes(), name.as_slice());
        }
    }
}
