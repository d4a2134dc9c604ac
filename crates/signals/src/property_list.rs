//! Property lists of macOS, binary and XML, as a tree within bounds. A small binary list can name one array many times, and
//! can nest as deep as it likes: read without bounds, it fills the memory or overflows the stack.

use std::io::Cursor;

use plist::stream::{Event, Reader};
use plist::{Dictionary, Value};

use super::Budget;

/// Property lists of programs are some levels deep.
const MAX_DEPTH: usize = 64;
/// The memory of the tree, to which the file may add one text or array many times.
const MAX_TREE_BYTES: u64 = 128 << 20;
/// The memory of a value besides its text.
const VALUE_BYTES: u64 = size_of::<Value>() as u64;

/// Reads a property list. Values that no source needs (data, dates, ids) are left out.
///
/// # Errors
/// A text for people: it is no property list, is damaged, too deep or too large, or the budget ended.
pub(crate) fn parse_property_list(bytes: &[u8], budget: &Budget) -> Result<Value, String> {
    let mut open: Vec<Collection> = Vec::new();
    let mut size = 0;
    for event in Reader::new(Cursor::new(bytes)) {
        let event = event.map_err(|error| format!("it is no valid property list: {error}"))?;
        if !budget.has_time() {
            return Err("the time for it is over".to_owned());
        }
        let value = match event {
            Event::StartArray(len) => {
                size += len.unwrap_or(1).saturating_mul(VALUE_BYTES);
                open.push(Collection::Array(Vec::new()));
                None
            }
            Event::StartDictionary(len) => {
                size += len.unwrap_or(1).saturating_mul(VALUE_BYTES);
                open.push(Collection::Dictionary(Dictionary::new(), None));
                None
            }
            Event::EndCollection => open.pop().map(Collection::into_value),
            Event::String(text) => {
                size += text.len() as u64;
                Some(Value::String(text.into_owned()))
            }
            Event::Integer(number) => Some(Value::Integer(number)),
            Event::Real(number) => Some(Value::Real(number)),
            Event::Boolean(flag) => Some(Value::Boolean(flag)),
            // Something must stand here: in a dictionary, keys and values come by turns.
            Event::Data(data) => {
                size += data.len() as u64;
                Some(Value::Boolean(false))
            }
            _ => Some(Value::Boolean(false)),
        };
        size += VALUE_BYTES;
        if size > MAX_TREE_BYTES || open.len() > MAX_DEPTH {
            return Err("it is too large or too deep".to_owned());
        }
        match (value, open.last_mut()) {
            (Some(value), Some(collection)) => collection.add(value),
            (Some(value), None) => return Ok(value),
            (None, _) => {}
        }
    }
    Err("it is no valid property list: it ends early".to_owned())
}

enum Collection {
    Array(Vec<Value>),
    Dictionary(Dictionary, Option<String>),
}

impl Collection {
    fn add(&mut self, value: Value) {
        match self {
            Self::Array(values) => values.push(value),
            Self::Dictionary(values, key) => match (key.take(), value) {
                (Some(key), value) => {
                    values.insert(key, value);
                }
                // A key that is no text would leave keys and values out of step.
                (None, Value::String(text)) => *key = Some(text),
                (None, _) => *key = Some(String::new()),
            },
        }
    }

    fn into_value(self) -> Value {
        match self {
            Self::Array(values) => Value::Array(values),
            Self::Dictionary(values, _) => Value::Dictionary(values),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    use super::*;

    fn parse(bytes: &[u8]) -> Result<Value, String> {
        let budget = Budget::begin(
            Duration::from_mins(1),
            1_000,
            Arc::new(AtomicBool::new(false)),
        );
        parse_property_list(bytes, &budget)
    }

    /// A binary list of `levels` arrays, each of which names the next one `width` times.
    fn nested_arrays(levels: u8, width: u8) -> Vec<u8> {
        let mut bytes = b"bplist00".to_vec();
        let mut offsets = Vec::new();
        for level in 1..=levels {
            offsets.push(u16::try_from(bytes.len()).expect("a small file"));
            bytes.push(0xa0 | width);
            bytes.extend(std::iter::repeat_n(level, usize::from(width)));
        }
        offsets.push(u16::try_from(bytes.len()).expect("a small file"));
        bytes.push(0x08);
        let table = bytes.len() as u64;
        bytes.extend(offsets.iter().flat_map(|offset| offset.to_be_bytes()));
        bytes.extend([0, 0, 0, 0, 0, 0, 2, 1]);
        bytes.extend((u64::from(levels) + 1).to_be_bytes());
        bytes.extend(0_u64.to_be_bytes());
        bytes.extend(table.to_be_bytes());
        bytes
    }

    #[test]
    fn a_list_with_data_and_dates_is_read() {
        let text = br#"<?xml version="1.0"?><plist version="1.0"><dict><key>when</key><date>2026-11-27T00:00:00Z</date>
            <key>blob</key><data>AAEC</data><key>Title</key><string>Rust</string></dict></plist>"#;
        let value = parse(text).expect("a valid list");
        let title = value.as_dictionary().and_then(|all| all.get("Title"));
        assert_eq!(title.and_then(Value::as_string), Some("Rust"));
    }

    #[test]
    fn a_nested_list_is_read() {
        assert!(parse(&nested_arrays(3, 2)).is_ok());
    }

    #[test]
    fn a_list_that_multiplies_itself_is_refused() {
        let error = parse(&nested_arrays(50, 14)).expect_err("14 to the power of 50 values");
        assert!(error.contains("too large"), "{error}");
    }

    #[test]
    fn a_list_that_is_too_deep_is_refused() {
        let deep = [&b"<plist>"[..], &b"<array>".repeat(1_000_000)[..]].concat();
        for list in [deep, nested_arrays(200, 1)] {
            let error = parse(&list).expect_err("it is too deep");
            assert!(error.contains("too deep"), "{error}");
        }
    }

    #[test]
    fn garbage_is_refused() {
        for garbage in [
            &b""[..],
            b"bplist00",
            b"bplist00\xff\xff\xff\xff",
            b"<plist><dict>",
            b"\0\x01",
        ] {
            assert!(parse(garbage).is_err());
        }
    }
}
