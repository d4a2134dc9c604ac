//! Gathers lines from a stream of bytes within limits, however long a line is.

use memchr::memchr;
use punie_text::output::{MaskedRanges, SecretBoundaries, number_format};

/// The bytes kept of a line's beginning and end, at least; more than any cut shows.
const MIN_KEPT_BYTES: usize = 64 << 10;

/// Gathers lines until there are enough lines or characters.
#[derive(Debug)]
pub(super) struct LineGatherer {
    want: u64,
    max_chars: usize,
    line_chars: usize,
    /// Ranges through which no cut goes.
    uncut: SecretBoundaries,
    /// The bytes kept of a line's beginning and end.
    keep: usize,
    out: Vec<u8>,
    line_start: usize,
    /// The end of a line that is only partly kept.
    tail: Vec<u8>,
    line_bytes: u64,
    chars: usize,
    /// The number of lines gathered.
    pub gathered: u64,
    /// The number of bytes up to the end of the last gathered line.
    pub consumed: u64,
    /// The number of bytes offered.
    pub offered: u64,
    /// The number of bytes of long lines that are left out.
    pub omitted: u64,
    /// The first gathered line whose middle is left out, counted from 0, and the number of characters before the cut.
    pub first_cut: Option<(u64, u64)>,
    full: bool,
}

impl LineGatherer {
    pub(super) fn new(
        want: u64,
        max_chars: usize,
        line_chars: usize,
        uncut: SecretBoundaries,
    ) -> Self {
        Self {
            keep: MIN_KEPT_BYTES + uncut.cut_margin(),
            uncut,
            want,
            max_chars,
            line_chars: line_chars.clamp(80, MIN_KEPT_BYTES / 2),
            out: Vec::new(),
            line_start: 0,
            tail: Vec::new(),
            line_bytes: 0,
            chars: 0,
            gathered: 0,
            consumed: 0,
            offered: 0,
            omitted: 0,
            first_cut: None,
            full: want == 0,
        }
    }

    /// Adds more bytes; returns false when no more are wanted.
    pub(super) fn push_bytes(&mut self, mut bytes: &[u8]) -> bool {
        self.offered += bytes.len() as u64;
        while !self.full && !bytes.is_empty() {
            let Some(at) = memchr(b'\n', bytes) else {
                self.append_to_line(bytes);
                break;
            };
            self.append_to_line(&bytes[..=at]);
            self.end_line(false);
            bytes = &bytes[at + 1..];
        }
        !self.full
    }

    /// Returns the number of bytes of the current line.
    pub(super) fn current_bytes(&self) -> u64 {
        self.line_bytes
    }

    /// Ends the input: the current line becomes a line. `cut_off` tells that it would continue.
    pub(super) fn finish_gathering(&mut self, cut_off: bool) {
        if !self.full && self.line_bytes > 0 {
            if cut_off && self.tail.is_empty() {
                let line = &self.out[self.line_start..];
                let end = self.line_start + self.uncut.cut_end_before(line, line.len(), false);
                self.omitted += (self.out.len() - end) as u64;
                self.out.truncate(end);
            }
            self.end_line(cut_off);
        }
        self.full = true;
    }

    /// Returns the bytes of the lines gathered so far.
    pub(super) fn gathered_bytes(&self) -> &[u8] {
        &self.out[..self.line_start]
    }

    /// Returns the bytes of the gathered lines.
    pub(super) fn into_bytes(mut self) -> Vec<u8> {
        self.out.truncate(self.line_start);
        self.out
    }

    fn append_to_line(&mut self, piece: &[u8]) {
        self.line_bytes += piece.len() as u64;
        let kept = self.out.len() - self.line_start;
        let fits = piece.len().min(self.keep.saturating_sub(kept));
        self.out.extend_from_slice(&piece[..fits]);
        let rest = &piece[fits..];
        if !rest.is_empty() {
            self.tail
                .extend_from_slice(&rest[rest.len().saturating_sub(self.keep)..]);
            if self.tail.len() > 2 * self.keep {
                self.tail.drain(..self.tail.len() - self.keep);
            }
        }
    }

    fn end_line(&mut self, cut_off: bool) {
        let held = self.out.len() - self.line_start;
        if held > self.line_chars || !self.tail.is_empty() {
            self.cut(cut_off);
        }
        let chars = count_chars(&self.out[self.line_start..]);
        if self.gathered > 0 && self.chars + chars > self.max_chars {
            self.full = true;
            return;
        }
        self.chars += chars;
        self.gathered += 1;
        self.consumed += self.line_bytes;
        self.line_bytes = 0;
        self.line_start = self.out.len();
        self.full = self.gathered == self.want || self.chars >= self.max_chars;
    }

