//! One value of a row as text. Not here: how rows are laid out.

use rusqlite::types::ValueRef;
use serde_json::{Number, Value, json};
use std::borrow::Cow;
use std::fmt::Write as _;

use crate::ids::hex;
use crate::output::figures::{counted, grouped};
use crate::redact::Redactor;

/// A value, taken out of SQLite's memory and within bounds.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Shown {
    Null,
    Integer(i64),
    Real(f64),
    /// A text, cut at the limit; `of` is its true length in characters where it was cut.
    Text {
        text: String,
        of: Option<usize>,
    },
    /// What stands for a blob.
    Blob(String),
}

/// Takes values out of SQLite's memory.
pub(super) struct Taker<'a> {
    redactor: &'a Redactor,
    /// How many characters were no valid text.
    pub(super) lossy: u64,
    /// How many secrets were masked.
    pub(super) masked: u64,
}

impl<'a> Taker<'a> {
    pub(super) fn new(redactor: &'a Redactor) -> Self {
        Self { redactor, lossy: 0, masked: 0 }
    }

    /// Takes a value. Secrets are masked before a long text is cut: cut ones would not be known any more.
    pub(super) fn take(&mut self, value: ValueRef<'_>, max_chars: usize) -> Shown {
        match value {
            ValueRef::Null => Shown::Null,
            ValueRef::Integer(n) => Shown::Integer(n),
            ValueRef::Real(x) => Shown::Real(x),
            ValueRef::Blob(bytes) => Shown::Blob(blob(bytes)),
            ValueRef::Text(bytes) => {
                let text = String::from_utf8_lossy(bytes);
                if matches!(text, Cow::Owned(_)) {
                    self.lossy += text.chars().filter(|c| *c == char::REPLACEMENT_CHARACTER).count() as u64;
                }
                let text = self.masked(&text);
                match text.char_indices().nth(max_chars) {
                    None => Shown::Text { text: text.into_owned(), of: None },
                    Some((at, _)) => {
                        Shown::Text { text: text[..at].to_owned(), of: Some(text.chars().count()) }
                    }
                }
            }
        }
    }

    /// The text with the owner's secrets masked.
    pub(super) fn masked<'t>(&mut self, text: &'t str) -> Cow<'t, str> {
        let (text, masked) = self.redactor.scrub(text);
        self.masked += masked;
        text
    }
}

impl Shown {
    /// On one line, as a cell of a table. NULL and the text `NULL` look different: the text is quoted.
    pub(super) fn cell(&self) -> String {
        match self {
            Self::Text { text, of } => {
                let quote = text.is_empty() || text == "NULL";
                let mut out = String::with_capacity(text.len());
                for c in text.chars() {
                    match c {
                        '\n' => out.push_str("\\n"),
                        '\r' => out.push_str("\\r"),
                        '\t' => out.push_str("\\t"),
                        '\0' => out.push_str("\\0"),
                        c if c.is_control() => out.extend(c.escape_default()),
                        c => out.push(c),
                    }
                }
                if quote {
                    out = format!("'{out}'");
                }
                if let Some(of) = of {
                    let _ = write!(out, "... ({} characters)", grouped(*of as u64));
                }
                out
            }
            other => other.plain(),
        }
    }

    /// As a field of CSV, not yet quoted. NULL is empty and an empty text is `""`.
    pub(super) fn field(&self) -> String {
        match self {
            Self::Null => String::new(),
            Self::Text { text, of: None } if text.is_empty() => "\"\"".to_owned(),
            other => quoted(&other.plain()),
        }
    }

    /// As JSON. Integers keep every digit.
    pub(super) fn json(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Integer(n) => json!(n),
            Self::Real(x) => Number::from_f64(*x).map_or_else(|| json!(real(*x)), Value::Number),
            other => json!(other.plain()),
        }
    }

    fn plain(&self) -> String {
        match self {
            Self::Null => "NULL".to_owned(),
            Self::Integer(n) => n.to_string(),
            Self::Real(x) => real(*x),
            Self::Text { text, of: None } => text.replace('\0', "\\0"),
            Self::Text { text, of: Some(of) } => {
                format!("{}... ({} characters)", text.replace('\0', "\\0"), grouped(*of as u64))
            }
            Self::Blob(text) => text.clone(),
        }
    }

    /// Whether it belongs at the right of its column.
    pub(super) fn is_number(&self) -> bool {
        matches!(self, Self::Integer(_) | Self::Real(_))
    }
}

fn real(x: f64) -> String {
    if x.is_nan() {
        "NaN".to_owned()
    } else if x.is_infinite() {
        if x > 0.0 { "Inf".to_owned() } else { "-Inf".to_owned() }
    } else {
        format!("{x:?}")
    }
}

/// A field with a separator, a quote or a line end, in quotes (RFC 4180, section 2).
pub(super) fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

fn blob(bytes: &[u8]) -> String {
    let length = counted(bytes.len() as u64, "byte");
    match kind(bytes) {
        Some(kind) => format!("<blob {length}, {kind}>"),
        None if bytes.len() <= 16 => format!("<blob {length}, x'{}'>", hex(bytes)),
        None => format!("<blob {length}>"),
    }
}

/// What the first bytes say it is.
fn kind(bytes: &[u8]) -> Option<&'static str> {
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
    let known = KINDS.iter().find(|(magic, _)| bytes.starts_with(magic)).map(|(_, kind)| *kind);
    known.or_else(|| {
        (bytes.len() >= 12 && bytes.starts_with(b"RIFF") && &bytes[8..12] == b"WEBP").then_some("webp")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(value: ValueRef<'_>) -> Shown {
        Taker::new(&Redactor::default()).take(value, 10)
    }

    #[test]
    fn values_show_what_they_are() {
        assert_eq!(shown(ValueRef::Null).cell(), "NULL");
        assert_eq!(shown(ValueRef::Text(b"NULL")).cell(), "'NULL'");
        assert_eq!(shown(ValueRef::Integer(i64::MAX)).json().to_string(), "9223372036854775807");
        assert_eq!(shown(ValueRef::Real(2.0)).cell(), "2.0");
        assert_eq!(shown(ValueRef::Real(f64::INFINITY)).json(), json!("Inf"));
        assert_eq!(shown(ValueRef::Blob(b"\x89PNG\r\n\x1a\n....")).cell(), "<blob 12 bytes, png>");
        assert_eq!(shown(ValueRef::Blob(&[1, 255])).cell(), "<blob 2 bytes, x'01ff'>");
    }

    #[test]
    fn texts_are_cut_and_made_harmless() {
        assert_eq!(shown(ValueRef::Text(b"a\0b\x1b[1m\n")).cell(), "a\\0b\\u{1b}[1m\\n");
        assert_eq!(
            shown(ValueRef::Text("ä".repeat(1_500).as_bytes())).cell(),
            format!("{}... (1,500 characters)", "ä".repeat(10))
        );
        let redactor = Redactor::default();
        let mut taker = Taker::new(&redactor);
        assert_eq!(taker.take(ValueRef::Text(b"a\xffb"), 10).cell(), "a\u{FFFD}b");
        assert_eq!(taker.lossy, 1);
    }

    #[test]
    fn csv_tells_null_from_nothing() {
        assert_eq!(shown(ValueRef::Null).field(), "");
        assert_eq!(shown(ValueRef::Text(b"")).field(), "\"\"");
        assert_eq!(shown(ValueRef::Text(b"a,\"b\"")).field(), "\"a,\"\"b\"\"\"");
    }
}
