//! The encodings in which a secret value appears: plain, and as common programs encode it.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// The minimum length; a shorter value would match harmless text.
pub(super) const MIN_BYTES: usize = 8;
/// The length from which a line of a longer value counts as a secret of its own.
const MIN_LINE_BYTES: usize = 16;
/// The depth of JSON within JSON: a log line in a tool's result in a message.
const MAX_JSON_DEPTH: usize = 3;
/// The minimum piece of base64 or hex, which programs break into lines. A line is longer than two pieces, so most of
/// it is masked.
const PIECE_BYTES: usize = 24;
/// The bytes of a row of hex with blanks: half a line of most programs, so that each line of a value has one.
const ROW_BYTES: usize = 8;

/// Returns every encoding of a value, or none if it is too short. The value is trimmed first: line ends around it
/// belong to the file it came from.
pub(super) fn all_encodings(value: &str) -> Vec<String> {
    let value = value.trim();
    if value.len() < MIN_BYTES {
        return Vec::new();
    }
    let mut forms = vec![value.to_owned()];
    add_json_encodings(value, &mut forms);
    add_url_encodings(value, &mut forms);
    add_shell_encodings(value, &mut forms);
    add_markup_encodings(value, &mut forms);
    add_base64_encodings(value, &mut forms);
    add_hex_encodings(value, &mut forms);
    add_base32_encodings(value, &mut forms);
    forms.push(value.chars().rev().collect());
    // Output with line numbers splits a value of several lines.
    forms.extend(
        value
            .lines()
            .map(str::trim)
            .filter(|line| is_secret_line(line, value))
            .map(str::to_owned),
    );
    forms.sort_unstable();
    forms.dedup();
    forms
}

fn is_secret_line(line: &str, value: &str) -> bool {
    line.len() >= MIN_LINE_BYTES && line.len() < value.len() && !line.starts_with("-----")
}

/// Adds the value as in a JSON string, also nested: plain, in ASCII only as Python writes it, without `<`, `>` and `&`
/// as Go does, with `\/` as PHP does.
fn add_json_encodings(value: &str, forms: &mut Vec<String>) {
    let plain = escape_json(value);
    let without = |kept: fn(char) -> bool, upper: bool| -> String {
        let mut out = String::with_capacity(plain.len());
        for c in plain.chars() {
            if kept(c) {
                out.push(c);
            } else {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    let _ = if upper {
                        write!(out, "\\u{unit:04X}")
                    } else {
                        write!(out, "\\u{unit:04x}")
                    };
                }
            }
        }
        out
    };
    let mut written = vec![
        without(|c| c.is_ascii(), false),
        without(|c| c.is_ascii(), true),
        without(|c| !"<>&".contains(c), false),
        plain.replace('/', "\\/"),
    ];
    written.push(plain);
    for mut form in written {
        for _ in 1..MAX_JSON_DEPTH {
            let nested = escape_json(&form);
            forms.push(std::mem::replace(&mut form, nested));
        }
        forms.push(form);
    }
}

fn escape_json(value: &str) -> String {
    let quoted = serde_json::Value::from(value).to_string();
    quoted[1..quoted.len() - 1].to_owned()
}

/// Adds the value as in a URL, in a form, and in a URL within a URL.
fn add_url_encodings(value: &str, forms: &mut Vec<String>) {
    let unreserved = "-._~";
    let once = [
        percent_encode(value, unreserved, true),
        percent_encode(value, unreserved, false),
        // As JavaScript's encodeURIComponent encodes it.
        percent_encode(value, "-._~!*'()", true),
        percent_encode(value, "-._* ", true).replace(' ', "+"),
    ];
    forms.extend(
        once.iter()
            .map(|form| percent_encode(form, unreserved, true)),
    );
    forms.extend(once);
}

fn percent_encode(value: &str, kept: &str, upper: bool) -> String {
    let mut out = String::with_capacity(value.len() * 2);
    for byte in value.bytes() {
        if byte.is_ascii_alphanumeric() || kept.as_bytes().contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = if upper {
                write!(out, "%{byte:02X}")
            } else {
                write!(out, "%{byte:02x}")
            };
        }
    }
    out
}

