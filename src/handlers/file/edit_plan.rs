//! A planned edit of a file, and the checks and notes that all edit tools share.

use super::seen_files::SeenLines;
use punie_host::files::{FileStamp, NewContent};
use punie_tool::{ErrorCode, ToolError};

/// The largest file that is loaded whole to be edited.
pub(super) const MAX_BYTES: u64 = 64 << 20;
/// The outcome of planning an edit.
#[derive(Debug)]
pub(super) enum EditPlan {
    /// The file stays unchanged: the message that says so, and the file's SHA-256.
    NoChange(String, String),
    Change(PreparedEdit),
}

/// A change and its description.
#[derive(Debug)]
pub(super) struct PreparedEdit {
    /// The changed places.
    pub places: String,
    /// The lines after the edit, or a diff for a dry run.
    pub view: String,
    /// The differences that were tolerated.
    pub notes: Vec<String>,
    pub content: NewContent,
    /// The file's stamp before the edit.
    pub stamp: FileStamp,
    /// The file's lines after the edit, if they are recorded.
    pub lines: SeenLines,
}

/// Appends to an error the changes since the caller read the file, since they may be its cause.
pub(super) fn append_change_note(error: ToolError, changed: Option<&str>) -> ToolError {
    match changed {
        Some(changed) => ToolError::new(
            error.stable_code(),
            format!("{}\n{changed}", error.model_text()),
        ),
        None => error,
    }
}

/// Formats the notes, each on its own line below the message.
pub(super) fn join_notes_below(warnings: &[String]) -> String {
    warnings
        .iter()
        .flat_map(|warning| ["\n", warning.as_str()])
        .collect()
}

/// Refuses a file whose hash is not the expected one.
pub(super) fn check_expected_hash(
    shown: &str,
    expected: Option<&str>,
    hash: impl FnOnce() -> String,
) -> Result<(), ToolError> {
    let Some(expected) = expected else {
        return Ok(());
    };
    let is = hash();
    if is == expected {
        return Ok(());
    }
    let text = format!(
        "{shown} is not what was expected: its SHA-256 is {is}, not {expected}. Nothing was changed. Read it again, \
         then decide."
    );
    Err(ToolError::new(ErrorCode::Stale, text))
}

/// Adds to the error of one edit its number, and the number of the edit that replaced its text.
pub(super) fn number_edit_error(
    error: &ToolError,
    at: usize,
    of: usize,
    replaced: Option<usize>,
) -> ToolError {
    let replaced = replaced.map_or_else(String::new, |before| {
        format!(
            "\nedit {} of this call replaced it: quote the text as that edit leaves it, or join the two edits.",
            before + 1
        )
    });
    let text = format!(
        "Edit {} of {of}: {}{replaced}\nNone of the edits was made.",
        at + 1,
        error.model_text()
    );
    ToolError::new(error.stable_code(), text)
}
