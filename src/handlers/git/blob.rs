//! Content of one file at a commit, prepared for an answer. Not here: choosing the file (GitShow).

use super::captured_output::{CapturedOutput, OutputCapture};
use super::git_command::GitOutputSink;
use crate::output::terminal_text::Utf8Decoder;
use crate::output::{ClippedText, HeadTail, TextBudget};

/// The number of bytes examined to tell text from binary.
const SNIFF_BYTES: usize = 8 << 10;

/// A sink for a file's content that keeps its beginning and end within a budget.
pub(super) struct BlobCapture {
    /// `Some` until the end.
    capture: Option<OutputCapture>,
    masked: Vec<u8>,
    decoder: Utf8Decoder,
    ends: HeadTail,
    seen: usize,
    pub(super) is_binary: bool,
    pub(super) controls: u64,
}

impl BlobCapture {
    /// Creates the sink with a budget for the text to show.
    pub(super) fn new(whole: OutputCapture, budget: TextBudget) -> Self {
        Self {
            capture: Some(whole),
            masked: Vec::new(),
            decoder: Utf8Decoder::default(),
            ends: HeadTail::new(budget),
            seen: 0,
            is_binary: false,
            controls: 0,
        }
    }

    fn push_text(&mut self, bytes: &[u8], last: bool) {
        let mut text = String::new();
        self.decoder.push(bytes, &mut text);
        if last {
            self.decoder.finish(&mut text);
        }
        let controls = text
            .chars()
            .filter(|c| c.is_control() && !matches!(c, '\n' | '\t' | '\r'));
        self.controls += controls.count() as u64;
        self.ends.push(&text);
    }

    /// Ends the input. Returns the number of lines, the text to show, and the place of the whole content.
    pub(super) fn finish(&mut self) -> (u64, ClippedText, CapturedOutput) {
        let (rest, kept) = self
            .capture
            .take()
            .map(OutputCapture::finish)
            .unwrap_or_default();
        self.push_text(&rest, true);
        (
            self.ends.line_count(),
            self.ends.render_clipped(kept.handle.as_deref()),
            kept,
        )
    }

    /// Returns the number of bytes that were not valid text.
    pub(super) fn lossy_count(&self) -> u64 {
        self.decoder.replacement_count()
    }
}

impl GitOutputSink for BlobCapture {
    fn accept_chunk(&mut self, piece: &[u8]) -> bool {
        let look = SNIFF_BYTES.saturating_sub(self.seen).min(piece.len());
        self.seen += piece.len();
        if piece[..look].contains(&0) {
            self.is_binary = true;
            return false;
        }
        let mut masked = std::mem::take(&mut self.masked);
        let more = self
            .capture
            .as_mut()
            .is_some_and(|whole| whole.push_chunk(piece, &mut masked));
        self.push_text(&masked, false);
        self.masked = masked;
        more
    }
}
