//! Detects a file's encoding when it is read, and rejects files that are not text. Not here: the
//! detection itself (`file_content`, `encoding`).

use crate::WorkspacePath;
use crate::encoding::FileEncoding;
use crate::file_content;
pub(super) use crate::file_content::{BinaryContent, SNIFFED_BYTES};
use crate::files::LineEndings;
use punie_text::output::number_format;
use punie_tool::{ErrorCode, ToolError};

/// Returns the encoding of a text file, from its first bytes.
pub(super) fn classify_head(head: &[u8]) -> Result<FileEncoding, BinaryContent> {
    file_content::classify_content(head, false)
}

/// Returns the encoding, or an error if it is not text. `whole` tells that these are all the bytes.
pub(super) fn require_text_encoding(
    path: &WorkspacePath,
    bytes: &[u8],
    size: u64,
    whole: bool,
) -> Result<FileEncoding, ToolError> {
    file_content::classify_content(bytes, whole)
        .map_err(|binary| not_text_error(path, binary, bytes, size))
}

/// Returns the encoding by the head of a big file and the window's bytes together.
pub(super) fn refine_encoding(head: &[u8], window: &[u8], by_head: FileEncoding) -> FileEncoding {
    if by_head.is_utf16() {
        return by_head;
    }
    // A character that the head's end splits is no evidence.
    let whole = match std::str::from_utf8(head) {
        Err(error) if error.error_len().is_none() => &head[..error.valid_up_to()],
        _ => head,
    };
    if by_head.is_utf8()
        && std::str::from_utf8(window).is_ok()
        && std::str::from_utf8(whole).is_ok()
    {
        return by_head;
    }
    FileEncoding::detect(&[whole, b"\n", window].concat(), false)
}

/// Returns the line endings in the head of a file.
pub(super) fn head_line_endings(head: &[u8], encoding: FileEncoding) -> LineEndings {
    if encoding.is_utf16() {
        LineEndings::detect(encoding.decode_lossy(head).0.as_bytes())
    } else {
        LineEndings::detect(head)
    }
}

/// Returns the error for a file that is not text, with its kind, its size, its first bytes and advice.
pub(super) fn not_text_error(
    path: &WorkspacePath,
    binary: BinaryContent,
    head: &[u8],
    size: u64,
) -> ToolError {
    let shown: Vec<String> = head
        .iter()
        .take(64)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let text = format!(
        "{} is not text: it is {}, {}. {}\nThe first {} bytes: {}",
        path.display_text(),
        binary.kind,
        number_format::format_size(size),
        binary.hint,
        shown.len(),
        shown.join(" ")
    );
    ToolError::new(ErrorCode::NotText, text)
}
