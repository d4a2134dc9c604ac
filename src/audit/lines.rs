//! The lines of the file, one by one, none of them longer than any row can be.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};

/// No row is longer: its texts are bounded, and escaped each character takes six bytes at most.
pub(super) const LONGEST: u64 = 64 << 10;

/// Reads a file line by line.
pub(super) struct Lines {
    from: BufReader<File>,
}

/// One line, without its end.
pub(super) struct Line {
    pub bytes: Vec<u8>,
    /// Whether it has an end. One without is the last, and what a crash leaves.
    pub is_whole: bool,
}

impl Lines {
    pub(super) fn of(file: File) -> Self {
        Self { from: BufReader::with_capacity(256 << 10, file) }
    }
}

impl Iterator for Lines {
    type Item = io::Result<Line>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut bytes = Vec::with_capacity(512);
        match self.from.by_ref().take(LONGEST).read_until(b'\n', &mut bytes) {
            Ok(0) => None,
            Ok(_) => {
                let is_whole = bytes.last() == Some(&b'\n');
                if is_whole {
                    bytes.pop();
                }
                Some(Ok(Line { bytes, is_whole }))
            }
            Err(error) => Some(Err(error)),
        }
    }
}
