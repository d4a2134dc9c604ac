//! Command output without escapes and progress lines, incrementally.
//! Not here: bytes to text (decode), file text, which is served as it is, and secrets (redact).

use memchr::{memchr3, memrchr};

pub use super::decode::Decoder;

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
        while let Some(next) = rest.chars().next() {
            if self.state == State::Text {
                let clean = clean_prefix(rest.as_bytes());
                if clean > 0 {
                    self.text(&rest[..clean], out);
                    rest = &rest[clean..];
                    continue;
                }
                if let Some(sequence) = control_sequence(rest.as_bytes()) {
                    rest = &rest[sequence..];
                    continue;
                }
            }
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

    /// Whether what comes next simply goes on with the line under way.
    pub fn is_plain(&self) -> bool {
        self.state == State::Text && !self.returned
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

/// The length of a whole control sequence that begins here: the common case, taken at once.
fn control_sequence(bytes: &[u8]) -> Option<usize> {
    let rest = bytes.strip_prefix(b"\x1b[")?;
    let parameters =
        rest.iter().take(SEQUENCE_ROOM / 2).take_while(|byte| (b' '..=b'?').contains(byte)).count();
    let end = rest.get(parameters)?;
    (b'@'..=b'~').contains(end).then_some(2 + parameters + 1)
}

/// How far text reaches that needs no change: no control character but line feed and tab. U+0080 to U+009F are
/// control characters too; their first byte is looked at with the second.
fn clean_prefix(bytes: &[u8]) -> usize {
    const BLOCK: usize = 256;
    let mut at = 0;
    while at < bytes.len() {
        let block = &bytes[at..bytes.len().min(at + BLOCK)];
        // The three that are common end the search quickly; before them there is seldom another.
        let stop = memchr3(b'\x1b', b'\r', b'\x08', block).unwrap_or(block.len());
        // Without a way out, so that the compiler looks at many bytes at once.
        if block[..stop].iter().fold(0, |found, &byte| found | u8::from(suspect(byte))) != 0 {
            let is_hit = |&i: &usize| {
                suspect(bytes[i]) && (bytes[i] != 0xc2 || bytes.get(i + 1).is_some_and(|next| *next < 0xa0))
            };
            if let Some(hit) = (at..at + stop).find(is_hit) {
                return hit;
            }
        }
        at += stop;
        if stop < block.len() {
            return at;
        }
    }
    at
}

fn suspect(byte: u8) -> bool {
    matches!(byte, 0..=8 | 11..=31 | 0x7f | 0xc2)
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
        ];
        prop::collection::vec(token, 0..40)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        #[test]
        fn where_a_long_line_flows_on_does_not_depend_on_pieces(
            before in raw_text(), short in 0_usize..100, after in raw_text(),
        ) {
            let whole = before.concat() + &"y".repeat(LINE_ROOM - short) + &after.concat();
            let singles: Vec<String> = whole.chars().map(String::from).collect();
            let singles: Vec<&str> = singles.iter().map(String::as_str).collect();
            prop_assert!(clean(&singles) == clean(&[&whole]));
        }
    }

    proptest! {
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
    }
}
