//! Command output without escapes and progress lines, incrementally.
//! Not here: bytes to text (utf8_decoder), file text, which is served as it is, and secrets (redact).

use memchr::{memchr3, memrchr};

use super::control_scanner::ControlScanner;
pub use super::utf8_decoder::{Utf8Decoder, drop_cut_character};

/// A carriage return or backspaces may rewrite this many bytes of the current line. Older bytes are passed on.
const MAX_HELD_LINE_BYTES: usize = 64 << 10;
/// An escape sequence that has not ended after this many bytes is none: it is dropped and text begins again.
const MAX_ESCAPE_BYTES: usize = 4 << 10;
/// A run of plain text this long goes to its place without a stop on the way.
const LONG_RUN_BYTES: usize = 1 << 10;

/// Takes ANSI escapes and control characters out of a stream of text and collapses carriage-return progress to its
/// last state. How the text was cut into pieces makes no difference.
///
/// A carriage return followed by text begins the line anew; before a line end it is part of that line end. A
/// backspace takes the character before it away. Line feed and tab stay.
#[derive(Debug, Default, Clone)]
pub struct TerminalTextCleaner {
    state: EscapeSequenceState,
    /// Bytes of the sequence under way.
    sequence: usize,
    /// The line under way; while a piece is worked on, with the lines before it.
    line: String,
    /// The start of the current line in `line`, as far as that was scanned.
    start: usize,
    /// The length of `line` that was scanned for line ends.
    scanned: usize,
    /// A carriage return came; the next character decides whether it clears the line.
    has_returned: bool,
    /// NUL bytes left out so far.
    nuls: u64,
}

