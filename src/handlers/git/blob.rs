//! Content of one file at a commit, prepared for an answer.

use super::captured_output::{CapturedOutput, OutputCapture};
use super::display_text::count_control_chars;
use super::git_command::GitOutputSink;
use punie_text::output::{ClippedText, HeadTail, TextBudget};

/// The number of bytes examined to tell text from binary.
const SNIFF_BYTES: usize = 8 << 10;

/// A sink for a file's content that keeps its beginning and end within a budget.
pub(super) struct BlobCapture {
    capture: OutputCapture,
    ends: HeadTail,
    seen: usize,
    pub(super) is_binary: bool,
    pub(super) controls: u64,
}

impl BlobCapture {
    /// Creates the sink with a budget for the text to show.
    pub(super) fn new(whole: OutputCapture, budget: TextBudget) -> Self {
        Self {
            capture: whole,
            ends: HeadTail::new(budget),
            seen: 0,
            is_binary: false,
            controls: 0,
        }
    }

    fn push_text(&mut self, text: &str) {
        self.controls += count_control_chars(text);
        self.ends.push(text);
    }

    /// Ends the input. Returns the number of lines, the text to show, and the whole content.
    pub(super) fn finish(&mut self) -> (u64, ClippedText, CapturedOutput) {
        let (rest, whole) = self.capture.finish();
        self.push_text(&rest);
        let ends = self.ends.render_clipped(whole.handle.as_deref());
        (self.ends.line_count(), ends, whole)
    }
}

impl GitOutputSink for BlobCapture {
    fn accept_chunk(&mut self, piece: &[u8]) -> bool {
        let unseen = SNIFF_BYTES.saturating_sub(self.seen).min(piece.len());
        self.seen += piece.len();
        if piece[..unseen].contains(&0) {
            self.is_binary = true;
            return false;
        }
        let (text, more) = self.capture.push_chunk(piece);
        self.push_text(&text);
        more
    }
}
