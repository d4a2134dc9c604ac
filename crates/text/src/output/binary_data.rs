//! Finds and counts binary data in a command's output, which is reported in one line.

use memchr::{memchr_iter, memrchr};

/// The size of each of the samples by which a large chunk is judged.
const SAMPLE_BYTES: usize = 256;
/// A smaller chunk is too little to tell binary data from text, unless binary data came just before.
const MIN_CHUNK_BYTES: usize = 32;
/// So many first bytes of the data are held: enough to tell its format.
const MAX_FIRST_BYTES: usize = 512;

/// Binary data that is under way.
#[derive(Debug, Default)]
pub struct BinaryRun {
    /// Its first bytes.
    pub first: Vec<u8>,
    /// The number of bytes so far.
    pub bytes: u64,
    /// What came last and looks like a short line of text. It is one if no binary data follows.
    pub tail: Vec<u8>,
}

impl BinaryRun {
    /// Counts a chunk, and what before it looked like text.
    pub fn push(&mut self, chunk: &[u8]) {
        let tail = std::mem::take(&mut self.tail);
        self.count(&tail);
        self.count(chunk);
    }

    /// Returns whether text at the end of a chunk is too short to be certain of: random bytes may look like it.
    pub fn is_short(text: &[u8]) -> bool {
        text.len() < MIN_CHUNK_BYTES
    }

    fn count(&mut self, chunk: &[u8]) {
        self.first
            .extend_from_slice(&chunk[..chunk.len().min(MAX_FIRST_BYTES - self.first.len())]);
        self.bytes += chunk.len() as u64;
    }

    /// Returns whether there are no bytes yet.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }
}

/// Returns the part of a chunk that is binary data, empty for text. Whole lines of text before and after the data are
/// excluded. `goes_on`: the chunk follows binary data.
pub fn find_binary_data(chunk: &[u8], goes_on: bool) -> std::ops::Range<usize> {
    if !is_binary_data(chunk, goes_on) {
        return 0..0;
    }
    let is_text = |byte: &u8| matches!(byte, b'\t' | b'\n' | b'\r' | 0x1b | b' '..=b'~');
    let first = chunk.iter().position(|byte| !is_text(byte)).unwrap_or(0);
    let last = chunk
        .iter()
        .rposition(|byte| !is_text(byte))
        .map_or(chunk.len(), |at| at + 1);
    let start = if goes_on {
        0
    } else {
        memrchr(b'\n', &chunk[..first]).map_or(0, |newline| newline + 1)
    };
    // Random bytes may end in a few letters, and seldom in a line of them.
    let is_line = chunk.len() - last >= 4 && chunk.ends_with(b"\n");
    start..if is_line { last } else { chunk.len() }
}

/// Returns whether a chunk is certainly not text. Two of three samples must hold invalid UTF-8 and control characters
/// that neither text nor a terminal uses. Text in an older encoding has no such characters. NUL bytes alone do not
/// count: they are cheap to leave out.
fn is_binary_data(chunk: &[u8], goes_on: bool) -> bool {
    if goes_on {
        let (invalid, controls) = count_non_text(chunk);
        let nuls = memchr_iter(0, chunk).count();
        return (invalid + controls + nuls) * 10 >= chunk.len();
    }
    if chunk.len() < MIN_CHUNK_BYTES {
        return false;
    }
    let is_odd = |sample: &[u8]| {
        let (invalid, controls) = count_non_text(sample);
        controls * SAMPLE_BYTES / 8 >= sample.len() && (invalid + controls) * 10 >= sample.len()
    };
    if chunk.len() <= 3 * SAMPLE_BYTES {
        return is_odd(chunk);
    }
    let starts = [
        0,
        (chunk.len() - SAMPLE_BYTES) / 2,
        chunk.len() - SAMPLE_BYTES,
    ];
    starts
        .iter()
        .filter(|start| is_odd(&chunk[**start..**start + SAMPLE_BYTES]))
        .count()
        >= 2
}

/// Counts the bytes that are not UTF-8, and the control characters that text does not use.
fn count_non_text(bytes: &[u8]) -> (usize, usize) {
    let count = |(invalid, controls): (usize, usize), part: std::str::Utf8Chunk<'_>| {
        let odd = part
            .valid()
            .bytes()
            .filter(|byte| matches!(byte, 1..=6 | 14..=26 | 28..=31 | 127));
        (invalid + part.invalid().len(), controls + odd.count())
    };
    bytes.utf8_chunks().fold((0, 0), count)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers without a pattern (xorshift).
    fn noise(bytes: usize) -> Vec<u8> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state.to_le_bytes()[3]
        };
        std::iter::repeat_with(next).take(bytes).collect()
    }

    #[test]
    fn noise_is_binary_and_text_of_any_script_and_encoding_is_not() {
        assert_eq!(find_binary_data(&noise(64 << 10), false), 0..64 << 10);
        assert_eq!(find_binary_data(&noise(200), false).len(), 200);
        assert!(find_binary_data(&noise(MIN_CHUNK_BYTES - 1), false).is_empty());
        let cyrillic = b"\xcf\xf0\xe8\xe2\xe5\xf2 \xec\xe8\xf0\n";
        for text in [
            "let value = compute();\n",
            "Größe, naïve café — 日本語\n",
            "\x1b[31m 10%\r",
            "a\0\0\0",
        ] {
            for times in [1, 1_000] {
                assert!(
                    find_binary_data(text.repeat(times).as_bytes(), false).is_empty(),
                    "{text:?}"
                );
            }
        }
        assert!(find_binary_data(&cyrillic.repeat(1_000), false).is_empty());
    }

    #[test]
    fn lines_of_text_around_the_data_are_no_part_of_it() {
        let data = noise(10_000);
        let whole = [
            b"HTTP/1.1 200 OK\n\n".as_slice(),
            b"\x89",
            &data,
            b"\0\ndone\n",
        ]
        .concat();
        let part = find_binary_data(&whole, false);
        assert_eq!(
            (&whole[..part.start], &whole[part.end..]),
            (&b"HTTP/1.1 200 OK\n\n"[..], &b"\ndone\n"[..])
        );
        assert!(find_binary_data(b"done\n", true).is_empty());
        assert_eq!(find_binary_data(b"IEND\xaeB`\x82", true), 0..8);
    }
}