/// Adds the value as shells quote it: in single quotes, in double quotes, by backslashes, in `$'...'`.
fn add_shell_encodings(value: &str, forms: &mut Vec<String>) {
    let marked = |special: fn(char) -> bool| -> String {
        value
            .chars()
            .flat_map(|c| special(c).then_some('\\').into_iter().chain([c]))
            .collect()
    };
    forms.push(value.replace('\'', "'\\''"));
    forms.push(marked(|c| "\"\\$`".contains(c)));
    forms.push(marked(|c| " \t\n!\"#$&'()*,;<>?[\\]^`{|}~".contains(c)));
    forms.push(marked(|c| {
        c.is_ascii() && !c.is_ascii_alphanumeric() && !"_-./:=@%+,".contains(c)
    }));
    forms.push(
        marked(|c| "'\\".contains(c))
            .replace('\n', "\\n")
            .replace('\t', "\\t"),
    );
}

/// Adds the value as HTML and XML escape it.
fn add_markup_encodings(value: &str, forms: &mut Vec<String>) {
    let plain = value
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;");
    for double in ["&quot;", "&#34;", "\""] {
        for single in ["&#39;", "&#x27;", "&apos;", "'"] {
            forms.push(plain.replace('"', double).replace('\'', single));
        }
    }
}

/// Adds base64 of the value alone, and of the value at each offset (modulo three) within longer data, as in an
/// Authorization header. The latter omits the characters that depend on neighbouring bytes.
fn add_base64_encodings(value: &str, forms: &mut Vec<String>) {
    forms.push(STANDARD.encode(value));
    for engine in [&STANDARD_NO_PAD, &URL_SAFE_NO_PAD] {
        forms.push(engine.encode(value));
        for before in 0..3 {
            let mut bytes = vec![0; before];
            bytes.extend_from_slice(value.as_bytes());
            let encoded = engine.encode(&bytes);
            let first = (before * 8).div_ceil(6);
            let last = bytes.len() * 8 / 6;
            add_text_and_pieces(&encoded[first..last], forms);
        }
    }
}

/// Adds hex of the value: as one number, and byte by byte as programs that show memory print it (`70 61`, `70:61`, `70-61`,
/// `\x70\x61`), or two bytes at a time as `xxd` does.
fn add_hex_encodings(value: &str, forms: &mut Vec<String>) {
    let lower: Vec<String> = value.bytes().map(|byte| format!("{byte:02x}")).collect();
    let upper: Vec<String> = lower.iter().map(|byte| byte.to_ascii_uppercase()).collect();
    for bytes in [&lower, &upper] {
        add_text_and_pieces(&bytes.concat(), forms);
        for between in [" ", ":", "-", "\\x"] {
            add_joined(bytes, between, ROW_BYTES, forms);
        }
    }
    // The value may begin within a pair.
    for before in 0..2 {
        let (first, rest) = lower.split_at(before);
        let pairs = rest.chunks(2).map(<[String]>::concat);
        let groups: Vec<String> = first.iter().cloned().chain(pairs).collect();
        add_joined(&groups, " ", ROW_BYTES / 2, forms);
    }
}

/// Adds groups of digits with a text between them, and rows of them in case they are broken into lines.
fn add_joined(groups: &[String], between: &str, row: usize, forms: &mut Vec<String>) {
    forms.push(groups.join(between));
    let rows = groups.chunks_exact(row);
    forms.extend(rows.map(|row| row.join(between)));
}

/// Adds base32 of the value alone, and of the value at each offset (modulo five) within longer data, without the
/// characters that depend on neighbouring bytes.
fn add_base32_encodings(value: &str, forms: &mut Vec<String>) {
    for before in 0..5 {
        let mut bytes = vec![0; before];
        bytes.extend_from_slice(value.as_bytes());
        let encoded = encode_base32(&bytes);
        let first = (before * 8).div_ceil(5);
        add_text_and_pieces(&encoded[first..bytes.len() * 8 / 5], forms);
    }
}

/// Encodes bytes in base32 without padding.
fn encode_base32(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let bit = |at: usize| {
        let byte = bytes.get(at / 8).copied().unwrap_or(0);
        usize::from(byte >> (7 - at % 8) & 1)
    };
    let count = (bytes.len() * 8).div_ceil(5);
    (0..count)
        .map(|digit| (0..5).fold(0, |number, at| number << 1 | bit(digit * 5 + at)))
        .map(|number| char::from(ALPHABET[number]))
        .collect()
}

