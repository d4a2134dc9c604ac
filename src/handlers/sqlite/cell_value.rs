//! One value of a row as text.

use std::borrow::Cow;

use rusqlite::types::ValueRef;
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value, json};

use punie_core::ids::to_hex;
use punie_text::output::number_format::{format_count, group_digits};
use punie_text::redact::Redactor;

/// A value of bounded size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum CellValue {
    Null,
    Integer(i64),
    /// The bits of a number: JSON has no infinity.
    Real(u64),
    Text(CutText),
    /// A description of a blob.
    Blob(String),
}

/// A text of bounded length.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CutText {
    pub(super) text: String,
    /// The text after the cut, as much as a secret across the cut may take. Empty once secrets are masked.
    pub(super) beyond: String,
    /// The length before the cut, if it was cut.
    pub(super) full_chars: Option<usize>,
}

impl CutText {
    pub(super) fn new(full: &str, max_chars: usize, longest_secret: usize) -> Self {
        let Some((cut, _)) = full.char_indices().nth(max_chars) else {
            return Self {
                text: full.to_owned(),
                ..Self::default()
            };
        };
        let (text, rest) = full.split_at(cut);
        // Escape sequences within a secret make it longer.
        let more = if longest_secret == 0 {
            0
        } else {
            2 * longest_secret + 100
        };
        Self {
            text: text.to_owned(),
            beyond: first_chars(rest, more).to_owned(),
            full_chars: Some(full.chars().count()),
        }
    }

    /// Masks the owner's secrets, also one across the cut, and cuts again. Returns how many there were.
    pub(super) fn mask_secrets(&mut self, redactor: &Redactor) -> u64 {
        let max_chars = self
            .full_chars
            .map_or(usize::MAX, |_| self.text.chars().count());
        self.text.push_str(&std::mem::take(&mut self.beyond));
        let (masked, count) = redactor.mask(&self.text);
        self.text = first_chars(&masked, max_chars).to_owned();
        count
    }
}

fn first_chars(text: &str, count: usize) -> &str {
    let end = text.char_indices().nth(count);
    end.map_or(text, |(end, _)| &text[..end])
}

/// Reads values out of SQLite's memory.
#[derive(Debug, Default)]
pub(super) struct CellReader {
    /// Bytes of the longest secret.
    pub(super) longest_secret: usize,
    /// Characters that were not valid text.
    pub(super) lossy: u64,
}

impl CellReader {
    /// Reads a value, with the first `max_chars` characters of a text.
    pub(super) fn read(&mut self, value: ValueRef<'_>, max_chars: usize) -> CellValue {
        match value {
            ValueRef::Null => CellValue::Null,
            ValueRef::Integer(n) => CellValue::Integer(n),
            ValueRef::Real(x) => CellValue::Real(x.to_bits()),
            ValueRef::Blob(bytes) => CellValue::Blob(describe_blob(bytes)),
            ValueRef::Text(bytes) => {
                let text = String::from_utf8_lossy(bytes);
                if matches!(text, Cow::Owned(_)) {
                    self.lossy += text
                        .chars()
                        .filter(|c| *c == char::REPLACEMENT_CHARACTER)
                        .count() as u64;
                }
                CellValue::Text(CutText::new(&text, max_chars, self.longest_secret))
            }
        }
    }
}

impl CellValue {
    /// On one line, as a cell of a table. NULL and the text `NULL` look different: the text is quoted.
    pub(super) fn to_table_cell(&self) -> String {
        match self {
            Self::Text(CutText {
                text, full_chars, ..
            }) => {
                let quote = text.is_empty() || text == "NULL";
                let mut out = String::with_capacity(text.len());
                for c in text.chars() {
                    match c {
                        '\0' => out.push_str("\\0"),
                        c if c.is_control() => out.extend(c.escape_default()),
                        c => out.push(c),
                    }
                }
                if quote {
                    out = format!("'{out}'");
                }
                out + &length_note(*full_chars)
            }
            other => other.plain_text(),
        }
    }

    /// As a field of CSV, not yet quoted. NULL is empty and an empty text is `""`.
    pub(super) fn to_csv_field(&self) -> String {
        match self {
            Self::Null => String::new(),
            Self::Text(cut) if cut.text.is_empty() => "\"\"".to_owned(),
            other => quote_csv_field(&other.plain_text()),
        }
    }

