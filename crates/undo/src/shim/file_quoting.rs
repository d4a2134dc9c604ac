//! File names in messages, quoted for a shell as GNU's programs quote them.

use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Quotes a name. Unprintable characters stand in `$'...'`, between plain quotes.
pub(super) fn quote_file_name(path: &Path) -> String {
    let bytes = path.as_os_str().as_bytes();
    let text = std::str::from_utf8(bytes)
        .ok()
        .filter(|text| !text.contains(char::is_control));
    if let Some(text) =
        text.filter(|text| text.contains('\'') && !text.contains(['"', '$', '`', '\\', '!']))
    {
        return format!("\"{text}\"");
    }
    let mut out = String::from("'");
    let mut is_escaping = false;
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            switch_quotes(&mut out, &mut is_escaping, c.is_control());
            match c {
                '\'' => out.push_str("'\\''"),
                '\n' | '\t' | '\r' => out.extend(c.escape_default()),
                c if c.is_control() => push_octal(&mut out, c.to_string().as_bytes()),
                c => out.push(c),
            }
        }
        if !chunk.invalid().is_empty() {
            switch_quotes(&mut out, &mut is_escaping, true);
            push_octal(&mut out, chunk.invalid());
        }
    }
    out.push('\'');
    out
}

fn push_octal(out: &mut String, bytes: &[u8]) {
    for byte in bytes {
        let _ = write!(out, "\\{byte:03o}");
    }
}

fn switch_quotes(out: &mut String, is_escaping: &mut bool, escape: bool) {
    if *is_escaping != escape {
        out.push_str(if escape { "'$'" } else { "''" });
        *is_escaping = escape;
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;

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
            assert_eq!(quote_file_name(Path::new(OsStr::from_bytes(name))), shown);
        }
    }
}
