//! New output of a command after a cursor, in bytes of the stored output.

use std::io;

use punie_text::output::terminal_text::{self, TerminalTextCleaner, Utf8Decoder};
use punie_text::output::{FindOutputError, OutputHandle, OutputStore};

#[derive(Debug, PartialEq, Eq)]
pub(super) struct NewOutput {
    /// The text, without escape sequences.
    pub(super) text: String,
    /// The cursor after the text.
    pub(super) next: u64,
    /// The number of stored bytes after that cursor.
    pub(super) rest: u64,
    /// Output before the text was omitted.
    pub(super) is_cut: bool,
}

/// Reads from a cursor, at most `room` bytes. Returns `None` if no output is stored.
pub(super) fn read_from(
    outputs: &OutputStore,
    handle: &OutputHandle,
    cursor: u64,
    room: usize,
) -> io::Result<Option<NewOutput>> {
    let mut stored = match outputs.find(handle.as_str()) {
        Ok(stored) => stored,
        Err(FindOutputError::Io(cause)) => return Err(cause),
        Err(_) => return Ok(None),
    };
    let (bytes, size) = stored.read_bytes_from(cursor, room)?;
    let cursor = cursor.min(size);
    let whole = cursor + bytes.len() as u64 >= size;
    let bytes = &bytes[..find_safe_end(&bytes, whole)];
    let next = cursor + bytes.len() as u64;
    Ok(Some(NewOutput {
        text: clean_text(bytes),
        next,
        rest: size.saturating_sub(next),
        is_cut: false,
    }))
}

/// Reads the last characters and the cursor after them. Returns `None` if no output is stored.
pub(super) fn read_latest(
    outputs: &OutputStore,
    handle: &OutputHandle,
    chars: usize,
) -> io::Result<Option<NewOutput>> {
    let Some(news) = read_from(outputs, handle, u64::MAX, 0)? else {
        return Ok(None);
    };
    // Enough bytes for the characters, with some colour codes.
    let from = news.next.saturating_sub(6 * chars as u64);
    let Some(mut news) = read_from(outputs, handle, from, 8 * chars)? else {
        return Ok(None);
    };
    if from > 0
        && let Some(newline) = memchr::memchr(b'\n', news.text.as_bytes())
    {
        // The text may begin inside a character or an escape sequence.
        news.text.drain(..=newline);
    }
    let before = news.text.len();
    let surplus = news.text.chars().count().saturating_sub(chars);
    if let Some((at, _)) = news
        .text
        .char_indices()
        .nth(surplus)
        .filter(|_| surplus > 0)
    {
        let line = memchr::memchr(b'\n', &news.text.as_bytes()[at..])
            .map_or(at, |newline| at + newline + 1);
        news.text
            .drain(..if line < news.text.len() { line } else { at });
    }
    news.is_cut = from > 0 || news.text.len() < before;
    Ok(Some(news))
}

/// Returns the end of the part that may be shown now. If more follows, that is the end of a line. It never lies
/// inside a character or an escape sequence, whose rest would be read as text.
fn find_safe_end(bytes: &[u8], whole: bool) -> usize {
    let mut end = bytes.len();
    if !whole && let Some(newline) = memchr::memrchr(b'\n', bytes) {
        return newline + 1;
    }
    let last = bytes.iter().rev().take(3).position(|byte| *byte >= 0xc0);
    if let Some(back) = last.filter(|back| {
        std::str::from_utf8(&bytes[end - back - 1..])
            .is_err_and(|error| error.error_len().is_none())
    }) {
        end -= back + 1;
    }
    if let Some(escape) = memchr::memrchr(b'\x1b', &bytes[..end]) {
        let mut text = TerminalTextCleaner::default();
        text.push(
            &String::from_utf8_lossy(&bytes[escape..end]),
            &mut String::new(),
        );
        if !text.is_in_plain_text() {
            end = escape;
        }
    }
    // Show something in any case, because a reader without progress would ask forever.
    if end == 0 { bytes.len() } else { end }
}

fn clean_text(bytes: &[u8]) -> String {
    let mut text = String::new();
    let mut decoder = Utf8Decoder::default();
    decoder.push(bytes, &mut text);
    decoder.finish(&mut text);
    terminal_text::clean_terminal_text(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(text: &[u8], whole: bool) -> usize {
        find_safe_end(text, whole)
    }

    #[test]
    fn a_reader_stops_where_it_can_go_on() {
        assert_eq!(end(b"one\ntwo", false), 4);
        assert_eq!(end(b"one\ntwo", true), 7);
        assert_eq!(end("caf\u{e9}".as_bytes(), true), 5);
        assert_eq!(end(&"caf\u{e9}".as_bytes()[..4], true), 3);
        assert_eq!(end(&"x\u{1f600}".as_bytes()[..4], true), 1);
        assert_eq!(end(b"red \x1b[3", true), 4);
        assert_eq!(end(b"red \x1b[31m", true), 9);
        assert_eq!(end(b"\x1b[3", true), 3, "a lone beginning is passed over");
        assert_eq!(end(b"latin \xe9", false), 6);
        assert_eq!(end(b"", true), 0);
    }
}
