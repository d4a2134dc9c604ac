//! Opens a file for reading, takes its stamp, and creates an empty window of it.

use std::fs::{File, Metadata};
use std::io;

use sha2::{Digest, Sha256};

use super::similar_paths;
use crate::WorkspacePath;
use crate::files::{FileEncoding, FileStamp, LineEndings, LineTotal, TextSource, TextWindow};
use crate::workspace::explain_io_error;
use punie_core::ids::to_hex;
use punie_tool::{ErrorCode, ToolError};

/// Returns the SHA-256 in hex.
pub(super) fn sha256_hex(bytes: &[u8]) -> String {
    to_hex(&Sha256::digest(bytes))
}

/// Returns the stamp that distinguishes this state of a file from others.
pub(super) fn file_stamp(metadata: &Metadata) -> FileStamp {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let nanos = |s: i64, n: i64| i128::from(s) * 1_000_000_000 + i128::from(n);
        FileStamp {
            file: (metadata.dev(), metadata.ino()),
            size: metadata.len(),
            modified: nanos(metadata.mtime(), metadata.mtime_nsec()),
            changed: nanos(metadata.ctime(), metadata.ctime_nsec()),
        }
    }
    #[cfg(not(unix))]
    {
        let since = metadata
            .modified()
            .ok()
            .and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
        let modified = since.map_or(0, |d| i128::try_from(d.as_nanos()).unwrap_or(i128::MAX));
        FileStamp {
            file: (0, 0),
            size: metadata.len(),
            modified,
            changed: 0,
        }
    }
}

/// Opens a file, with a specific error for every way in which that fails.
pub(super) fn open_to_read(path: &WorkspacePath) -> Result<(File, Metadata), ToolError> {
    let opened = path.open_for_reading().and_then(|file| {
        let metadata = file.metadata().map_err(explain_io_error)?;
        Ok((file, metadata))
    });
    opened.map_err(|cause| match cause.kind() {
        io::ErrorKind::NotFound => similar_paths::missing_path_error(path),
        io::ErrorKind::InvalidInput => ToolError::new(
            ErrorCode::NotText,
            format!("{} {cause}.", path.display_text()),
        ),
        io::ErrorKind::IsADirectory => ToolError::new(
            ErrorCode::IsDirectory,
            format!("{} is a folder, not a file.", path.display_text()),
        ),
        _ => ToolError::from_io(path.display_text(), &cause),
    })
}

/// Returns a window of a file on disk, before anything is read.
pub(super) fn empty_window(size: u64, encoding: FileEncoding, endings: LineEndings) -> TextWindow {
    TextWindow {
        text: String::new(),
        first: 1,
        lines: 0,
        total: LineTotal::MoreThan(0),
        at_end: false,
        stopped_in_line: false,
        size,
        encoding,
        endings,
        sha256: None,
        changed: false,
        lossy: 0,
        invalid_bytes: 0,
        control: 0,
        omitted_bytes: 0,
        first_cut: None,
        back: 0,
        source: TextSource::Disk,
    }
}