    /// Replaces the middle of a line that is too long.
    fn cut(&mut self, cut_off: bool) {
        let line = &self.out[self.line_start..];
        let joined;
        let last = if self.tail.is_empty() {
            line
        } else {
            joined = [line, &self.tail].concat();
            joined.as_slice()
        };
        let ending: &[u8] = match last {
            [.., b'\r', b'\n'] => b"\r\n",
            [.., b'\n'] => b"\n",
            _ => b"",
        };
        let ending = ending.to_vec();
        let whole = self
            .tail
            .is_empty()
            .then(|| count_chars(line) - ending.len());
        if whole.is_some_and(|chars| chars <= self.line_chars) {
            return;
        }
        let half = self.line_chars / 2;
        let body = &last[..last.len() - ending.len()];
        let is_all = self.tail.is_empty() && !cut_off;
        let head = line[..self
            .uncut
            .cut_end_before(line, offset_of_char(line, half), is_all)]
            .to_vec();
        let body = if cut_off {
            &body[..self.uncut.cut_end_before(body, body.len(), false)]
        } else {
            body
        };
        let tail = body[self
            .uncut
            .cut_start_after(body, offset_of_last_chars(body, half))..]
            .to_vec();
        let full_bytes = self.line_bytes - ending.len() as u64;
        let omitted = full_bytes.saturating_sub((head.len() + tail.len()) as u64);
        let length = match whole {
            Some(chars) => format!("{} characters", number_format::group_digits(chars as u64)),
            None => number_format::format_size(full_bytes),
        };
        let at_least = if cut_off { "more than " } else { "" };
        let marker = format!(
            " [... {} of this line omitted; it has {at_least}{length} ...] ",
            number_format::format_size(omitted)
        );
        self.out.truncate(self.line_start);
        for piece in [head.as_slice(), marker.as_bytes(), &tail, &ending] {
            self.out.extend_from_slice(piece);
        }
        self.omitted += omitted;
        self.first_cut
            .get_or_insert((self.gathered, count_chars(&head) as u64));
        self.tail.clear();
    }
}

/// Gathers the rest of one line from a character on. A value that is masked on output is gathered whole or not at
/// all.
#[derive(Debug)]
pub(super) struct LineRemainder {
    uncut: SecretBoundaries,
    /// The bytes that cannot be decided before more of the line follows.
    held: Vec<u8>,
    skip: u64,
    left: usize,
    /// The number of characters gathered before the requested one, because it lies within a masked value.
    pub back: u64,
    pub out: Vec<u8>,
    /// Set if the line continues after the gathered part.
    pub more: bool,
    /// Set if the line has the requested character.
    pub reached: bool,
}

impl LineRemainder {
    pub(super) fn new(column: u64, max_chars: usize, uncut: SecretBoundaries) -> Self {
        Self {
            uncut,
            held: Vec::new(),
            skip: column.saturating_sub(1),
            left: max_chars,
            back: 0,
            out: Vec::new(),
            more: false,
            reached: column <= 1,
        }
    }

    /// Adds more bytes; returns false when no more are wanted.
    pub(super) fn push(&mut self, bytes: &[u8]) -> bool {
        let end = memchr(b'\n', bytes);
        let body = &bytes[..end.unwrap_or(bytes.len())];
        if self.held.is_empty() {
            let done = self.take_decided(body, end.is_some());
            self.held.extend_from_slice(&body[done..]);
        } else {
            let mut joined = std::mem::take(&mut self.held);
            joined.extend_from_slice(body);
            let done = self.take_decided(&joined, end.is_some());
            joined.drain(..done);
            self.held = joined;
        }
        end.is_none() && !self.more
    }

    /// Ends the input. `cut_off` tells that the line would continue: undecided bytes are then left out.
    pub(super) fn finish(&mut self, cut_off: bool) {
        let held = std::mem::take(&mut self.held);
        if cut_off {
            self.more = true;
        } else {
            self.take_decided(&held, true);
        }
    }

    /// Takes the decided bytes, and returns their number.
    fn take_decided(&mut self, bytes: &[u8], at_end: bool) -> usize {
        let MaskedRanges {
            ranges: places,
            decided_bytes: decided,
        } = self.uncut.masked_ranges(bytes, at_end);
        let mut from = 0;
        for place in places.into_iter().take_while(|place| place.end <= decided) {
            self.take_chars(&bytes[from..place.start]);
            self.take_masked_value(&bytes[place.clone()]);
            from = place.end;
        }
        self.take_chars(&bytes[from..decided]);
        decided
    }

