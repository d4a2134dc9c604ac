//! Text rendered from a binary format (notebook cells, archive listing), shown by lines like a text file.

use serde::{Deserialize, Serialize};

use super::line_numbers;
use punie_text::output::number_format::{format_count, group_digits};
use punie_text::output::{SecretBoundaries, TextBudget};
use punie_tool::{ResultMeta, ToolReply};

/// Characters reserved for the footer.
const FOOTER_CHARS: usize = 400;

/// The lines to show.
#[derive(Debug, Clone, Copy)]
pub(super) struct LineSelection {
    /// The first line, from 1; negative from the end.
    pub offset: i64,
    pub limit: u64,
    pub budget: TextBudget,
}

/// The noun for a line in messages.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum LineNoun {
    /// `line`.
    #[default]
    Line,
    /// `entry`, of an archive or a folder.
    Entry,
}

/// The rendered text.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct RenderedPage {
    /// The text above the lines, without its line feed.
    pub header: String,
    pub lines: Vec<String>,
    pub line_noun: LineNoun,
    /// The notes below the lines.
    pub notes: Vec<String>,
    /// True if further lines were omitted.
    pub cut_short: bool,
}

impl RenderedPage {
    /// Returns whether its lines are entries.
    pub(super) fn is_listing(&self) -> bool {
        self.line_noun == LineNoun::Entry
    }

    /// Formats the requested lines as an answer.
    pub(super) fn show_lines(
        mut self,
        asked: LineSelection,
        uncut: &SecretBoundaries,
    ) -> ToolReply {
        let total = self.lines.len() as u64;
        let first = match asked.offset {
            ..0 => total.saturating_sub(asked.offset.unsigned_abs()) + 1,
            offset => offset.unsigned_abs().max(1),
        };
        let mut text = self.header;
        text.push('\n');
        let from = usize::try_from(first - 1)
            .unwrap_or(usize::MAX)
            .min(self.lines.len());
        let limit = usize::try_from(asked.limit).unwrap_or(usize::MAX);
        let wanted: String = self
            .lines
            .drain(from..)
            .take(limit)
            .map(|line| shorten_long_line(&line, uncut) + "\n")
            .collect();
        let room = asked
            .budget
            .max_chars()
            .saturating_sub(text.chars().count() + FOOTER_CHARS);
        let body =
            line_numbers::number_lines(&wanted, i64::try_from(first).unwrap_or(i64::MAX), room);
        text.push_str(&body.text);
        let last = first + body.lines - u64::from(body.lines > 0);
        let more = if self.cut_short { "more than " } else { "" };
        let total_shown = group_digits(total);
        let position = if body.lines == 0 && first > 1 {
            let noun = match self.line_noun {
                LineNoun::Line => "line",
                LineNoun::Entry => "entry",
            };
            Some(format!(
                "There is no {noun} {first}: there are {total_shown}."
            ))
        } else if last < total {
            let next = last + 1;
            Some(format!(
                "Showing {first}-{last} of {more}{total_shown}. Continue with offset={next}."
            ))
        } else if first > 1 {
            Some(format!(
                "Showing {first}-{last} of {more}{total_shown}, to the end."
            ))
        } else {
            None
        };
        // What the whole text is need be said once.
        if first > 1 && !self.cut_short {
            self.notes.clear();
        }
        drop(self.notes.splice(0..0, position));
        if !self.notes.is_empty() {
            text.push('\n');
            text.push_str(&self.notes.join("\n"));
            text.push('\n');
        }
        let truncated = self.cut_short || last < total;
        ToolReply::from_fitted_text(text)
            .with_budget(asked.budget)
            .with_meta(ResultMeta {
                truncated,
                ..ResultMeta::default()
            })
    }
}

/// Shortens a line that is too long in its middle.
fn shorten_long_line(line: &str, uncut: &SecretBoundaries) -> String {
    if line.chars().count() <= TextBudget::MAX_LINE_CHARS {
        return line.to_owned();
    }
    let line = uncut.mask_text(line);
    let chars = line.chars().count();
    if chars <= TextBudget::MAX_LINE_CHARS {
        return line.into_owned();
    }
    let half = TextBudget::MAX_LINE_CHARS / 2;
    let head: String = line.chars().take(half).collect();
    let tail: String = line.chars().skip(chars - half).collect();
    format!(
        "{head} [... {} of this line omitted ...] {tail}",
        format_count((chars - 2 * half) as u64, "character")
    )
}

/// Formats an untrusted name on one line, without characters that move the cursor or reverse the
/// text.
pub(super) fn escape_entry_name(bytes: &[u8]) -> String {
    const LONGEST: usize = 4_096;
    let text = String::from_utf8_lossy(bytes);
    let mut shown = String::new();
    for (n, c) in text.chars().enumerate() {
        if n == LONGEST {
            shown.push_str("...");
            break;
        }
        let hidden = matches!(u32::from(c), 0x200B..=0x200F | 0x202A..=0x202E | 0x2060..=0x206F | 0xFEFF | 0xE0000..=0xE007F);
        if c.is_control() || hidden || c == '\u{2028}' || c == '\u{2029}' {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    shown
}
