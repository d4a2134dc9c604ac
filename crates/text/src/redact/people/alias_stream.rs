//! Replaces identifiers of people in a stream of bytes. Text that may become an identifier is held back.

use std::borrow::Cow;

use super::PersonAliases;
use super::word_boundary::MAX_ESCAPE_BYTES;

/// The bytes before the held ones that decide about boundaries: an escape and its letter.
const CONTEXT_BYTES: usize = MAX_ESCAPE_BYTES + 4;

/// A stream in which people are replaced.
#[derive(Debug, Default)]
pub(in crate::redact) struct AliasStream {
    /// Bytes that were passed on, and then those that are held back.
    bytes: Vec<u8>,
    passed: usize,
}

impl AliasStream {
    /// Adds bytes and appends those that are decided to `out`.
    pub fn push(
        &mut self,
        people: Option<&PersonAliases>,
        chunk: &[u8],
        at_end: bool,
        out: &mut Vec<u8>,
    ) {
        self.bytes.extend_from_slice(chunk);
        let Some(people) = people else {
            out.extend_from_slice(&self.bytes[self.passed..]);
            self.bytes.clear();
            self.passed = 0;
            return;
        };
        let text = as_text(&self.bytes, at_end);
        let (found, decided) = if at_end {
            (people.find_people(&text), text.len())
        } else {
            people.find_decided(&text)
        };
        let decided = decided.max(self.passed);
        let mut from = self.passed;
        for one in found.iter().filter(|one| one.range.end > self.passed) {
            // A sign before a number may have been passed on.
            let start = one.range.start.max(from);
            out.extend_from_slice(&self.bytes[from..start]);
            out.extend_from_slice(people.alias_of(one).as_bytes());
            from = one.range.end;
        }
        out.extend_from_slice(&self.bytes[from..decided.max(from)]);
        let passed = decided.max(from);
        let context = text.floor_char_boundary(passed.saturating_sub(CONTEXT_BYTES));
        self.bytes.drain(..context);
        self.passed = passed - context;
    }

    /// Returns the bytes that are held back.
    pub fn held_back(&self) -> &[u8] {
        &self.bytes[self.passed..]
    }
}

/// Returns bytes as text of the same length, without a character whose end is missing. Other bytes become a control
/// character.
pub(in crate::redact) fn as_text(bytes: &[u8], at_end: bool) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => return Cow::Borrowed(text),
        Err(error) if !at_end && error.error_len().is_none() => {
            let valid = &bytes[..error.valid_up_to()];
            return Cow::Borrowed(std::str::from_utf8(valid).unwrap_or_default());
        }
        Err(_) => {}
    }
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        let is_last = text.len() + chunk.invalid().len() == bytes.len();
        let is_incomplete =
            std::str::from_utf8(chunk.invalid()).is_err_and(|error| error.error_len().is_none());
        if !(is_last && is_incomplete && !at_end) {
            text.extend(chunk.invalid().iter().map(|_| '\u{1a}'));
        }
    }
    Cow::Owned(text)
}
