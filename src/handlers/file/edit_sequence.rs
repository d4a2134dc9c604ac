//! Combines successive edits of a text into one change of the original. Text that no edit touched stays as it was.

use std::ops::Range;

use punie_host::files::ByteSplice;

/// Builds the text with its splices applied.
pub(super) fn apply_splices(text: &[u8], splices: &[ByteSplice]) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut at = 0;
    for splice in splices {
        out.extend_from_slice(&text[at..splice.range.start]);
        out.extend_from_slice(&splice.with);
        at = splice.range.end;
    }
    out.extend_from_slice(&text[at..]);
    out
}

/// The current text, and the parts of it that come from the original.
#[derive(Debug)]
pub(super) struct EditSequence {
    text: Vec<u8>,
    pieces: Vec<SequencePiece>,
    first: usize,
}

#[derive(Debug, Clone)]
enum SequencePiece {
    /// A byte range of the original text.
    Kept(Range<usize>),
    /// Inserted bytes.
    New(Vec<u8>),
}

impl SequencePiece {
    fn len(&self) -> usize {
        match self {
            Self::Kept(range) => range.len(),
            Self::New(bytes) => bytes.len(),
        }
    }

    /// The part of this piece between two of its offsets.
    fn slice(&self, from: usize, to: usize) -> Self {
        match self {
            Self::Kept(range) => Self::Kept(range.start + from..range.start + to),
            Self::New(bytes) => Self::New(bytes[from..to].to_vec()),
        }
    }
}

impl EditSequence {
    /// Creates a sequence without edits.
    pub(super) fn from_original(text: &[u8]) -> Self {
        Self {
            text: text.to_vec(),
            pieces: vec![SequencePiece::Kept(0..text.len())],
            first: text.len(),
        }
    }

    /// The text after all edits so far.
    pub(super) fn current_text(&self) -> &[u8] {
        &self.text
    }

    /// Returns the text after all edits.
    pub(super) fn into_current_text(self) -> Vec<u8> {
        self.text
    }

    /// Replaces places of the current text; they are in order and do not overlap.
    pub(super) fn push_splices(&mut self, splices: &[ByteSplice]) {
        let mut pieces = Vec::with_capacity(self.pieces.len() + 2 * splices.len());
        let mut at = 0;
        for splice in splices {
            pieces.extend(self.pieces_between(at, splice.range.start));
            pieces.push(SequencePiece::New(splice.with.clone()));
            at = splice.range.end;
        }
        pieces.extend(self.pieces_between(at, self.text.len()));
        (self.pieces, self.text) = (pieces, apply_splices(&self.text, splices));
    }

    fn pieces_between(&self, from: usize, to: usize) -> Vec<SequencePiece> {
        let mut begin = 0;
        let mut parts = Vec::new();
        for piece in &self.pieces {
            let end = begin + piece.len();
            let cut_from = from.max(begin);
            let cut_to = to.min(end);
            if cut_from < cut_to {
                parts.push(piece.slice(cut_from - begin, cut_to - begin));
            }
            begin = end;
        }
        parts
    }

    /// All edits as splices of the original text.
    pub(super) fn combined_splices(&self) -> Vec<ByteSplice> {
        let mut splices: Vec<ByteSplice> = Vec::new();
        let mut at = 0;
        let mut with = Vec::new();
        for piece in self
            .pieces
            .iter()
            .chain([&SequencePiece::Kept(self.first..self.first)])
        {
            match piece {
                SequencePiece::New(bytes) => with.extend_from_slice(bytes),
                SequencePiece::Kept(range) => {
                    if range.start > at || !with.is_empty() {
                        splices.push(ByteSplice {
                            range: at..range.start,
                            with: std::mem::take(&mut with),
                        });
                    }
                    at = range.end;
                }
            }
        }
        splices
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn many_changes_are_one_change_of_the_first_text(
            first in prop::collection::vec(any::<u8>(), 0..60),
            rounds in prop::collection::vec(
                prop::collection::vec((0_usize..20, 0_usize..10, prop::collection::vec(any::<u8>(), 0..4)), 0..3),
                0..5,
            ),
        ) {
            let mut revision = EditSequence::from_original(&first);
            for round in rounds {
                let (mut at, mut splices) = (0, Vec::new());
                for (skip, len, with) in round {
                    let start = (at + skip).min(revision.current_text().len());
                    let end = (start + len).min(revision.current_text().len());
                    splices.push(ByteSplice { range: start..end, with });
                    at = end;
                }
                revision.push_splices(&splices);
            }
            let (mut now, mut at) = (Vec::new(), 0);
            for splice in revision.combined_splices() {
                prop_assert!(splice.range.start >= at && splice.range.end >= splice.range.start);
                now.extend_from_slice(&first[at..splice.range.start]);
                now.extend_from_slice(&splice.with);
                at = splice.range.end;
            }
            now.extend_from_slice(&first[at..]);
            prop_assert_eq!(now, revision.current_text());
        }
    }
}
