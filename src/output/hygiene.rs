//! Bytes to text, once and incrementally; command output without escapes and progress lines.
//! Not here: file text, which is served as it is, and secrets (redact).

use memchr::memrchr;

/// What stands for invalid bytes.
const REPLACEMENT: char = char::REPLACEMENT_CHARACTER;

/// Decodes a stream of bytes as UTF-8, holding back an incomplete character at a chunk's end. The result is that
/// of [`String::from_utf8_lossy`] over the whole, however it was cut into chunks.
#[derive(Debug, Default)]
pub struct Decoder {
    held: [u8; 4],
    held_len: usize,
    lossy: u64,
}

impl Decoder {
    /// Appends the text of a chunk to `out`; invalid bytes become U+FFFD and are counted.
    pub fn push(&mut self, chunk: &[u8], out: &mut String) {
        let mut rest = chunk;
        while self.held_len > 0 {
            let Some((&byte, after)) = rest.split_first() else { return };
            self.held[self.held_len] = byte;
            match std::str::from_utf8(&self.held[..=self.held_len]) {
                Ok(text) => {
                    out.push_str(text);
                    self.held_len = 0;
                    rest = after;
                }
                Err(error) if error.error_len().is_none() => {
                    self.held_len += 1;
                    rest = after;
                }
                // The byte does not go on with what is held: that is invalid, the byte begins anew.
                Err(_) => self.finish(out),
            }
        }
        loop {
            let error = match std::str::from_utf8(rest) {
                Ok(text) => return out.push_str(text),
                Err(error) => error,
            };
            let (valid, bad) = rest.split_at(error.valid_up_to());
            out.push_str(std::str::from_utf8(valid).expect("valid up to here"));
            let Some(len) = error.error_len() else {
                self.held[..bad.len()].copy_from_slice(bad);
                self.held_len = bad.len();
                return;
            };
            self.replace(out);
            rest = &bad[len..];
        }
    }

    /// Appends what was held back.
    pub fn finish(&mut self, out: &mut String) {
        if self.held_len > 0 {
            self.held_len = 0;
            self.replace(out);
        }
    }

    /// How many characters were replaced so far.
    pub fn lossy(&self) -> u64 {
        self.lossy
    }

    fn replace(&mut self, out: &mut String) {
        out.push(REPLACEMENT);
        self.lossy += 1;
    }
}

/// A line under way may be rewritten (by a carriage return, by backspaces) as far as this many bytes back; what is
/// older flows on.
const LINE_ROOM: usize = 64 << 10;
/// An escape sequence that has not ended after this many characters is none: it is dropped and text begins again.
const SEQUENCE_ROOM: usize = 4 << 10;

/// Takes ANSI escapes and control characters out of a stream of text and collapses carriage-return progress to its
/// last state. How the text was cut into pieces makes no difference.
///
/// A carriage return followed by text begins the line anew; before a line end it is part of that line end. A
/// backspace takes the character before it away. Line feed and tab stay.
#[derive(Debug, Default)]
pub struct CommandText {
    state: State,
    /// Characters of the sequence under way.
    sequence: usize,
    line: String,
    /// A carriage return came; whether it clears the line is decided by what follows.
    returned: bool,
}

/// Where in an escape sequence (ECMA-48) the stream is.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum State {
    #[default]
    Text,
    /// After ESC.
    Escape,
    /// ESC and intermediate bytes, as in a charset selection.
    Selecting,
    /// ESC `[` and parameters.
    Control,
    /// In an OSC, DCS, SOS, PM or APC string, which BEL or ST (ESC `\`) ends.
    Payload,
    /// After ESC in such a string.
    PayloadEscape,
}

impl CommandText {
    /// Appends the clean text of a piece to `out`.
    pub fn push(&mut self, piece: &str, out: &mut String) {
        let mut rest = piece;
        while !rest.is_empty() {
            if self.state == State::Text {
                let clean = clean_prefix(rest.as_bytes());
                if clean > 0 {
                    self.text(&rest[..clean], out);
                    rest = &rest[clean..];
                    continue;
                }
            }
            let next = rest.chars().next().expect("not empty");
            if self.take(next) {
                rest = &rest[next.len_utf8()..];
            }
        }
    }

    /// Appends what was held back: the line that has no end. A sequence that has no end is dropped.
    pub fn finish(&mut self, out: &mut String) {
        out.push_str(&self.line);
        *self = Self::default();
    }