    /// As JSON. Integers keep every digit.
    pub(super) fn to_json(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Integer(n) => json!(n),
            Self::Real(bits) => {
                let x = f64::from_bits(*bits);
                Number::from_f64(x).map_or_else(|| json!(number_text(x)), Value::Number)
            }
            other => json!(other.plain_text()),
        }
    }

    fn plain_text(&self) -> String {
        match self {
            Self::Null => "NULL".to_owned(),
            Self::Integer(n) => n.to_string(),
            Self::Real(bits) => number_text(f64::from_bits(*bits)),
            Self::Text(cut) => cut.text.replace('\0', "\\0") + &length_note(cut.full_chars),
            Self::Blob(text) => text.clone(),
        }
    }

    /// Returns whether the value is aligned to the right of its column.
    pub(super) fn is_number(&self) -> bool {
        matches!(self, Self::Integer(_) | Self::Real(_))
    }
}

fn length_note(full_chars: Option<usize>) -> String {
    full_chars
        .map(|chars| format!("... ({} characters)", group_digits(chars as u64)))
        .unwrap_or_default()
}

fn number_text(x: f64) -> String {
    format!("{x:?}").replace("inf", "Inf")
}

/// A field with a separator, a quote or a line end, in quotes (RFC 4180, section 2).
pub(super) fn quote_csv_field(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

fn describe_blob(bytes: &[u8]) -> String {
    let length = format_count(bytes.len() as u64, "byte");
    match blob_kind(bytes) {
        Some(kind) => format!("<blob {length}, {kind}>"),
        None if bytes.len() <= 16 => format!("<blob {length}, x'{}'>", to_hex(bytes)),
        None => format!("<blob {length}>"),
    }
}

/// The format that the first bytes name.
fn blob_kind(bytes: &[u8]) -> Option<&'static str> {
    const KINDS: &[(&[u8], &str)] = &[
        (b"\x89PNG\r\n\x1a\n", "png"),
        (b"\xff\xd8\xff", "jpeg"),
        (b"GIF8", "gif"),
        (b"%PDF-", "pdf"),
        (b"PK\x03\x04", "zip"),
        (b"\x1f\x8b", "gzip"),
        (b"\x28\xb5\x2f\xfd", "zstd"),
        (b"SQLite format 3\0", "sqlite"),
        (b"bplist00", "plist"),
        (b"\x7fELF", "elf"),
    ];
    let known = KINDS
        .iter()
        .find(|(magic, _)| bytes.starts_with(magic))
        .map(|(_, kind)| *kind);
    known.or_else(|| {
        (bytes.len() >= 12 && bytes.starts_with(b"RIFF") && &bytes[8..12] == b"WEBP")
            .then_some("webp")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(value: ValueRef<'_>) -> CellValue {
        CellReader::default().read(value, 10)
    }

    #[test]
    fn values_show_what_they_are() {
        assert_eq!(shown(ValueRef::Null).to_table_cell(), "NULL");
        assert_eq!(shown(ValueRef::Text(b"NULL")).to_table_cell(), "'NULL'");
        assert_eq!(
            shown(ValueRef::Integer(i64::MAX)).to_json().to_string(),
            "9223372036854775807"
        );
        assert_eq!(shown(ValueRef::Real(2.0)).to_table_cell(), "2.0");
        assert_eq!(shown(ValueRef::Real(f64::INFINITY)).to_json(), json!("Inf"));
        assert_eq!(
            shown(ValueRef::Blob(b"\x89PNG\r\n\x1a\n....")).to_table_cell(),
            "<blob 12 bytes, png>"
        );
        assert_eq!(
            shown(ValueRef::Blob(&[1, 255])).to_table_cell(),
            "<blob 2 bytes, x'01ff'>"
        );
    }

    #[test]
    fn texts_are_cut_and_made_harmless() {
        assert_eq!(
            shown(ValueRef::Text(b"a\0b\x1b[1m\n")).to_table_cell(),
            "a\\0b\\u{1b}[1m\\n"
        );
        assert_eq!(
            shown(ValueRef::Text("ä".repeat(1_500).as_bytes())).to_table_cell(),
            format!("{}... (1,500 characters)", "ä".repeat(10))
        );
        let mut reader = CellReader::default();
        assert_eq!(
            reader.read(ValueRef::Text(b"a\xffb"), 10).to_table_cell(),
            "a\u{FFFD}b"
        );
        assert_eq!(reader.lossy, 1);
    }

    #[test]
    fn csv_tells_null_from_nothing() {
        assert_eq!(shown(ValueRef::Null).to_csv_field(), "");
        assert_eq!(shown(ValueRef::Text(b"")).to_csv_field(), "\"\"");
        assert_eq!(
            shown(ValueRef::Text(b"a,\"b\"")).to_csv_field(),
            "\"a,\"\"b\"\"\""
        );
    }
}