/// The position of the stream in an escape sequence (ECMA-48).
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum EscapeSequenceState {
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

impl TerminalTextCleaner {
    /// Appends the clean text of a piece to `out`.
    pub fn push(&mut self, piece: &str, out: &mut String) {
        let mut controls = ControlScanner::default();
        let mut at = 0;
        while at < piece.len() {
            at = match self.state {
                EscapeSequenceState::Text => self.consume_plain(piece, at, &mut controls, out),
                EscapeSequenceState::Payload => self.consume_payload(piece, at),
                _ => match piece[at..].chars().next() {
                    Some(next) if self.take_sequence_char(next) => at + next.len_utf8(),
                    _ => at,
                },
            };
        }
        self.find_pending_line();
        out.push_str(&self.line[..self.start]);
        self.line.drain(..self.start);
        self.scanned = self.line.len();
        self.start = 0;
    }

    /// Appends the line that has no end. A sequence that has no end is dropped.
    pub fn finish(&mut self, out: &mut String) {
        out.push_str(&self.line);
        *self = Self {
            nuls: self.nuls,
            ..Self::default()
        };
    }

    /// The number of NUL bytes left out so far.
    pub fn nul_count(&self) -> u64 {
        self.nuls
    }

    /// The line under way, which no output has seen yet: a prompt that waits for an answer, for example.
    pub fn pending_line(&self) -> &str {
        &self.line
    }

    /// Returns whether the next text simply continues the current line.
    pub fn is_in_plain_text(&self) -> bool {
        self.state == EscapeSequenceState::Text && !self.has_returned
    }

    /// Takes text and whole control sequences; gives the place where something else goes on.
    fn consume_plain(
        &mut self,
        piece: &str,
        from: usize,
        controls: &mut ControlScanner,
        out: &mut String,
    ) -> usize {
        let bytes = piece.as_bytes();
        let mut at = from;
        loop {
            let stop = controls.next(bytes, at);
            if stop > at {
                self.append_plain(&piece[at..stop], out);
            }
            at = stop + 1;
            match bytes.get(stop) {
                None => return stop,
                Some(b'\x1b') => {
                    let Some(end) = find_control_end(bytes, at) else {
                        self.state = EscapeSequenceState::Escape;
                        return at;
                    };
                    at = end;
                }
                Some(b'\r') => self.has_returned = true,
                Some(b'\x08') => self.apply_backspace(),
                // U+0080 to U+009F have two bytes.
                Some(0xc2) => at += 1,
                // Binary output has thousands of the same.
                Some(other) => {
                    let more = count_repeats(bytes, at, *other);
                    if *other == 0 {
                        self.nuls += 1 + more as u64;
                    }
                    at += more;
                }
            }
        }
    }

    /// Takes text without anything to remove.
    #[inline]
    fn append_plain(&mut self, text: &str, out: &mut String) {
        if self.has_returned {
            self.has_returned = false;
            if !text.starts_with('\n') {
                self.find_pending_line();
                self.line.truncate(self.start);
                self.scanned = self.start;
            }
        }
        if text.len() >= LONG_RUN_BYTES
            && let Some(newline) = memrchr(b'\n', text.as_bytes())
        {
            out.push_str(&self.line);
            out.push_str(&text[..=newline]);
            self.line.clear();
            (self.start, self.scanned) = (0, 0);
            self.line.push_str(&text[newline + 1..]);
        } else {
            self.line.push_str(text);
        }
    }

    /// Finds the start of the current line. Each byte is scanned once, however often this is called.
    fn find_pending_line(&mut self) {
        if let Some(newline) = memrchr(b'\n', &self.line.as_bytes()[self.scanned..]) {
            self.start = self.scanned + newline + 1;
        }
        self.scanned = self.line.len();
        while self.line.len() - self.start > MAX_HELD_LINE_BYTES {
            self.start = self
                .line
                .floor_char_boundary(self.start + MAX_HELD_LINE_BYTES);
        }
    }

    /// Consumes the inside of a string, up to its end or to the limit of its length.
    fn consume_payload(&mut self, piece: &str, from: usize) -> usize {
        let bytes = piece.as_bytes();
        let room = MAX_ESCAPE_BYTES + 1 - self.sequence;
        let limit = piece.ceil_char_boundary(from + room);
        let mut at = from;
        while let Some(found) = memchr3(b'\x07', b'\x1b', 0xc2, &bytes[at..limit]) {
            at += found + 1;
            match bytes[at - 1] {
                b'\x07' => return self.end_sequence(at),
                b'\x1b' => {
                    self.advance_sequence(EscapeSequenceState::PayloadEscape, at - from);
                    return at;
                }
                _ if bytes[at] == 0x9c => return self.end_sequence(at + 1),
                _ => {}
            }
        }
        self.advance_sequence(EscapeSequenceState::Payload, limit - from);
        limit
    }

    fn end_sequence(&mut self, at: usize) -> usize {
        self.state = EscapeSequenceState::Text;
        self.sequence = 0;
        at
    }

    /// Adds bytes to the sequence, or returns to text if it has become too long.
    fn advance_sequence(&mut self, next: EscapeSequenceState, bytes: usize) {
        self.sequence += bytes;
        self.state = if self.sequence > MAX_ESCAPE_BYTES {
            EscapeSequenceState::Text
        } else {
            next
        };
        if self.state == EscapeSequenceState::Text {
            self.sequence = 0;
        }
    }

    /// Takes a character of a sequence; false when it must be looked at again in the new state.
    fn take_sequence_char(&mut self, c: char) -> bool {
        let (next, taken) = match self.state {
            EscapeSequenceState::Text | EscapeSequenceState::Payload => return false,
            EscapeSequenceState::Escape => match c {
                '[' => (EscapeSequenceState::Control, true),
                ']' | 'P' | 'X' | '^' | '_' => (EscapeSequenceState::Payload, true),
                ' '..='/' => (EscapeSequenceState::Selecting, true),
                '0'..='~' => (EscapeSequenceState::Text, true),
                '\x1b' => (EscapeSequenceState::Escape, true),
                _ => (EscapeSequenceState::Text, false),
            },
            EscapeSequenceState::Selecting => match c {
                ' '..='/' => (EscapeSequenceState::Selecting, true),
                '0'..='~' => (EscapeSequenceState::Text, true),
                _ => (EscapeSequenceState::Text, false),
            },
            EscapeSequenceState::Control => match c {
                ' '..='?' => (EscapeSequenceState::Control, true),
                '@'..='~' => (EscapeSequenceState::Text, true),
                _ => (EscapeSequenceState::Text, false),
            },
            EscapeSequenceState::PayloadEscape => match c {
                '\\' => (EscapeSequenceState::Text, true),
                // An ESC that does not end the string ends it all the same and begins the next sequence.
                _ => (EscapeSequenceState::Escape, false),
            },
        };
        self.advance_sequence(next, if taken { c.len_utf8() } else { 0 });
        taken
    }

    fn apply_backspace(&mut self) {
        // After a carriage return there is nothing to the left.
        if !self.has_returned {
            self.find_pending_line();
            if self.line.len() > self.start {
                self.line.pop();
                self.scanned = self.line.len();
            }
        }
    }
}

/// Counts the repetitions of this byte before another one comes.
fn count_repeats(bytes: &[u8], from: usize, byte: u8) -> usize {
    let rest = &bytes[from..];
    let (blocks, _) = rest.as_chunks::<64>();
    let whole = 64
        * blocks
            .iter()
            .take_while(|block| **block == [byte; 64])
            .count();
    whole
        + rest[whole..]
            .iter()
            .take_while(|next| **next == byte)
            .count()
}

/// A whole text without escapes, each line in its last state.
pub fn clean_terminal_text(text: &str) -> String {
    let mut cleaner = TerminalTextCleaner::default();
    let mut out = String::with_capacity(text.len());
    cleaner.push(text, &mut out);
    cleaner.finish(&mut out);
    out
}

/// The end of a whole control sequence that begins here, behind its ESC: the common case, taken at once.
#[inline]
fn find_control_end(bytes: &[u8], from: usize) -> Option<usize> {
    if bytes.get(from) != Some(&b'[') {
        return None;
    }
    let mut at = from + 1;
    while at - from < MAX_ESCAPE_BYTES / 2 {
        match bytes.get(at)? {
            b' '..=b'?' => at += 1,
            b'@'..=b'~' => return Some(at + 1),
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn cleaned(pieces: &[&str]) -> String {
        let mut text = TerminalTextCleaner::default();
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
            assert_eq!(cleaned(&[raw]), expected, "{raw:?}");
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
            assert_eq!(cleaned(&[raw]), expected, "{raw:?}");
        }
    }

    #[test]
    fn an_unterminated_sequence_does_not_swallow_the_rest() {
        let raw = format!("\x1b]{}\nthe end", "x".repeat(MAX_ESCAPE_BYTES));
        assert_eq!(cleaned(&[&raw]), "\nthe end");
    }

    #[test]
    fn a_line_without_end_flows_through() {
        let mut text = TerminalTextCleaner::default();
        let mut out = String::new();
        for _ in 0..100 {
            text.push(&"é".repeat(10_000), &mut out);
            assert!(text.pending_line().len() <= MAX_HELD_LINE_BYTES);
        }
        text.finish(&mut out);
        assert_eq!(out.chars().count(), 1_000_000);
    }

    #[test]
    fn what_is_under_way_can_be_seen() {
        let mut text = TerminalTextCleaner::default();
        let mut out = String::new();
        text.push("done\n\x1b[1mPassword: ", &mut out);
        assert_eq!(
            (out.as_str(), text.pending_line()),
            ("done\n", "Password: ")
        );
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
            let whole = before.concat() + &"y".repeat(MAX_HELD_LINE_BYTES - short) + &after.concat();
            let singles: Vec<String> = whole.chars().map(String::from).collect();
            let singles: Vec<&str> = singles.iter().map(String::as_str).collect();
            prop_assert!(cleaned(&singles) == cleaned(&[&whole]));
        }
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(tokens in raw_text()) {
            let whole = tokens.concat();
            let expected = cleaned(&[&whole]);
            let parts: Vec<&str> = tokens.iter().map(String::as_str).collect();
            prop_assert_eq!(cleaned(&parts), expected.clone());
            let singles: Vec<String> = whole.chars().map(String::from).collect();
            let singles: Vec<&str> = singles.iter().map(String::as_str).collect();
            prop_assert_eq!(cleaned(&singles), expected);
        }

        #[test]
        fn bytes_in_any_chunks_give_the_same_text(
            tokens in raw_text(), junk in prop::collection::vec(any::<u8>(), 0..4), sizes in prop::collection::vec(1_usize..400, 1..8),
        ) {
            let mut bytes = tokens.concat().into_bytes();
            let middle = bytes.len() / 2;
            bytes.splice(middle..middle, junk);
            let text_of = |chunks: &mut dyn Iterator<Item = &[u8]>| {
                let (mut decoder, mut cleaner) = (Utf8Decoder::default(), TerminalTextCleaner::default());
                let (mut decoded, mut out) = (String::new(), String::new());
                for chunk in chunks {
                    decoded.clear();
                    decoder.push(chunk, &mut decoded);
                    cleaner.push(&decoded, &mut out);
                }
                decoded.clear();
                decoder.finish(&mut decoded);
                cleaner.push(&decoded, &mut out);
                cleaner.finish(&mut out);
                out
            };
            let mut rest = &bytes[..];
            let mut turns = sizes.iter().cycle();
            let chunked = text_of(&mut std::iter::from_fn(|| {
                let size = (*turns.next()?).min(rest.len());
                let (chunk, after) = rest.split_at(size);
                rest = after;
                (!chunk.is_empty()).then_some(chunk)
            }));
            prop_assert_eq!(chunked, text_of(&mut std::iter::once(&bytes[..])));
        }

        #[test]
        fn the_next_control_is_the_first(text in "[a-z\n\té\u{a0}\u{85}©\u{7f}\u{1b}\r ]{0,300}", from in 0_usize..300) {
            let from = text.floor_char_boundary(from);
            let removed = |c: char| c.is_control() && c != '\n' && c != '\t';
            let first = text[from..].find(removed).map_or(text.len(), |at| from + at);
            prop_assert_eq!(ControlScanner::default().next(text.as_bytes(), from), first);
        }

        #[test]
        fn no_control_character_survives(tokens in raw_text()) {
            let out = cleaned(&[&tokens.concat()]);
            prop_assert!(out.chars().all(|c| c == '\n' || c == '\t' || !c.is_control()));
        }
    }
}