    /// The line under way, which no output has seen yet: a prompt that waits for an answer, for example.
    pub fn unfinished(&self) -> &str {
        &self.line
    }

    /// Takes text without anything to remove.
    fn text(&mut self, text: &str, out: &mut String) {
        if self.returned && !text.starts_with('\n') {
            self.line.clear();
        }
        self.returned = false;
        let mut rest = text;
        if let Some(newline) = memrchr(b'\n', text.as_bytes()) {
            out.push_str(&self.line);
            self.line.clear();
            out.push_str(&text[..=newline]);
            rest = &text[newline + 1..];
        }
        while self.line.len() + rest.len() > LINE_ROOM {
            let fits = rest.floor_char_boundary(LINE_ROOM - self.line.len());
            self.line.push_str(&rest[..fits]);
            out.push_str(&self.line);
            self.line.clear();
            rest = &rest[fits..];
        }
        self.line.push_str(rest);
    }

    /// Takes a character that is not plain text; false when it must be looked at again in the new state.
    fn take(&mut self, c: char) -> bool {
        let (next, taken) = match self.state {
            State::Text => {
                match c {
                    '\x1b' => self.state = State::Escape,
                    '\r' => self.returned = true,
                    '\x08' => self.backspace(),
                    _ => {}
                }
                return true;
            }
            State::Escape => match c {
                '[' => (State::Control, true),
                ']' | 'P' | 'X' | '^' | '_' => (State::Payload, true),
                ' '..='/' => (State::Selecting, true),
                '0'..='~' => (State::Text, true),
                '\x1b' => (State::Escape, true),
                _ => (State::Text, false),
            },
            State::Selecting => match c {
                ' '..='/' => (State::Selecting, true),
                '0'..='~' => (State::Text, true),
                _ => (State::Text, false),
            },
            State::Control => match c {
                ' '..='?' => (State::Control, true),
                '@'..='~' => (State::Text, true),
                _ => (State::Text, false),
            },
            State::Payload => match c {
                '\x07' | '\u{9c}' => (State::Text, true),
                '\x1b' => (State::PayloadEscape, true),
                _ => (State::Payload, true),
            },
            State::PayloadEscape => match c {
                '\\' => (State::Text, true),
                // An ESC that does not end the string ends it all the same and begins the next sequence.
                _ => (State::Escape, false),
            },
        };
        self.sequence += usize::from(taken);
        self.state = if self.sequence > SEQUENCE_ROOM { State::Text } else { next };
        if self.state == State::Text {
            self.sequence = 0;
        }
        taken
    }

    fn backspace(&mut self) {
        // After a carriage return there is nothing to the left.
        if !self.returned {
            self.line.pop();
        }
    }
}

/// How far text reaches that needs no change: no control character but line feed and tab. U+0080 to U+009F are
/// control characters too; their first byte is looked at with the second.
fn clean_prefix(bytes: &[u8]) -> usize {
    const BLOCK: usize = 64;
    let mut at = 0;
    while at < bytes.len() {
        let block = &bytes[at..bytes.len().min(at + BLOCK)];
        // Without a way out, so that the compiler looks at many bytes at once.
        if block.iter().fold(false, |found, &byte| found | suspect(byte)) {
            let hit = |&i: &usize| {
                suspect(bytes[i]) && (bytes[i] != 0xc2 || bytes.get(i + 1).is_some_and(|next| *next < 0xa0))
            };
            if let Some(hit) = (at..at + block.len()).find(hit) {
                return hit;
            }
        }
        at += block.len();
    }
    at
}

