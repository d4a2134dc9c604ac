//! Reads the file line by line, with a limit that no row exceeds.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};

/// The most bytes of a row: its texts are bounded, and an escaped character takes at most six bytes.
pub(super) const MAX_LINE_BYTES: u64 = 64 << 10;

/// An iterator over a file's lines.
pub(super) struct AuditLineReader {
    from: BufReader<File>,
}

/// One line, without its line end.
pub(super) struct AuditLine {
    pub bytes: Vec<u8>,
    /// The line has an end. A line without one is the last, as a crash leaves it.
    pub is_complete: bool,
}

impl AuditLineReader {
    pub(super) fn from_file(file: File) -> Self {
        Self {
            from: BufReader::with_capacity(256 << 10, file),
        }
    }
}

impl Iterator for AuditLineReader {
    type Item = io::Result<AuditLine>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut bytes = Vec::with_capacity(512);
        match self
            .from
            .by_ref()
            .take(MAX_LINE_BYTES)
            .read_until(b'\n', &mut bytes)
        {
            Ok(0) => None,
            Ok(_) => {
                let is_whole = bytes.last() == Some(&b'\n');
                if is_whole {
                    bytes.pop();
                }
                Some(Ok(AuditLine {
                    bytes,
                    is_complete: is_whole,
                }))
            }
            Err(error) => Some(Err(error)),
        }
    }
}
