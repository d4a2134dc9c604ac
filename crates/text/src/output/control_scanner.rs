//! Finds control characters in a text, eight bytes at a time.

/// Finds the characters to remove: control characters other than line feed and tab. U+0080 to U+009F are control
/// characters too; their first byte is checked with the second.
///
/// A block is scanned eight bytes at a time and stored as one bit a byte. Between colours text is so short that a
/// separate search for each piece costs more.
#[derive(Default)]
pub(super) struct ControlScanner {
    block: usize,
    /// Of the block's bytes, lowest first; none before the first block.
    found: u64,
    end: usize,
}

impl ControlScanner {
    const BLOCK: usize = 64;

    /// The first place from here on; the length of the text where there is none.
    #[inline]
    pub fn next(&mut self, bytes: &[u8], from: usize) -> usize {
        let mut at = from;
        loop {
            if at >= self.end {
                if at >= bytes.len() {
                    return bytes.len();
                }
                self.scan_block(bytes, at);
            }
            let found = self.found >> (at - self.block);
            if found == 0 {
                at = self.end;
                continue;
            }
            at += found.trailing_zeros() as usize;
            if bytes[at] != 0xc2 || bytes.get(at + 1).is_some_and(|next| *next < 0xa0) {
                return at;
            }
            at += 1;
        }
    }

    #[inline]
    fn scan_block(&mut self, bytes: &[u8], from: usize) {
        let rest = &bytes[from..];
        self.block = from;
        self.end = from + rest.len().min(Self::BLOCK);
        let mut padded = [b' '; Self::BLOCK];
        let block = rest.first_chunk().unwrap_or_else(|| {
            padded[..rest.len()].copy_from_slice(rest);
            &padded
        });
        let (words, _) = block.as_chunks::<8>();
        self.found = 0;
        for (place, word) in words.iter().enumerate() {
            let found = suspect_bits(u64::from_le_bytes(*word));
            if found != 0 {
                // The product gathers the lowest bits of eight bytes in the highest byte.
                let bits = (found >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56;
                self.found |= bits << (8 * place);
            }
        }
    }
}

/// The highest bit of each of eight bytes that may be something to remove. Sums that stay within their bytes say it of all
/// eight at once: seven bits and a number that carries into the eighth.
#[inline]
fn suspect_bits(bytes: u64) -> u64 {
    const HIGHEST: u64 = repeat_byte(0x80);
    let is = |byte: u8| {
        let differs = bytes ^ repeat_byte(byte);
        !(((differs & !HIGHEST) + !HIGHEST) | differs) & HIGHEST
    };
    let low = !(((bytes & !HIGHEST) + repeat_byte(0x80 - b' ')) | bytes) & HIGHEST;
    let found = low | is(0x7f) | is(0xc2);
    if low == 0 {
        found
    } else {
        found & !(is(b'\n') | is(b'\t'))
    }
}

/// Eight times this byte.
const fn repeat_byte(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; 8])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_known_in_every_place() {
        for byte in 0..=255_u8 {
            let expected = matches!(byte, 0..=8 | 11..=31 | 0x7f | 0xc2);
            for around in [b' ', b'\n', 0, 0x1f, 0x7f, 0x80, 0xc2, 0xff] {
                for place in 0..8 {
                    let mut word = [around; 8];
                    word[place] = byte;
                    let found = suspect_bits(u64::from_le_bytes(word)) >> (8 * place) & 0xff;
                    assert_eq!(
                        found,
                        if expected { 0x80 } else { 0 },
                        "{byte:#x} among {around:#x}"
                    );
                }
            }
        }
    }
}
