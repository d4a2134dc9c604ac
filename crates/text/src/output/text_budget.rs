//! Budget and clip: the first 40 % and the last 60 % of a text, cut on lines, then on characters.

use super::HeadTail;
use super::number_format::{format_count, format_size};

/// The number of characters that one result may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextBudget(usize);

impl TextBudget {
    /// The default: 30,000 characters.
    pub const DEFAULT_CHARS: usize = 30_000;
    /// The least and the most that a call may ask for.
    pub const ALLOWED_CHARS: std::ops::RangeInclusive<usize> = 1_000..=200_000;
    /// A line longer than this is cut in the middle.
    pub const MAX_LINE_CHARS: usize = 2_000;

    /// The budget a call asked for, brought into the allowed range.
    pub fn from_requested(asked: Option<u64>) -> Self {
        let asked = asked.map_or(Self::DEFAULT_CHARS, |n| {
            usize::try_from(n).unwrap_or(usize::MAX)
        });
        Self(asked.clamp(*Self::ALLOWED_CHARS.start(), *Self::ALLOWED_CHARS.end()))
    }

    /// In characters.
    pub fn max_chars(self) -> usize {
        self.0
    }
}

impl Default for TextBudget {
    fn default() -> Self {
        Self(Self::DEFAULT_CHARS)
    }
}

/// A text brought within a budget.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClippedText {
    /// The head, the marker and the tail; or the whole text.
    pub text: String,
    /// Lines that the gap between head and tail touches; one that is shown in part counts.
    pub omitted_lines: u64,
    /// Bytes left out, in long lines too. 0 means nothing was.
    pub omitted_bytes: u64,
}

impl ClippedText {
    /// Returns whether nothing was left out.
    pub fn is_whole(&self) -> bool {
        self.omitted_bytes == 0
    }
}

/// Brings a text within the budget; `handle` is where the whole is kept.
///
/// The marker is paid from the budget, so the result is never over it, and never longer than a text of which
/// something was left out. Lines over [`TextBudget::MAX_LINE_CHARS`] characters are cut in the middle first.
pub fn clip_to_budget(text: &str, budget: TextBudget, handle: Option<&str>) -> ClippedText {
    let mut whole = HeadTail::new(budget);
    whole.push(text);
    whole.render_clipped(handle)
}

/// Brings a text that was clipped before within a smaller budget. Its own marker may be in the new gap, so the new
/// one counts nothing.
pub fn clip_further(text: &str, budget: TextBudget, handle: Option<&str>) -> ClippedText {
    let mut whole = HeadTail::new(budget);
    whole.push(text);
    whole.render_with_marker(handle, |gap| {
        format!(
            "[... more is omitted{}]",
            read_rest_hint(handle, gap.first_line)
        )
    })
}

/// The omitted part between head and tail.
#[derive(Debug, Clone, Copy)]
pub(super) struct OmittedGap {
    pub lines: u64,
    pub bytes: u64,
    pub first_line: u64,
}

/// Characters set aside for a marker with its line ends.
pub(super) const MARKER_CHARS: usize = 160;
/// A handle longer than this is none of ours; naming it would exceed the space for the marker.
const MAX_HANDLE_BYTES: usize = 32;

/// Formats the marker in the gap, without line ends.
pub(super) fn gap_marker(gap: OmittedGap, handle: Option<&str>) -> String {
    format!(
        "[... {} ({}) omitted{}]",
        format_count(gap.lines, "line"),
        format_size(gap.bytes),
        read_rest_hint(handle, gap.first_line)
    )
}

/// Formats the closing marker for a text of which only the middles of long lines are missing.
pub(super) fn long_lines_marker(first_line: u64, handle: Option<&str>) -> Option<String> {
    let rest = read_rest_hint(handle, first_line);
    (!rest.is_empty()).then(|| format!("[... long lines are cut{rest}]"))
}

fn read_rest_hint(handle: Option<&str>, line: u64) -> String {
    match handle.filter(|handle| handle.len() <= MAX_HANDLE_BYTES) {
        Some(handle) => format!("; ReadOutput handle=\"{handle}\" offset={line} for the rest"),
        None => String::new(),
    }
}
