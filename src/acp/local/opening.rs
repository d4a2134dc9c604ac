//! Opens a file for reading, takes its stamp, and creates an empty window of it. Not here: reading.

use std::fs::{File, Metadata};
use std::io;

use sha2::{Digest, Sha256};

use super::near_names;
use crate::acp::WorkspacePath;
use crate::acp::files::{Encoding, Endings, LineTotal, Source, Stamp, TextWindow};
use crate::acp::workspace::in_words;
use crate::ids::hex;
use crate::tool::{ErrorCode, ToolError};

/// Returns the SHA-256 in hex.
pub(super) fn sha256_hex(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Returns the stamp that distinguishes this state of a file from others.
pub(super) fn stamp_of(metadata: &Metadata) -> Stamp {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let nanos = |s: i64, n: i64| i128::from(s) * 1_000_000_000 + i128::from(n);
        Stamp {
            file: (metadata.dev(), metadata.ino()),
            size: metadata.len(),
            modified: nanos(metadata.mtime(), metadata.mtime_nsec()),
            changed: nanos(metadata.ctime(), metadata.ctime_nsec()),
        }
    }
    #[cfg(not(unix))]
    {
        let since = metadata.modified().ok().and_then(|at| at.duration_since(std::time::UNIX_EPOCH).ok());
        let modified = since.map_or(0, |d| i128::try_from(d.as_nanos()).unwrap_or(i128::MAX));
        Stamp { file: (0, 0), size: metadata.len(), modified, changed: 0 }
    }
}

/// Opens a file, with a specific error for every way in which that fails.
pub(super) fn open(path: &WorkspacePath) -> Result<(File, Metadata), ToolError> {
    let opened = path.open_read().and_then(|file| {
        let metadata = file.metadata().map_err(in_words)?;
        Ok((file, metadata))
    });
    opened.map_err(|cause| match cause.kind() {
        io::ErrorKind::NotFound => near_names::missing(path),
        io::ErrorKind::InvalidInput => {
            ToolError::new(ErrorCode::NotText, format!("{} {cause}.", path.shown()))
        }
        io::ErrorKind::IsADirectory => {
            ToolError::new(ErrorCode::IsDirectory, format!("{} is a folder, not a file.", path.shown()))
        }
        _ => ToolError::io(path.shown(), &cause),
    })
}

/// Returns a window of a file on disk, before anything is read.
pub(super) fn blank(size: u64, encoding: Encoding, endings: Endings) -> TextWindow {
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
        source: Source::Disk,
    }
}
