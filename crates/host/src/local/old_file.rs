//! The file that a write replaces: its content as far as the write needs it, and the condition of the write.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{self, Read};

use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use super::file_open::file_stamp;
use super::text_detection;
use crate::WorkspacePath;
use crate::encoding::Utf8Tally;
use crate::files::{FileStamp, NewContent, WritePrecondition, WriteTextFile};
use crate::workspace::FolderHandle;
use punie_core::durable::allow_missing;
use punie_core::ids::to_hex;
use punie_text::output::number_format;
use punie_tool::{ErrorCode, ToolError};

/// A file up to this size is compared with the new content; a bigger one is only hashed.
const MAX_COMPARED_BYTES: u64 = 64 << 20;

/// The target file before the write.
pub(super) struct OldFile {
    pub file: File,
    pub metadata: Metadata,
    pub stamp: FileStamp,
    /// The whole content, or its beginning if the file is too big to hold.
    pub bytes: Vec<u8>,
    pub whole: bool,
    pub sha256: Option<String>,
    /// The number of bytes that are not UTF-8.
    pub invalid: u64,
}

/// Opens the existing file, if any, and reads as much of it as the write needs.
pub(super) fn inspect_old_file(
    folder: &FolderHandle,
    name: &OsStr,
    request: &WriteTextFile,
    cancel: &CancellationToken,
) -> Result<Option<OldFile>, ToolError> {
    let shown = request.path.display_text();
    let failed = |cause: io::Error| request.path.access_error(cause);
    let Some(file) = allow_missing(folder.open_entry_file(name)).map_err(failed)? else {
        return Ok(None);
    };
    let metadata = file.metadata().map_err(failed)?;
    if metadata.is_dir() {
        return Err(ToolError::new(
            ErrorCode::IsDirectory,
            format!("{shown} is a folder. Give the path of a file."),
        ));
    }
    if !metadata.is_file() {
        let text =
            format!("{shown} is a FIFO, a socket or a device. Only regular files are written.");
        return Err(ToolError::new(ErrorCode::PermissionDenied, text));
    }
    let stamp = file_stamp(&metadata);
    let mut old = OldFile {
        file,
        metadata,
        stamp,
        bytes: Vec::new(),
        whole: false,
        sha256: None,
        invalid: 0,
    };
    // Content loaded for an edit is not read again while the file's stamp is unchanged.
    let is_loaded =
        matches!(&request.only_if, WritePrecondition::AsLoaded(loaded) if *loaded == stamp);
    if is_loaded && matches!(request.content, NewContent::Spliced { .. }) {
        return Ok(Some(old));
    }
    read_old_content(&mut old, &request.path, cancel)?;
    Ok(Some(old))
}

/// Reads and hashes the whole file, and holds its content unless it is too big.
fn read_old_content(
    old: &mut OldFile,
    path: &WorkspacePath,
    cancel: &CancellationToken,
) -> Result<(), ToolError> {
    let mut hasher = Sha256::new();
    let mut tally = Utf8Tally::default();
    let mut buffer = vec![0; 256 << 10];
    old.whole = old.stamp.size <= MAX_COMPARED_BYTES;
    let most_held = if old.whole {
        MAX_COMPARED_BYTES
    } else {
        text_detection::SNIFFED_BYTES as u64
    };
    loop {
        if cancel.is_cancelled() {
            return Err(write_cancelled_error(&path.display_text()));
        }
        let n = (&old.file)
            .read(&mut buffer)
            .map_err(|cause| path.access_error(cause))?;
        if n == 0 {
            break;
        }
        hasher.update(&buffer[..n]);
        tally.count_piece(&buffer[..n]);
        if (old.bytes.len() as u64) < most_held {
            old.bytes.extend_from_slice(&buffer[..n]);
        }
    }
    old.invalid = tally.invalid_bytes();
    old.sha256 = Some(to_hex(&hasher.finalize()));
    Ok(())
}

/// Checks the condition of the write against the existing file.
pub(super) fn check_old_file(
    request: &WriteTextFile,
    old: Option<&OldFile>,
    shown: &str,
) -> Result<(), ToolError> {
    match (&request.only_if, old) {
        (WritePrecondition::None, _) | (WritePrecondition::Absent, None) => Ok(()),
        (WritePrecondition::Absent, Some(old)) => {
            let size = number_format::format_size(old.stamp.size);
            Err(stale_write_error(
                shown,
                &format!("exists already ({size}), and overwrite is \"never\""),
            ))
        }
        (WritePrecondition::Content(_) | WritePrecondition::AsLoaded(_), None) => {
            Err(stale_write_error(shown, "does not exist any more"))
        }
        (WritePrecondition::Content(expected), Some(old)) => {
            let is = old.sha256.as_deref().unwrap_or_default();
            if is.eq_ignore_ascii_case(expected) {
                return Ok(());
            }
            Err(stale_write_error(
                shown,
                &format!("is not what was expected: its SHA-256 is {is}, not {expected}"),
            ))
        }
        (WritePrecondition::AsLoaded(stamp), Some(old)) => {
            // The file may have been touched but have the same bytes, so no change is lost.
            let has_same_bytes = matches!(&request.content, NewContent::Spliced { old: loaded, .. }
                if old.whole && old.bytes == **loaded);
            if *stamp == old.stamp || has_same_bytes {
                return Ok(());
            }
            Err(stale_write_error(shown, "was changed meanwhile"))
        }
    }
}

/// Builds the error of a write that was cancelled.
pub(super) fn write_cancelled_error(shown: &str) -> ToolError {
    ToolError::call_cancelled(format!(
        "Writing {shown} was cancelled before anything was changed."
    ))
}

/// Builds the error of a write whose file is not as it was expected.
pub fn stale_write_error(shown: &str, what: &str) -> ToolError {
    ToolError::new(
        ErrorCode::Stale,
        format!("{shown} {what}. Nothing was written. Read it again, then decide."),
    )
}
