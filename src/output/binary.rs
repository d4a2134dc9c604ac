//! Binary data in the middle of a long output. Decoding and cleaning it costs far more than reading it, and only its
//! last part can be shown, so the rest is counted and left out.

use memchr::memchr_iter;

/// The last bytes that are decoded after all: enough for the longest tail that a budget allows.
const WINDOW: usize = 512 << 10;
/// A shorter chunk is not worth the decision.
const SMALLEST: usize = 4 << 10;
/// The size of each of the samples by which a chunk is judged.
const SAMPLE: usize = 256;

/// The last of the binary data that arrived, not decoded yet.
#[derive(Debug, Default)]
pub struct BinaryTail {
    bytes: Vec<u8>,
}

/// What was left out undecoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Skipped {
    /// How many bytes.
    pub bytes: u64,
    /// How many line feeds are among them.
    pub newlines: u64,
    /// How many NUL bytes.
    pub nuls: u64,
    /// How many bytes that are not ASCII.
    pub non_ascii: u64,
}

impl BinaryTail {
    /// Takes a chunk; reports what it pushed out of the window.
    pub fn push(&mut self, chunk: &[u8]) -> Option<Skipped> {
        self.bytes.extend_from_slice(chunk);
        if self.bytes.len() <= 2 * WINDOW {
            return None;
        }
        let rest = self.bytes.split_off(self.bytes.len() - WINDOW);
        let bytes = std::mem::replace(&mut self.bytes, rest);
        Some(Skipped {
            bytes: bytes.len() as u64,
            newlines: memchr_iter(b'\n', &bytes).count() as u64,
            nuls: memchr_iter(0, &bytes).count() as u64,
            non_ascii: count_non_ascii(&bytes),
        })
    }

    /// Hands over what is in the window.
    pub fn take(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.bytes)
    }
}

fn count_non_ascii(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let highest =
        |word: &[u8; 8]| u64::from((u64::from_ne_bytes(*word) & 0x8080_8080_8080_8080).count_ones());
    words.iter().map(highest).sum::<u64>() + rest.iter().filter(|byte| !byte.is_ascii()).count() as u64
}

/// Whether a chunk of output is certainly no text: in each of three samples, a tenth of the bytes and more are no UTF-8,
/// or control characters that neither text nor a terminal uses. NUL bytes do not count: they are cheap to leave out.
pub fn is_binary(chunk: &[u8]) -> bool {
    if chunk.len() < SMALLEST {
        return false;
    }
    let starts = [0, (chunk.len() - SAMPLE) / 2, chunk.len() - SAMPLE];
    starts.iter().all(|start| {
        let odd = chunk[*start..start + SAMPLE].utf8_chunks().map(|part| {
            let controls =
                part.valid().bytes().filter(|byte| matches!(byte, 1..=6 | 14..=26 | 28..=31 | 127));
            part.invalid().len() + controls.count()
        });
        odd.sum::<usize>() * 10 >= SAMPLE
    })
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
    fn noise_is_binary_and_text_of_any_script_is_not() {
        assert!(is_binary(&noise(64 << 10)));
        assert!(!is_binary(&noise(SMALLEST - 1)));
        for text in ["let value = compute();\n", "Größe, naïve café — 日本語\n", "\x1b[31m 10%\r", "a\0\0\0"]
        {
            assert!(!is_binary(text.repeat(1_000).as_bytes()), "{text:?}");
        }
        let mut half = noise(64 << 10);
        half[40 << 10..].fill(b'x');
        assert!(!is_binary(&half));
    }

    #[test]
    fn every_byte_is_either_skipped_and_counted_or_in_the_window() {
        let data = noise(10 * WINDOW);
        let (mut tail, mut skipped) = (BinaryTail::default(), Skipped::default());
        for chunk in data.chunks(60_000) {
            let Some(more) = tail.push(chunk) else { continue };
            skipped.bytes += more.bytes;
            skipped.newlines += more.newlines;
            skipped.nuls += more.nuls;
            skipped.non_ascii += more.non_ascii;
        }
        let window = tail.take();
        assert!((WINDOW..=2 * WINDOW).contains(&window.len()));
        let (before, after) = data.split_at(data.len() - window.len());
        let count = |is: fn(u8) -> bool| before.iter().filter(|byte| is(**byte)).count() as u64;
        let expected = Skipped {
            bytes: before.len() as u64,
            newlines: count(|byte| byte == b'\n'),
            nuls: count(|byte| byte == 0),
            non_ascii: count(|byte| byte >= 0x80),
        };
        assert_eq!((skipped, after), (expected, window.as_slice()));
        assert!(tail.take().is_empty());
    }
}