    fn take_chars(&mut self, bytes: &[u8]) {
        if self.more {
            return;
        }
        let skipped = usize::try_from(self.skip).unwrap_or(usize::MAX);
        // Once a character is gathered, continuation bytes at the beginning belong to it.
        let from = if self.out.is_empty() {
            offset_of_char(bytes, skipped)
        } else {
            0
        };
        self.skip -= (count_chars(&bytes[..from]) as u64).min(self.skip);
        let bytes = &bytes[from..];
        self.reached |= !bytes.is_empty();
        let to = offset_of_char(bytes, self.left);
        self.left -= count_chars(&bytes[..to]);
        self.out.extend_from_slice(&bytes[..to]);
        self.more = to < bytes.len();
    }

    /// Takes a masked value. If it does not fit, the next part begins with it, unless this part would be empty.
    fn take_masked_value(&mut self, value: &[u8]) {
        let chars = count_chars(value);
        if self.more || self.skip >= chars as u64 {
            self.skip = self.skip.saturating_sub(chars as u64);
            return;
        }
        self.back = std::mem::take(&mut self.skip);
        self.reached = true;
        self.more = chars > self.left && !self.out.is_empty();
        if !self.more {
            self.out.extend_from_slice(value);
            self.left = self.left.saturating_sub(chars);
        }
    }
}

/// Counts the characters that start in these bytes.
pub(super) fn count_chars(bytes: &[u8]) -> usize {
    bytes.iter().filter(|byte| starts_char(**byte)).count()
}

/// Returns the offset of character `n` (from 0), or the end.
fn offset_of_char(bytes: &[u8], n: usize) -> usize {
    // Continuation bytes of an earlier character are not counted.
    bytes
        .iter()
        .enumerate()
        .filter(|(_, byte)| starts_char(**byte))
        .nth(n)
        .map_or(bytes.len(), |(at, _)| at)
}

/// Returns the offset of the last `n` characters.
fn offset_of_last_chars(bytes: &[u8], n: usize) -> usize {
    if n == 0 {
        return bytes.len();
    }
    bytes
        .iter()
        .enumerate()
        .rev()
        .filter(|(_, byte)| starts_char(**byte))
        .nth(n - 1)
        .map_or(0, |(at, _)| at)
}

fn starts_char(byte: u8) -> bool {
    byte & 0xC0 != 0x80
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn gather(text: &[u8], chunk: usize, want: u64, max_chars: usize) -> (Vec<u8>, u64, u64) {
        let mut lines = LineGatherer::new(want, max_chars, 2_000, SecretBoundaries::default());
        let mut wanted = true;
        for piece in text.chunks(chunk.max(1)) {
            wanted = lines.push_bytes(piece);
            if !wanted {
                break;
            }
        }
        if wanted {
            lines.finish_gathering(false);
        }
        let count = lines.gathered;
        let consumed = lines.consumed;
        (lines.into_bytes(), count, consumed)
    }

    proptest! {
        #[test]
        fn windows_joined_give_the_text(text in "[a-zäß\r\n]{0,400}", chunk in 1_usize..50, want in 1_u64..9, max in 1_usize..60) {
            let bytes = text.as_bytes();
            let (mut joined, mut at) = (Vec::new(), 0);
            while at < bytes.len() {
                let (window, lines, consumed) = gather(&bytes[at..], chunk, want, max);
                prop_assert!(lines > 0 && lines <= want);
                at += usize::try_from(consumed).unwrap();
                joined.extend(window);
            }
            prop_assert_eq!(joined, bytes);
        }

        #[test]
        fn a_long_line_keeps_its_ends_in_any_chunking(len in 2_001_usize..300_000, chunk in 1_usize..70_000) {
            let text = format!("é{}ü\nnext\n", "x".repeat(len));
            let (window, lines, consumed) = gather(text.as_bytes(), chunk, 2, 100_000);
            let window = String::from_utf8(window).unwrap();
            prop_assert_eq!(lines, 2);
            prop_assert_eq!(consumed, text.len() as u64);
            prop_assert!(window.starts_with("éxxx") && window.ends_with("xü\nnext\n"));
            prop_assert!(window.len() < 2_200);
        }
    }

    #[test]
    fn the_rest_of_a_line_starts_at_a_character() {
        let mut rest = LineRemainder::new(3, 2, SecretBoundaries::default());
        assert!(!rest.push("äöüßx\nno".as_bytes()));
        assert_eq!((rest.out.as_slice(), rest.more), ("üß".as_bytes(), true));

        let mut rest = LineRemainder::new(3, 9, SecretBoundaries::default());
        assert!(rest.push(b"a"));
        assert!(!rest.push(b"bcd\nno"));
        assert_eq!(
            (rest.out.as_slice(), rest.more, rest.reached),
            (b"cd".as_slice(), false, true)
        );

        let mut rest = LineRemainder::new(9, 9, SecretBoundaries::default());
        assert!(!rest.push(b"abc\n"));
        assert!(!rest.reached);
    }
}
