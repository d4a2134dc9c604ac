//! Shown text with notes in place of the middles of long lines, and cutting its two ends.

use std::collections::VecDeque;

use memchr::{memchr, memrchr};

use super::long_line::{char_offset, last_chars_offset};

/// A stretch of the shown text: lines as they came, long ones with a note in place of their middle.
#[derive(Debug, Clone, Default)]
pub(super) struct ElidedText {
    pub text: String,
    /// Bytes that were dropped before `text`.
    dropped: u64,
    notes: VecDeque<ElisionNote>,
}

/// The position of a note in the shown text, and the bytes that it replaces.
#[derive(Debug, Clone, Copy)]
struct ElisionNote {
    at: u64,
    len: usize,
    cut_bytes: u64,
}

impl ElidedText {
    /// A note of this length begins here.
    pub(super) fn mark_note(&mut self, len: usize, cut_bytes: u64) {
        self.notes.push_back(ElisionNote {
            at: self.dropped + self.text.len() as u64,
            len,
            cut_bytes,
        });
    }

    pub(super) fn drop_front(&mut self, keep: usize) {
        let at = self.text.floor_char_boundary(self.text.len() - keep);
        self.text.drain(..at);
        self.dropped += at as u64;
        while self
            .notes
            .front()
            .is_some_and(|note| note.at < self.dropped)
        {
            self.notes.pop_front();
        }
    }

    /// The first characters: whole lines where these are at least half of it, and never a part of a note.
    pub(super) fn cut_head(&self, chars: usize) -> Self {
        let mut at = char_offset(&self.text, chars);
        if self.text[at..].starts_with('\n') {
            // The line is whole; its end takes the place of the one that the marker needs.
            at += 1;
        }
        let lines = memrchr(b'\n', &self.text.as_bytes()[..at]).map_or(0, |newline| newline + 1);
        if self.text[..lines].chars().count() * 2 >= chars {
            at = lines;
        } else if let Some(note) = self.note_around(at) {
            at = note.0;
        }
        let notes = self
            .notes
            .iter()
            .filter(|note| note.at < at as u64)
            .copied()
            .collect();
        Self {
            text: self.text[..at].to_owned(),
            dropped: 0,
            notes,
        }
    }

    /// The last characters, by the same rules, and whether they begin with a line.
    pub(super) fn cut_tail(&self, chars: usize) -> (Self, bool) {
        let mut at = last_chars_offset(&self.text, chars);
        let mut on_line = self.text[..at].ends_with('\n');
        if !on_line {
            let rest = &self.text.as_bytes()[at..];
            let lines = memchr(b'\n', rest).map_or(self.text.len(), |newline| at + newline + 1);
            if self.text[lines..].chars().count() * 2 >= chars {
                at = lines;
                on_line = true;
            } else if let Some(note) = self.note_around(at) {
                at = note.1;
            }
        }
        let dropped = self.dropped + at as u64;
        let notes = self
            .notes
            .iter()
            .filter(|note| note.at >= dropped)
            .copied()
            .collect();
        (
            Self {
                text: self.text[at..].to_owned(),
                dropped,
                notes,
            },
            on_line,
        )
    }

    /// Returns the start and the end of the note around this position.
    fn note_around(&self, at: usize) -> Option<(usize, usize)> {
        self.notes.iter().find_map(|note| {
            let start = usize::try_from(note.at - self.dropped).ok()?;
            (start < at && at < start + note.len).then_some((start, start + note.len))
        })
    }

    /// Returns the number of original bytes that this text represents, and how many of them its notes omit.
    pub(super) fn original_bytes(&self) -> (u64, u64) {
        let noted: u64 = self.notes.iter().map(|note| note.len as u64).sum();
        let cut: u64 = self.notes.iter().map(|note| note.cut_bytes).sum();
        (self.text.len() as u64 - noted + cut, cut)
    }
}
