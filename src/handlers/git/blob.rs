//! Content of one file at a commit, prepared for an answer. Not here: choosing the file (GitShow).

use super::command::Sink;
use super::whole::{Kept, Whole};
use crate::output::hygiene::Decoder;
use crate::output::{Budget, Clipped, HeadTail};

/// The number of bytes examined to tell text from binary.
const SNIFFED: usize = 8 << 10;

/// A sink for a file's content that keeps its beginning and end within a budget.
pub(super) struct Blob {
    /// `Some` until the end.
    whole: Option<Whole>,
    masked: Vec<u8>,
    decoder: Decoder,
    ends: HeadTail,
    seen: usize,
    pub(super) is_binary: bool,
    pub(super) controls: u64,
}

impl Blob {
    /// Creates the sink with a budget for the text to show.
    pub(super) fn new(whole: Whole, budget: Budget) -> Self {
        Self {
            whole: Some(whole),
            masked: Vec::new(),
            decoder: Decoder::default(),
            ends: HeadTail::new(budget),
            seen: 0,
            is_binary: false,
            controls: 0,
        }
    }

    fn push(&mut self, bytes: &[u8], last: bool) {
        let mut text = String::new();
        self.decoder.push(bytes, &mut text);
        if last {
            self.decoder.finish(&mut text);
        }
        let controls = text.chars().filter(|c| c.is_control() && !matches!(c, '\n' | '\t' | '\r'));
        self.controls += controls.count() as u64;
        self.ends.push(&text);
    }

    /// Ends the input. Returns the number of lines, the text to show, and the place of the whole content.
    pub(super) fn end(&mut self) -> (u64, Clipped, Kept) {
        let (rest, kept) = self.whole.take().map(Whole::end).unwrap_or_default();
        self.push(&rest, true);
        (self.ends.lines(), self.ends.render(kept.handle.as_deref()), kept)
    }

    /// Returns the number of bytes that were not valid text.
    pub(super) fn lossy(&self) -> u64 {
        self.decoder.lossy()
    }
}

impl Sink for Blob {
    fn take(&mut self, piece: &[u8]) -> bool {
        let look = SNIFFED.saturating_sub(self.seen).min(piece.len());
        self.seen += piece.len();
        if piece[..look].contains(&0) {
            self.is_binary = true;
            return false;
        }
        let mut masked = std::mem::take(&mut self.masked);
        let more = self.whole.as_mut().is_some_and(|whole| whole.take(piece, &mut masked));
        self.push(&masked, false);
        self.masked = masked;
        more
    }
}
