//! One line of any length in bounded memory: whole up to a limit, beyond it only its two ends.

use super::TextBudget;
use super::number_format::group_digits;

/// The number of characters of a long line that stay at each end. Ends, note and a closing marker together are shorter
/// than the shortest line that is cut, so cutting never makes a text longer.
const END_CHARS: usize = 900;
/// Bytes that surely hold `END` characters, wherever they are cut.
const END_BYTES: usize = 4 * END_CHARS + 4;

/// Collects one line that arrives in pieces, without its line end.
#[derive(Debug, Clone, Default)]
pub(super) struct LongLine {
    start: String,
    end: String,
    chars: u64,
    bytes: u64,
    is_cut: bool,
}

/// A collected line.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct LineEnds<'a> {
    /// The whole line, or its first characters.
    pub start: &'a str,
    /// The omitted middle, if the line was too long.
    pub cut: Option<MiddleCut<'a>>,
}

/// The middle that a long line lost.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MiddleCut<'a> {
    /// Stands in for the middle and names the line's true length.
    pub note: String,
    /// The number of bytes that the note replaces.
    pub bytes: u64,
    /// The line's last characters.
    pub end: &'a str,
}

impl LongLine {
    pub(super) fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    pub(super) fn push(&mut self, piece: &str) {
        let held = self.chars;
        self.chars += piece.chars().count() as u64;
        self.bytes += piece.len() as u64;
        if self.is_cut {
            self.push_end(piece);
        } else if self.chars <= TextBudget::MAX_LINE_CHARS as u64 {
            self.start.push_str(piece);
        } else {
            self.is_cut = true;
            let held = usize::try_from(held).expect("an uncut line holds few characters");
            if held >= END_CHARS {
                let rest = self.start.split_off(char_offset(&self.start, END_CHARS));
                self.push_end(&rest);
                self.push_end(piece);
            } else {
                let (start, rest) = piece.split_at(char_offset(piece, END_CHARS - held));
                self.start.push_str(start);
                self.push_end(rest);
            }
        }
    }

    fn push_end(&mut self, piece: &str) {
        let piece = &piece[piece.ceil_char_boundary(piece.len().saturating_sub(END_BYTES))..];
        self.end.push_str(piece);
        if self.end.len() > 4 * END_BYTES {
            self.end
                .drain(..self.end.ceil_char_boundary(self.end.len() - END_BYTES));
        }
    }

    pub(super) fn split_ends(&self) -> LineEnds<'_> {
        if !self.is_cut {
            return LineEnds {
                start: &self.start,
                cut: None,
            };
        }
        let end = &self.end[last_chars_offset(&self.end, END_CHARS)..];
        let note = format!(
            " [... {} of this line's {} characters omitted ...] ",
            group_digits(self.chars - 2 * END_CHARS as u64),
            group_digits(self.chars)
        );
        let bytes = self.bytes - self.start.len() as u64 - end.len() as u64;
        LineEnds {
            start: &self.start,
            cut: Some(MiddleCut { note, bytes, end }),
        }
    }

    /// Makes ready for the next line, keeping the memory.
    pub(super) fn clear(&mut self) {
        self.start.clear();
        self.end.clear();
        self.chars = 0;
        self.bytes = 0;
        self.is_cut = false;
    }
}

/// One line as a page shows it, collected in bounded memory.
#[derive(Debug)]
pub(super) enum LineView {
    /// Whole, or its two ends.
    Ends(LongLine),
    /// From a column on.
    From {
        column: u64,
        text: String,
        chars: u64,
    },
}

impl LineView {
    pub(super) fn with_ends() -> Self {
        Self::Ends(LongLine::default())
    }

    /// From this character (1-based) on.
    pub(super) fn from_column(column: u64) -> Self {
        Self::From {
            column: column.max(1),
            text: String::new(),
            chars: 0,
        }
    }

    pub(super) fn push(&mut self, piece: &str) {
        match self {
            Self::Ends(line) => line.push(piece),
            Self::From {
                column,
                text,
                chars,
            } => {
                // `chars` counts the line so far; `text` is the part of it in the window.
                let skip =
                    usize::try_from((*column - 1).saturating_sub(*chars)).unwrap_or(usize::MAX);
                *chars += piece.chars().count() as u64;
                let room = TextBudget::MAX_LINE_CHARS - text.chars().count();
                if room > 0 {
                    let part = &piece[char_offset(piece, skip)..];
                    text.push_str(&part[..char_offset(part, room)]);
                }
            }
        }
    }

    pub(super) fn shown_text(&self) -> String {
        match self {
            Self::Ends(line) => {
                let ends = line.split_ends();
                match ends.cut {
                    None => ends.start.to_owned(),
                    Some(cut) => [ends.start, &cut.note, cut.end].concat(),
                }
            }
            Self::From {
                column,
                text,
                chars,
            } => {
                let next = column + text.chars().count() as u64;
                if text.is_empty() || next > *chars {
                    return text.clone();
                }
                format!(
                    "{text} [... column={next} of {} characters for the rest]",
                    group_digits(*chars)
                )
            }
        }
    }
}

/// The byte at which the `n`-th character (from 0) begins; the text's length when there are no more than `n`.
pub(super) fn char_offset(text: &str, n: usize) -> usize {
    text.char_indices().nth(n).map_or(text.len(), |(at, _)| at)
}

/// The byte at which the last `n` characters begin.
pub(super) fn last_chars_offset(text: &str, n: usize) -> usize {
    if n == 0 {
        return text.len();
    }
    text.char_indices().rev().nth(n - 1).map_or(0, |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(line: &LongLine) -> String {
        LineView::Ends(line.clone()).shown_text()
    }

    #[test]
    fn a_line_at_the_limit_stays_whole_and_one_over_it_names_its_length() {
        let mut line = LongLine::default();
        line.push(&"é".repeat(2_000));
        assert_eq!(shown(&line), "é".repeat(2_000));
        line.push("x");
        let text = shown(&line);
        assert!(
            text.contains(" [... 201 of this line's 2,001 characters omitted ...] "),
            "{text}"
        );
        assert!(text.ends_with("éx") && text.chars().count() < 2_000);
        assert_eq!(line.split_ends().cut.expect("cut").bytes, 2 * 201);
    }

    #[test]
    fn a_column_shows_what_the_ends_leave_out() {
        let text: String = ('a'..='z').cycle().take(5_000).collect();
        let mut view = LineView::from_column(1_001);
        for piece in [&text[..700], &text[700..1_500], &text[1_500..]] {
            view.push(piece);
        }
        let expected = format!(
            "{} [... column=3001 of 5,000 characters for the rest]",
            &text[1_000..3_000]
        );
        assert_eq!(view.shown_text(), expected);
        let mut last = LineView::from_column(4_001);
        last.push(&text);
        assert_eq!(last.shown_text(), &text[4_000..]);
    }

    proptest! {
        #[test]
        fn pieces_make_no_difference(pieces in prop::collection::vec("[aé😀]{0,700}", 0..12)) {
            let mut whole = LongLine::default();
            whole.push(&pieces.concat());
            let mut parts = LongLine::default();
            for piece in &pieces {
                parts.push(piece);
            }
            prop_assert_eq!(whole.split_ends(), parts.split_ends());
        }
    }
}
