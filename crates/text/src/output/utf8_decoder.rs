//! Decodes bytes to text, whole or in chunks.

/// The replacement for invalid bytes.
const REPLACEMENT: char = char::REPLACEMENT_CHARACTER;

/// Decodes a stream of bytes as UTF-8, holding back an incomplete character at a chunk's end. The result is that
/// of [`String::from_utf8_lossy`] over the whole, however it was cut into chunks.
#[derive(Debug, Default)]
pub struct Utf8Decoder {
    held: [u8; 4],
    held_len: usize,
    lossy: u64,
}

impl Utf8Decoder {
    /// Appends the text of a chunk to `out`; invalid bytes become U+FFFD and are counted.
    pub fn push(&mut self, chunk: &[u8], out: &mut String) {
        let mut rest = chunk;
        while self.held_len > 0 {
            let Some((&byte, after)) = rest.split_first() else {
                return;
            };
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
                // The byte does not continue the bytes held, so those are invalid and it begins anew.
                Err(_) => self.finish(out),
            }
        }
        loop {
            let error = match std::str::from_utf8(rest) {
                Ok(text) => return out.push_str(text),
                Err(error) => error,
            };
            let (valid, bad) = rest.split_at(error.valid_up_to());
            out.push_str(valid_utf8(valid));
            let Some(len) = error.error_len() else {
                self.held[..bad.len()].copy_from_slice(bad);
                self.held_len = bad.len();
                return;
            };
            self.push_replacement(out);
            rest = &bad[len..];
        }
    }

    /// Appends the bytes held back.
    pub fn finish(&mut self, out: &mut String) {
        if self.held_len > 0 {
            self.held_len = 0;
            self.push_replacement(out);
        }
    }

    /// The number of characters replaced so far.
    pub fn replacement_count(&self) -> u64 {
        self.lossy
    }

    fn push_replacement(&mut self, out: &mut String) {
        out.push(REPLACEMENT);
        self.lossy += 1;
    }
}

fn valid_utf8(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("the error named these bytes as valid")
}

/// Removes the rest of a character whose beginning was cut off.
pub fn drop_cut_character(bytes: &mut Vec<u8>) {
    let inside = bytes
        .iter()
        .take(3)
        .take_while(|byte| (**byte & 0xc0) == 0x80)
        .count();
    bytes.drain(..inside);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn decoding_is_that_of_the_whole(bytes in prop::collection::vec(prop_oneof![
            any::<u8>(), prop::sample::select(vec![0xe2, 0x82, 0xac, 0xf0, 0x9f, 0x98, 0x80, 0xc3, 0xa9, 0xed, 0xa0, b'a']),
        ], 0..200), size in 1_usize..9) {
            let mut decoder = Utf8Decoder::default();
            let mut out = String::new();
            for chunk in bytes.chunks(size) {
                decoder.push(chunk, &mut out);
            }
            decoder.finish(&mut out);
            prop_assert_eq!(&out, &String::from_utf8_lossy(&bytes));
            let before = bytes.windows(3).filter(|three| *three == [0xef, 0xbf, 0xbd]).count() as u64;
            prop_assert_eq!(decoder.replacement_count() + before, out.matches(REPLACEMENT).count() as u64);
        }
    }
}
