//! The forms in which a secret value turns up: as it is, and as the usual encodings show it.
//! Not here: the search for them.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// A shorter value would be found in innocent text.
pub(super) const MIN_BYTES: usize = 8;
/// A line of a longer value is a secret of its own from this length on.
const MIN_LINE_BYTES: usize = 16;

/// Every form of a value, none for one that is too short. The value is trimmed first: line ends around it belong
/// to the file it came from.
pub(super) fn of(value: &str) -> Vec<String> {
    let value = value.trim();
    if value.len() < MIN_BYTES {
        return Vec::new();
    }
    let mut forms = vec![
        value.to_owned(),
        json_escaped(value),
        percent_encoded(value, "-._~", true),
        percent_encoded(value, "-._~", false),
        // As a browser's encodeURIComponent leaves it.
        percent_encoded(value, "-._~!*'()", true),
    ];
    base64_forms(value, &mut forms);
    // A file read with line numbers tears a value of several lines apart.
    forms.extend(value.lines().map(str::trim).filter(|line| is_secret_line(line, value)).map(str::to_owned));
    forms.sort_unstable();
    forms.dedup();
    forms
}

fn is_secret_line(line: &str, value: &str) -> bool {
    line.len() >= MIN_LINE_BYTES && line.len() < value.len() && !line.starts_with("-----")
}

/// As it stands inside a JSON string.
fn json_escaped(value: &str) -> String {
    let quoted = serde_json::Value::from(value).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

fn percent_encoded(value: &str, kept: &str, upper: bool) -> String {
    let mut out = String::with_capacity(value.len() * 2);
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || kept.as_bytes().contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = if upper { write!(out, "%{byte:02X}") } else { write!(out, "%{byte:02x}") };
        }
    }
    out
}

/// Base64 of the value alone, and the part that does not depend on its neighbours where it stands after one or two
/// more bytes (modulo three) of something longer, as in an Authorization header.
fn base64_forms(value: &str, forms: &mut Vec<String>) {
    for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
        forms.push(engine.encode(value));
        for before in 0..3 {
            let mut bytes = vec![0; before];
            bytes.extend_from_slice(value.as_bytes());
            let encoded = engine.encode(&bytes);
            let first = (before * 8).div_ceil(6);
            let last = bytes.len() * 8 / 6;
            forms.push(encoded[first..last].to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_value_has_no_forms() {
        assert!(of(" 1234567\n").is_empty());
        assert!(!of(" 12345678\n").is_empty());
    }

    #[test]
    fn the_usual_encodings_are_there() {
        let forms = of("pa\"ss wörd/+1\n");
        for expected in
            ["pa\"ss wörd/+1", "pa\\\"ss wörd/+1", "pa%22ss%20w%C3%B6rd%2F%2B1", "cGEic3Mgd8O2cmQvKzE"]
        {
            assert!(forms.iter().any(|form| form == expected), "{expected} is not in {forms:?}");
        }
    }

    #[test]
    fn a_value_inside_a_longer_base64_text_is_found_at_every_offset() {
        let forms = of("correct horse");
        for before in ["", "u", "us", "use", "user:"] {
            let text = STANDARD_NO_PAD.encode(format!("{before}correct horse, and more"));
            assert!(forms.iter().any(|form| text.contains(form)), "after {before:?}: {text}");
        }
    }

    #[test]
    fn the_lines_of_a_long_value_are_secret_but_its_armour_is_not() {
        let forms = of("-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG\nshort\n-----END KEY-----\n");
        assert!(forms.iter().any(|form| form == "MIIEvQIBADANBgkqhkiG"));
        assert!(!forms.iter().any(|form| form == "short" || form == "-----BEGIN KEY-----"));
    }
}
