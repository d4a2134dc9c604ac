//! Budget and clip: the first 40 % and the last 60 % of a text, cut on lines, then on characters.
//! Not here: storing the omitted part (store), and texts that do not fit in memory (headtail).

use super::HeadTail;
use super::figures::{counted, size};

/// The number of characters that one result may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Budget(usize);

impl Budget {
    /// The default: 30,000 characters.
    pub const DEFAULT: usize = 30_000;
    /// The least and the most that a call may ask for.
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
    /// Lines that the gap between head and tail touches; one that is shown in part counts.
    pub omitted_lines: u64,
    /// Bytes left out, in long lines too. 0 means nothing was.
    pub omitted_bytes: u64,
    /// The first line (1-based) that is not shown whole; where there is a gap, the one at which it begins. 0 when
    /// every line is whole.
    pub first_omitted_line: u64,
}

impl Clipped {
    /// Returns whether nothing was left out.
    pub fn is_whole(&self) -> bool {
        self.omitted_bytes == 0
    }
}

/// Brings a text within the budget; `handle` is where the whole is kept.
///
/// The marker is paid from the budget, so the result is never over it, and never longer than a text of which
/// something was left out. Lines over [`Budget::LINE`] characters are cut in the middle first.
pub fn clip(text: &str, budget: Budget, handle: Option<&str>) -> Clipped {
    let mut whole = HeadTail::new(budget);
    whole.push(text);
    whole.render(handle)
}

/// Brings a text that was clipped before within a smaller budget. Its own marker may be in the new gap, so the new
/// one counts nothing.
pub fn clip_again(text: &str, budget: Budget, handle: Option<&str>) -> Clipped {
    let mut whole = HeadTail::new(budget);
    whole.push(text);
    whole.render_with(handle, |gap| format!("[... more is omitted{}]", rest_at(handle, gap.first_line)))
}

/// The omitted part between head and tail.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gap {
    pub lines: u64,
    pub bytes: u64,
    pub first_line: u64,
}

/// Characters set aside for a marker with its line ends.
pub(super) const MARKER_ROOM: usize = 160;
/// A handle longer than this is none of ours; naming it would exceed the space for the marker.
const HANDLE_ROOM: usize = 32;

/// Formats the marker in the gap, without line ends.
pub(super) fn gap_marker(gap: Gap, handle: Option<&str>) -> String {
    format!(
        "[... {} ({}) omitted{}]",
        counted(gap.lines, "line"),
        size(gap.bytes),
        rest_at(handle, gap.first_line)
    )
}

/// Formats the closing marker for a text of which only the middles of long lines are missing.
pub(super) fn long_lines_marker(first_line: u64, handle: Option<&str>) -> Option<String> {
    let rest = rest_at(handle, first_line);
    (!rest.is_empty()).then(|| format!("[... long lines are cut{rest}]"))
}

fn rest_at(handle: Option<&str>, line: u64) -> String {
    match handle.filter(|handle| handle.len() <= HANDLE_ROOM) {
        Some(handle) => format!("; ReadOutput handle=\"{handle}\" offset={line} for the rest"),
        None => String::new(),
    }
}
