//! Detects a file's encoding when it is read, rejects files that are not text, and counts bytes that are not UTF-8.
//! Not here: the detection itself (`acp::content`, `acp::encoding`).

use crate::acp::WorkspacePath;
use crate::acp::content;
pub(super) use crate::acp::content::{Binary, HEAD};
use crate::acp::encoding::Encoding;
use crate::acp::files::Endings;
use crate::output::figures;
use crate::tool::{ErrorCode, ToolError};

/// Returns the encoding of a text file, from its first bytes.
pub(super) fn classify(head: &[u8]) -> Result<Encoding, Binary> {
    content::classify(head, false)
}

/// Returns the encoding, or an error if it is not text. `whole` tells that these are all the bytes.
pub(super) fn encoding_of(
    path: &WorkspacePath,
    bytes: &[u8],
    size: u64,
    whole: bool,
) -> Result<Encoding, ToolError> {
    content::classify(bytes, whole).map_err(|binary| refusal(path, binary, bytes, size))
}

/// Returns the encoding by the head of a big file and the window's bytes together.
pub(super) fn judged(head: &[u8], window: &[u8], by_head: Encoding) -> Encoding {
    if by_head.is_utf16() {
        return by_head;
    }
    // A character that the head's end splits is no evidence.
    let whole = match std::str::from_utf8(head) {
        Err(error) if error.error_len().is_none() => &head[..error.valid_up_to()],
        _ => head,
    };
    if by_head.is_utf8() && std::str::from_utf8(window).is_ok() && std::str::from_utf8(whole).is_ok() {
        return by_head;
    }
    Encoding::of(&[whole, b"\n", window].concat(), false)
}

/// Returns the line endings in the head of a file.
pub(super) fn endings_of(head: &[u8], encoding: Encoding) -> Endings {
    if encoding.is_utf16() { Endings::of(encoding.decode(head).0.as_bytes()) } else { Endings::of(head) }
}

/// Returns the error for a file that is not text, with its kind, its size, its first bytes and advice.
pub(super) fn refusal(path: &WorkspacePath, binary: Binary, head: &[u8], size: u64) -> ToolError {
    let shown: Vec<String> = head.iter().take(64).map(|byte| format!("{byte:02x}")).collect();
    let text = format!(
        "{} is not text: it is {}, {}. {}\nThe first {} bytes: {}",
        path.shown(),
        binary.kind,
        figures::size(size),
        binary.hint,
        shown.len(),
        shown.join(" ")
    );
    ToolError::new(ErrorCode::NotText, text)
}

/// Counts the bytes that are not UTF-8, over pieces that may split a character.
#[derive(Debug, Default)]
pub(super) struct InvalidBytes {
    count: u64,
    /// The beginning of a character that the next piece may complete.
    begun: Vec<u8>,
}

impl InvalidBytes {
    /// Counts the bytes that are not UTF-8 in a whole.
    pub(super) fn of(bytes: &[u8]) -> u64 {
        bytes.utf8_chunks().map(|chunk| chunk.invalid().len() as u64).sum()
    }

    /// Counts in the next piece.
    pub(super) fn push(&mut self, piece: &[u8]) {
        let joined;
        let piece = if self.begun.is_empty() {
            piece
        } else {
            joined = [self.begun.as_slice(), piece].concat();
            joined.as_slice()
        };
        let (mut at, mut begun) = (0, Vec::new());
        for chunk in piece.utf8_chunks() {
            let invalid = chunk.invalid();
            at += chunk.valid().len() + invalid.len();
            // Only at the end of the piece can a character be incomplete and not invalid.
            let is_begun = at == piece.len()
                && std::str::from_utf8(invalid).is_err_and(|error| error.error_len().is_none());
            if is_begun {
                begun = invalid.to_vec();
            } else {
                self.count += invalid.len() as u64;
            }
        }
        self.begun = begun;
    }

    /// Returns the count after the last piece.
    pub(super) fn total(&self) -> u64 {
        self.count + self.begun.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn invalid_bytes_are_counted_alike_in_every_piecing() {
        for text in
            [b"caf\xe9 \xe9".as_slice(), "grüße – 🦀".as_bytes(), b"\xf0\x9f\x90 \xc3(\xff\xf0\x9f", b""]
        {
            let whole = InvalidBytes::of(text);
            assert_eq!(whole > 0, std::str::from_utf8(text).is_err());
            for size in 1..=text.len() {
                let mut counter = InvalidBytes::default();
                text.chunks(size).for_each(|piece| counter.push(piece));
                assert_eq!(counter.total(), whole, "{text:?} in pieces of {size}");
            }
        }
    }
}
