//! Budget and clip: the first 40 % and the last 60 % of a text, cut on lines, then on characters.

/// How many characters of text one result may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget(usize);

impl Budget {
    /// The default: 30,000 characters.
    pub const DEFAULT: usize = 30_000;
    /// What a call may ask for at least and at most.
    pub const RANGE: std::ops::RangeInclusive<usize> = 1_000..=200_000;
    /// A line longer than this is cut in the middle.
    pub const LINE: usize = 2_000;

    /// The budget a call asked for, brought into the allowed range.
    pub fn chars(asked: Option<u64>) -> Self {
        let asked = asked.map_or(Self::DEFAULT, |n| usize::try_from(n).unwrap_or(usize::MAX));
        Self(asked.clamp(*Self::RANGE.start(), *Self::RANGE.end()))
    }

    /// In characters.
    pub fn max_chars(self) -> usize {
        self.0
    }

    /// Characters for the head: 40 %.
    pub fn head(self) -> usize {
        self.0 * 2 / 5
    }

    /// Characters for the tail: 60 %.
    pub fn tail(self) -> usize {
        self.0 - self.head()
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self(Self::DEFAULT)
    }
}

/// A text brought within a budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Clipped {
    /// The head, the marker and the tail; or the whole text.
    pub text: String,
    /// Lines left out between head and tail.
    pub omitted_lines: u64,
    /// Bytes left out, in long lines too. 0 means nothing was.
    pub omitted_bytes: u64,
    /// The first line (1-based) that is left out.
    pub first_omitted_line: u64,
}

/// Brings a text within the budget; `handle` is where the whole is kept.
pub fn clip(text: &str, _budget: Budget, _handle: Option<&str>) -> Clipped {
    Clipped { text: text.to_owned(), omitted_lines: 0, omitted_bytes: 0, first_omitted_line: 0 }
}
