//! File names in messages, quoted as a shell would read them, as GNU's programs have it. Not here: the messages.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;

/// The name in quotes.
pub(super) fn quoted(name: &OsStr) -> String {
    let bytes = name.as_bytes();
    let plain = std::str::from_utf8(bytes).is_ok_and(|text| !text.chars().any(char::is_control));
    if plain {
        let text = String::from_utf8_lossy(bytes);
        if !text.contains('\'') {
            return format!("'{text}'");
        }
        if !text.contains(['"', '$', '`', '\\', '!']) {
            return format!("\"{text}\"");
        }
        return format!("'{}'", text.replace('\'', "'\\''"));
    }
    let mut out = String::from("'");
    let mut escaped = false;
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            push(&mut out, &mut escaped, c);
        }
        for byte in chunk.invalid() {
            escape(&mut out, &mut escaped, &format!("\\{byte:03o}"));
        }
    }
    out.push('\'');
    out
}

fn push(out: &mut String, escaped: &mut bool, c: char) {
    match c {
        '\n' => escape(out, escaped, "\\n"),
        '\t' => escape(out, escaped, "\\t"),
        '\r' => escape(out, escaped, "\\r"),
        c if c.is_control() => {
            let mut octal = String::new();
            for byte in c.to_string().bytes() {
                let _ = write!(octal, "\\{byte:03o}");
            }
            escape(out, escaped, &octal);
        }
        '\'' => {
            plainly(out, escaped);
            out.push_str("'\\''");
        }
        c => {
            plainly(out, escaped);
            out.push(c);
        }
    }
}

/// Goes on within `$'...'`.
fn escape(out: &mut String, escaped: &mut bool, text: &str) {
    if !*escaped {
        out.push_str("'$'");
        *escaped = true;
    }
    out.push_str(text);
}

/// Goes on within plain quotes.
fn plainly(out: &mut String, escaped: &mut bool) {
    if *escaped {
        out.push_str("''");
        *escaped = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_as_gnu_quotes_them() {
        for (name, shown) in [
            (&b"plain name"[..], "'plain name'"),
            (b"it's", "\"it's\""),
            (b"it's $5", r"'it'\''s $5'"),
            (b"a\nb", r"'a'$'\n''b'"),
            (b"x\xff", r"'x'$'\377'"),
            ("ä".as_bytes(), "'ä'"),
            (b"", "''"),
        ] {
            assert_eq!(quoted(OsStr::from_bytes(name)), shown);
        }
    }
}