fn suspect(byte: u8) -> bool {
    (byte < 0x20 && byte != b'\n' && byte != b'\t') | (byte == 0x7f) | (byte == 0xc2)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn clean(pieces: &[&str]) -> String {
        let mut text = CommandText::default();
        let mut out = String::new();
        for piece in pieces {
            text.push(piece, &mut out);
        }
        text.finish(&mut out);
        out
    }

    #[test]
    fn escapes_and_controls_go_and_text_stays() {
        for (raw, expected) in [
            ("plain\ttext\n", "plain\ttext\n"),
            ("\x1b[1;31mred\x1b[0m\n", "red\n"),
            ("\x1b]0;a title\x07shown", "shown"),
            ("\x1b]52;c;c2VjcmV0\x1b\\shown", "shown"),
            ("\x1bP1$r0m\x1b\\shown", "shown"),
            ("\x1b]8;;http://a\x1b\\link\x1b]8;;\x1b\\", "link"),
            ("\x1b(Bset\x1b7\x1b8", "set"),
            ("a\x00b\x07c\x7fd\u{85}e\u{9b}f", "abcdef"),
            ("café © naïve\u{a0}ß", "café © naïve\u{a0}ß"),
            ("\x1b[12\nkept", "\nkept"),
            ("\x1b]never ends", ""),
        ] {
            assert_eq!(clean(&[raw]), expected, "{raw:?}");
        }
    }

    #[test]
    fn a_progress_line_collapses_to_its_last_state() {
        for (raw, expected) in [
            (" 10%\r 50%\r100%\ndone\n", "100%\ndone\n"),
            ("windows\r\nlines\r\n", "windows\nlines\n"),
            ("odd\r\r\n", "odd\n"),
            ("kept\r", "kept"),
            ("first\nsecond\r\x1b[Kthird\n", "first\nthird\n"),
            ("N\x08NA\x08AM\x08ME\x08E\n", "NAME\n"),
            ("|\x08/\x08-\x08done", "done"),
            ("one\n\x08two", "one\ntwo"),
        ] {
            assert_eq!(clean(&[raw]), expected, "{raw:?}");
        }
    }

    #[test]
    fn an_unterminated_sequence_does_not_swallow_the_rest() {
        let raw = format!("\x1b]{}\nthe end", "x".repeat(SEQUENCE_ROOM));
        assert_eq!(clean(&[&raw]), "\nthe end");
    }

    #[test]
    fn a_line_without_end_flows_through() {
        let mut text = CommandText::default();
        let mut out = String::new();
        for _ in 0..100 {
            text.push(&"é".repeat(10_000), &mut out);
            assert!(text.unfinished().len() <= LINE_ROOM);
        }
        text.finish(&mut out);
        assert_eq!(out.chars().count(), 1_000_000);
    }

    #[test]
    fn what_is_under_way_can_be_seen() {
        let mut text = CommandText::default();
        let mut out = String::new();
        text.push("done\n\x1b[1mPassword: ", &mut out);
        assert_eq!((out.as_str(), text.unfinished()), ("done\n", "Password: "));
    }

    fn raw_text() -> impl Strategy<Value = Vec<String>> {
        let token = prop_oneof![
            4 => "[a-zé😀©\u{a0} ]{1,12}",
            1 => Just("x".repeat(100)),
            6 => prop::sample::select(vec![
                "\n", "\r", "\r\n", "\x08", "\x1b", "\x1b[", "\x1b]", "\x1b\\", "\x07", "\x1b[31m", "\x1b(B", "\x1bP",
                "\u{85}", "\u{9b}", "\u{9c}", "\x00", ";", "m", "0",
            ]).prop_map(str::to_owned),
            1 => Just("y".repeat(LINE_ROOM - 50)),
        ];
        prop::collection::vec(token, 0..40)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn pieces_make_no_difference(tokens in raw_text()) {
            let whole = tokens.concat();
            let expected = clean(&[&whole]);
            let parts: Vec<&str> = tokens.iter().map(String::as_str).collect();
            prop_assert_eq!(clean(&parts), expected.clone());
            let singles: Vec<String> = whole.chars().map(String::from).collect();
            let singles: Vec<&str> = singles.iter().map(String::as_str).collect();
            prop_assert_eq!(clean(&singles), expected);
        }

        #[test]
        fn no_control_character_survives(tokens in raw_text()) {
            let out = clean(&[&tokens.concat()]);
            prop_assert!(out.chars().all(|c| c == '\n' || c == '\t' || !c.is_control()));
        }

        #[test]
        fn decoding_is_that_of_the_whole(bytes in prop::collection::vec(prop_oneof![
            any::<u8>(), prop::sample::select(vec![0xe2, 0x82, 0xac, 0xf0, 0x9f, 0x98, 0x80, 0xc3, 0xa9, 0xed, 0xa0, b'a']),
        ], 0..200), size in 1_usize..9) {
            let mut decoder = Decoder::default();
            let mut out = String::new();
            for chunk in bytes.chunks(size) {
                decoder.push(chunk, &mut out);
            }
            decoder.finish(&mut out);
            prop_assert_eq!(&out, &String::from_utf8_lossy(&bytes));
            let before = bytes.windows(3).filter(|three| *three == [0xef, 0xbf, 0xbd]).count() as u64;
            prop_assert_eq!(decoder.lossy() + before, out.matches(REPLACEMENT).count() as u64);
        }
    }
}
