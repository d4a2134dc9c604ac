//! The error for a hunk without a place, or with more than one.

use super::Hunk;
use super::hunk_candidates::PatchedLines;
use crate::file::no_match_hint;
use punie_text::output::SecretBoundaries;
use punie_tool::ErrorCode;

/// Places named in an answer.
const MAX_NAMED: usize = 8;

/// The reason for which a hunk has no place.
#[derive(Debug)]
pub(crate) struct HunkPlacementError {
    pub code: ErrorCode,
    /// A sentence that begins with the hunk's number.
    pub text: String,
}

impl HunkPlacementError {
    pub(super) fn no_match(text: String) -> Self {
        Self {
            code: ErrorCode::NoMatch,
            text,
        }
    }

    pub(super) fn ambiguous(text: String) -> Self {
        Self {
            code: ErrorCode::Ambiguous,
            text,
        }
    }
}

/// The name of a hunk in answers.
pub(super) fn hunk_name(hunk: &Hunk, number: usize) -> String {
    format!("Hunk {number} (line {} of the patch)", hunk.line)
}

/// The error for a hunk that matches at several places.
pub(super) fn ambiguous_hunk(
    name: &str,
    starts: &[usize],
    note: Option<&str>,
) -> HunkPlacementError {
    let mut lines: Vec<String> = starts
        .iter()
        .take(MAX_NAMED)
        .map(|start| (start + 1).to_string())
        .collect();
    if starts.len() > MAX_NAMED {
        lines.push(format!("and {} more", starts.len() - MAX_NAMED));
    }
    let note = note.map_or_else(String::new, |note| format!(" ({note})"));
    HunkPlacementError::ambiguous(format!(
        "{name} fits at {} places: lines {}{note}. Add lines of context to it, or a line `@@ TEXT` with the text of a \
         line that stands above the right place.",
        starts.len(),
        lines.join(", ")
    ))
}

/// The error for a hunk whose lines are not in the file.
pub(super) fn unmatched_hunk(
    file: &PatchedLines<'_>,
    hunk: &Hunk,
    name: &str,
    uncut: &SecretBoundaries,
) -> HunkPlacementError {
    let lines = hunk.old_lines();
    let lines = lines
        .iter()
        .map(|line| line.strip_suffix(b"\n").unwrap_or(line));
    let old: Vec<u8> = lines.flat_map(|line| [line, b"\n"].concat()).collect();
    let text = &file.table.text[file.table.start_of(0)..];
    let why = match no_match_hint::explain_unmatched_quote(
        text,
        &String::from_utf8_lossy(&old),
        uncut,
    ) {
        Some(why) => format!(
            "Below, old_string is what the hunk says stands in the file: its context and - lines.\n{why}"
        ),
        None => "Nothing in the file is like it. Read the file and write the hunk anew.".to_owned(),
    };
    HunkPlacementError::no_match(format!(
        "{name}: its context and - lines are not in the file. {why}"
    ))
}