/// Adds an ASCII text, and its pieces in case it is broken into lines.
fn add_text_and_pieces(text: &str, forms: &mut Vec<String>) {
    forms.push(text.to_owned());
    let count = if text.len() < 32 {
        1
    } else {
        (text.len() / PIECE_BYTES).max(2)
    };
    for piece in 0..count {
        forms.push(text[text.len() * piece / count..text.len() * (piece + 1) / count].to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_value_has_no_forms() {
        assert!(all_encodings(" 1234567\n").is_empty());
        assert!(!all_encodings(" 12345678\n").is_empty());
    }

    #[test]
    fn the_usual_encodings_are_there() {
        let forms = all_encodings("pa\"ss wörd/+1\n");
        for expected in [
            "pa\"ss wörd/+1",
            "pa\\\"ss wörd/+1",
            "pa%22ss%20w%C3%B6rd%2F%2B1",
            "cGEic3Mgd8O2cmQvKzE",
        ] {
            assert!(
                forms.iter().any(|form| form == expected),
                "{expected} is not in {forms:?}"
            );
        }
    }

    #[test]
    fn a_value_inside_a_longer_base64_text_is_found_at_every_offset() {
        let forms = all_encodings("correct horse");
        for before in ["", "u", "us", "use", "user:"] {
            let text = STANDARD_NO_PAD.encode(format!("{before}correct horse, and more"));
            assert!(
                forms.iter().any(|form| text.contains(form)),
                "after {before:?}: {text}"
            );
        }
    }

    #[test]
    fn a_value_inside_a_longer_base32_text_is_found_at_every_offset() {
        let forms = all_encodings("correct horse");
        let is_found = |text: &str| forms.iter().any(|form| text.contains(form));
        for after in ["", "\n", ", and more"] {
            for before in ["", "u", "us", "use", "user", "user:"] {
                let text = encode_base32(format!("{before}correct horse{after}").as_bytes());
                assert!(is_found(&text), "after {before:?}: {text}");
            }
        }
        assert_eq!(encode_base32(b"foobar"), "MZXW6YTBOI");
    }

    #[test]
    fn the_lines_of_a_long_value_are_secret_but_its_armour_is_not() {
        let forms =
            all_encodings("-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG\nshort\n-----END KEY-----\n");
        assert!(forms.iter().any(|form| form == "MIIEvQIBADANBgkqhkiG"));
        assert!(
            !forms
                .iter()
                .any(|form| form == "short" || form == "-----BEGIN KEY-----")
        );
    }

    #[test]
    fn what_programs_make_of_a_value_is_among_its_forms() {
        // Each as the named program prints it for this value.
        let forms = all_encodings("p'q\"r$ <s>&é/");
        for (who, expected) in [
            ("json.dumps", r#"p'q\"r$ <s>&\u00e9/"#),
            ("Go's encoding/json", r#"p'q\"r$ \u003cs\u003e\u0026é/"#),
            ("PHP's json_encode", r#"p'q\"r$ <s>&é\/"#),
            ("JSON in JSON", r#"p'q\\\"r$ <s>&é/"#),
            ("JSON in JSON in JSON", r#"p'q\\\\\\\"r$ <s>&é/"#),
            ("encodeURIComponent", "p'q%22r%24%20%3Cs%3E%26%C3%A9%2F"),
            ("a form", "p%27q%22r%24+%3Cs%3E%26%C3%A9%2F"),
            (
                "a URL in a URL",
                "p%2527q%2522r%2524%2520%253Cs%253E%2526%25C3%25A9%252F",
            ),
            ("shlex.quote", r#"p'\''q"r$ <s>&é/"#),
            ("printf %q", r#"p\'q\"r\$\ \<s\>\&é/"#),
            ("double quotes", r#"p'q\"r\$ <s>&é/"#),
            ("html.escape", "p&#x27;q&quot;r$ &lt;s&gt;&amp;é/"),
            ("xxd -p", "702771227224203c733e26c3a92f"),
            ("hexdump -C", "70 27 71 22 72 24 20 3c 73 3e 26 c3 a9 2f"),
            ("xxd", "7027 7122 7224 203c 733e 26c3 a92f"),
            ("xxd, after one byte", "70 2771 2272 2420 3c73 3e26 c3a9 2f"),
            ("BitConverter", "70-27-71-22-72-24-20-3C-73-3E-26-C3-A9-2F"),
            (
                "od with colons",
                "70:27:71:22:72:24:20:3c:73:3e:26:c3:a9:2f",
            ),
            (
                "repr",
                r"70\x27\x71\x22\x72\x24\x20\x3c\x73\x3e\x26\xc3\xa9\x2f",
            ),
            ("base32", "OATXCITSEQQDY4Z6E3B2SL"),
            ("rev", "/é&>s< $r\"q'p"),
        ] {
            assert!(
                forms.iter().any(|form| form == expected),
                "{who}: {expected}"
            );
        }
    }
}
