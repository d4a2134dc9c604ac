//! Indexes the lines of a big file with one count for each mebibyte. The next page then costs a scan of a mebibyte, not
//! of the file. The scanned bytes are hashed on the way. In files too big to hash, holes are skipped: no line ends in
//! them.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use sha2::{Digest, Sha256};
use tokio_util::sync::CancellationToken;

use super::line_feed::LineFeed;
use super::sparse_file::find_data;
use punie_core::ids::to_hex;

/// The bytes between two stored counts.
const STEP_BYTES: u64 = 1 << 20;
/// So many bytes are read at once.
pub const READ_CHUNK_BYTES: usize = 256 << 10;

/// Reads until the buffer is full or the file ends; gives the number of bytes.
///
/// # Errors
/// Those of the file, interruptions apart.
pub fn read_full(file: &mut dyn Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(cause) if cause.kind() == io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(cause),
        }
    }
    Ok(filled)
}

/// Reads at an offset until the buffer is full or the file ends.
pub fn read_at_offset(mut file: &File, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
    file.seek(SeekFrom::Start(offset))?;
    read_full(&mut file, buffer)
}

/// The reason why a scan did not find its line.
#[derive(Debug)]
pub enum LineMiss {
    /// The file has fewer lines.
    PastEnd,
    /// The scan reached its bound.
    TooFar,
    /// The scan was stopped.
    Cancelled,
    /// The file could not be read.
    Io(io::Error),
}

impl From<io::Error> for LineMiss {
    fn from(cause: io::Error) -> Self {
        Self::Io(cause)
    }
}

/// A file and the bounds of a scan.
#[derive(Debug)]
pub struct LineScan<'a> {
    /// The file.
    pub file: &'a File,
    /// Its size. Read once: bytes appended later are not scanned.
    pub size: u64,
    /// The offset at which every scan from the start ends.
    pub reach: u64,
    /// The end of a line.
    pub feed: LineFeed,
    /// The file is hashed on the way, holes and all.
    pub is_hashed: bool,
    /// Stops the scan.
    pub cancel: &'a CancellationToken,
}

/// The line feeds before every mebibyte, as far as the file was scanned.
#[derive(Debug, Clone, Default)]
pub struct LineIndex {
    before: Vec<u64>,
    newlines: u64,
    scanned: u64,
    ends_in_newline: bool,
    hasher: Sha256,
}

impl LineIndex {
    /// Returns the number of lines, if the file was scanned to its end.
    pub fn known_count(&self, size: u64) -> Option<u64> {
        (self.scanned >= size).then(|| self.newlines + u64::from(size > 0 && !self.ends_in_newline))
    }

    /// Returns the SHA-256 of the whole file in hex, if it was scanned to its end and is not too big to hash.
    pub fn known_sha256(&self, scan: &LineScan<'_>) -> Option<String> {
        (scan.is_hashed && self.scanned >= scan.size)
            .then(|| to_hex(&self.hasher.clone().finalize()))
    }

    /// Returns whether it covers more of the same file.
    pub fn is_ahead_of(&self, other: &Self) -> bool {
        self.scanned > other.scanned
    }

    /// Returns the number of whole lines seen.
    pub fn seen_count(&self) -> u64 {
        self.newlines
    }

    /// Counts the lines to the file's end.
    pub fn count_to_end(&mut self, scan: &LineScan<'_>) -> Result<u64, LineMiss> {
        let mut buffer = Vec::new();
        while self.scanned < scan.size {
            self.scan_next_step(scan, &mut buffer)?;
        }
        Ok(self.newlines + u64::from(scan.size > 0 && !self.ends_in_newline))
    }

    /// Returns the offset at which a line (from 1) begins.
    pub fn find(&mut self, scan: &LineScan<'_>, line: u64) -> Result<u64, LineMiss> {
        let target = line.saturating_sub(1);
        if target == 0 {
            return if scan.size == 0 {
                Err(LineMiss::PastEnd)
            } else {
                Ok(0)
            };
        }
        let mut buffer = Vec::new();
        while self.newlines < target && self.scanned < scan.size {
            if self.scanned >= scan.reach {
                return Err(LineMiss::TooFar);
            }
            self.scan_next_step(scan, &mut buffer)?;
        }
        if self.newlines < target {
            return Err(LineMiss::PastEnd);
        }
        let step = self.before.partition_point(|before| *before < target) - 1;
        let mut left = target - self.before[step];
        let mut at = step as u64 * STEP_BYTES;
        buffer.resize(READ_CHUNK_BYTES, 0);
        loop {
            let n = read_at_offset(scan.file, at, &mut buffer)?;
            if n == 0 {
                return Err(LineMiss::PastEnd);
            }
            for end in scan.feed.feed_ends(&buffer[..n]) {
                left -= 1;
                if left == 0 {
                    let start = at + end as u64;
                    return if start < scan.size {
                        Ok(start)
                    } else {
                        Err(LineMiss::PastEnd)
                    };
                }
            }
            at += n as u64;
        }
    }

    /// Scans one more step, or skips all steps within one hole.
    fn scan_next_step(
        &mut self,
        scan: &LineScan<'_>,
        buffer: &mut Vec<u8>,
    ) -> Result<(), LineMiss> {
        if scan.cancel.is_cancelled() {
            return Err(LineMiss::Cancelled);
        }
        // If the file has grown since, its last step was not a whole one. Such a file is not hashed.
        if !self.scanned.is_multiple_of(STEP_BYTES)
            && let Some(before) = self.before.pop()
        {
            self.newlines = before;
            self.scanned = self.before.len() as u64 * STEP_BYTES;
        }
        let mut at = self.scanned;
        if !scan.is_hashed {
            let data = find_data(scan.file, at, scan.size);
            if self.skip_sparse_steps(data, scan) {
                return Ok(());
            }
            at = data / scan.feed.code_unit_bytes() * scan.feed.code_unit_bytes();
        }
        buffer.resize(READ_CHUNK_BYTES, 0);
        let before = self.newlines;
        let end = (self.scanned + STEP_BYTES).min(scan.size);
        let mut newlines = before;
        while at < end {
            let want = usize::try_from(end - at)
                .unwrap_or(READ_CHUNK_BYTES)
                .min(READ_CHUNK_BYTES);
            let n = read_at_offset(scan.file, at, &mut buffer[..want])?;
            if n == 0 {
                let text = "the file became shorter while it was read";
                return Err(LineMiss::Io(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    text,
                )));
            }
            newlines += scan.feed.count_feeds(&buffer[..n]);
            if scan.is_hashed {
                self.hasher.update(&buffer[..n]);
            }
            self.ends_in_newline = scan.feed.ends_with_feed(&buffer[..n]);
            at += n as u64;
        }
        self.before.push(before);
        self.newlines = newlines;
        self.scanned = end;
        Ok(())
    }

    /// Skips the steps that end before the next data; returns false if there are none.
    fn skip_sparse_steps(&mut self, data: u64, scan: &LineScan<'_>) -> bool {
        let from = self.scanned;
        while self.scanned < scan.size.min(scan.reach) {
            let end = (self.scanned + STEP_BYTES).min(scan.size);
            if end > data {
                break;
            }
            self.before.push(self.newlines);
            self.scanned = end;
        }
        let passed = self.scanned > from;
        self.ends_in_newline &= !passed;
        passed
    }
}

/// Finds the beginning of the last `lines` lines, backwards from the end, with their true number. None when they reach
/// further back than `reach`.
pub fn find_last_lines(
    scan: &LineScan<'_>,
    lines: u64,
    reach: u64,
) -> Result<Option<(u64, u64)>, LineMiss> {
    // Half a unit at the end belongs to the last line.
    let mut end = scan.size / scan.feed.code_unit_bytes() * scan.feed.code_unit_bytes();
    let mut found = 0;
    // The first read is small, because most tails are.
    let mut buffer = vec![0; 32 << 10];
    while end > 0 {
        if scan.cancel.is_cancelled() {
            return Err(LineMiss::Cancelled);
        }
        if scan.size - end >= reach {
            return Ok(None);
        }
        let start = end.saturating_sub(buffer.len() as u64);
        let want = usize::try_from(end - start).unwrap_or(buffer.len());
        let hole = find_data(scan.file, start, end) == end;
        let n = if hole {
            0
        } else {
            read_at_offset(scan.file, start, &mut buffer[..want])?
        };
        for behind in scan.feed.feed_ends(&buffer[..n]).rev() {
            let next = start + behind as u64;
            // The newline at the file's end begins no line.
            if next == scan.size {
                continue;
            }
            found += 1;
            if found == lines {
                return Ok(Some((next, lines)));
            }
        }
        end = start;
        buffer.resize(READ_CHUNK_BYTES, 0);
    }
    Ok(Some((0, found + u64::from(scan.size > 0))))
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;

    /// A file so large is not hashed.
    const HASHED: u64 = 100 << 20;

    fn file_of(bytes: &[u8]) -> File {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn every_line_is_found_from_both_ends(
            lens in prop::collection::vec(0_usize..60_000, 1..90),
            final_newline: bool,
        ) {
            let mut text = Vec::new();
            let mut starts = Vec::new();
            for (at, len) in lens.iter().enumerate() {
                starts.push(text.len() as u64);
                text.resize(text.len() + len, b'x');
                if final_newline || at + 1 < lens.len() {
                    text.push(b'\n');
                }
            }
            if starts.last() == Some(&(text.len() as u64)) {
                starts.pop();
            }
            let file = file_of(&text);
            let cancel = CancellationToken::new();
            let scan = LineScan { file: &file, size: text.len() as u64, reach: u64::MAX, feed: LineFeed::Byte, is_hashed: true, cancel: &cancel };
            let mut index = LineIndex::default();
            for at in [starts.len() / 2, 0, starts.len().saturating_sub(1)] {
                if let Some(start) = starts.get(at) {
                    prop_assert_eq!(index.find(&scan, at as u64 + 1).unwrap(), *start);
                    let back = (starts.len() - at) as u64;
                    prop_assert_eq!(find_last_lines(&scan, back, u64::MAX).unwrap(), Some((*start, back)));
                }
            }
            prop_assert!(matches!(index.find(&scan, starts.len() as u64 + 1), Err(LineMiss::PastEnd)));
            prop_assert_eq!(index.count_to_end(&scan).unwrap(), starts.len() as u64);
        }
    }

    /// Creates a file with these pieces at their offsets and holes in between, and returns the starts of its lines.
    fn sparse(size: u64, pieces: &[(u64, Vec<u8>)], feed: LineFeed) -> (File, Vec<u64>) {
        let mut file = tempfile::tempfile().unwrap();
        file.set_len(size).unwrap();
        let mut starts = vec![0];
        for (at, bytes) in pieces {
            file.seek(SeekFrom::Start(*at)).unwrap();
            file.write_all(bytes).unwrap();
            starts.extend(feed.feed_ends(bytes).map(|end| at + end as u64));
        }
        starts.retain(|start| *start < size);
        (file, starts)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn holes_are_passed_over(
            gaps in prop::collection::vec((0_u64..4_000, prop::collection::vec(0_usize..6_000, 0..12), any::<bool>()), 0..9),
            rest in 0_u64..9_000,
            feed in prop::sample::select(vec![LineFeed::Byte, LineFeed::Utf16Le, LineFeed::Utf16Be]),
        ) {
            let newline: &[u8] = match feed {
                LineFeed::Byte => b"\n",
                LineFeed::Utf16Le => b"\n\0",
                LineFeed::Utf16Be => b"\0\n",
            };
            let mut pieces = Vec::new();
            let mut at = 0;
            for (blocks, lines, closed) in &gaps {
                at += blocks * 4_096;
                let mut bytes: Vec<u8> = Vec::new();
                for length in lines {
                    bytes.extend(std::iter::repeat_n(b'x', length / 2 * 2).chain(newline.iter().copied()));
                }
                if !closed {
                    bytes.extend(b"xx");
                }
                let behind = at + bytes.len() as u64;
                pieces.push((at, bytes));
                at = behind.next_multiple_of(4_096);
            }
            // The file ends with a piece, or with a hole, and is too big to be hashed.
            let behind = pieces.last().map_or(0, |(at, bytes)| at + bytes.len() as u64);
            let size = if rest < 3_000 { behind } else { behind + rest };
            let shift = (HASHED + 4_096 - size.min(HASHED)) / 4_096 * 4_096;
            for (at, _) in &mut pieces {
                *at += shift;
            }
            let size = size + shift;
            let (file, starts) = sparse(size, &pieces, feed);
            let cancel = CancellationToken::new();
            let scan = LineScan { file: &file, size, reach: u64::MAX, feed, is_hashed: false, cancel: &cancel };
            let mut index = LineIndex::default();
            for at in [starts.len() - 1, starts.len() / 2, 0] {
                prop_assert_eq!(index.find(&scan, at as u64 + 1).unwrap(), starts[at]);
                let back = (starts.len() - at) as u64;
                if size.is_multiple_of(feed.code_unit_bytes()) {
                    prop_assert_eq!(find_last_lines(&scan, back, u64::MAX).unwrap(), Some((starts[at], back)));
                }
            }
            prop_assert!(matches!(index.find(&scan, starts.len() as u64 + 1), Err(LineMiss::PastEnd)));
            prop_assert_eq!(index.count_to_end(&scan).unwrap(), starts.len() as u64);
            let near = LineScan { reach: 64 << 20, ..scan };
            let mut index = LineIndex::default();
            for (at, start) in starts.iter().enumerate().filter(|(_, start)| **start > near.reach + STEP_BYTES) {
                prop_assert!(matches!(index.find(&near, at as u64 + 1), Err(LineMiss::TooFar)), "{}", start);
            }
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_hole_is_not_read() {
        let read_here = || {
            let counts = File::options()
                .read(true)
                .open("/proc/thread-self/io")
                .unwrap();
            let counts = io::read_to_string(counts).unwrap();
            counts
                .lines()
                .find_map(|line| line.strip_prefix("rchar: "))
                .unwrap()
                .parse::<u64>()
                .unwrap()
        };
        let size = 40 << 30;
        let pieces = [
            (0, b"first\n".to_vec()),
            (20 << 30, b"x\n".repeat(50_000)),
            (size - 5, b"last\n".to_vec()),
        ];
        let (file, starts) = sparse(size, &pieces, LineFeed::Byte);
        let cancel = CancellationToken::new();
        let scan = LineScan {
            file: &file,
            size,
            reach: u64::MAX,
            feed: LineFeed::Byte,
            is_hashed: false,
            cancel: &cancel,
        };
        let before = read_here();
        let mut index = LineIndex::default();
        for at in [30_000, 50_001] {
            assert_eq!(index.find(&scan, at as u64 + 1).unwrap(), starts[at]);
        }
        assert_eq!(index.count_to_end(&scan).unwrap(), starts.len() as u64);
        assert_eq!(find_last_lines(&scan, 2, 1 << 30).unwrap(), None);
        let read = read_here() - before;
        assert!(
            read < 16 << 20,
            "{read} bytes were read of a file that has hardly any"
        );
    }

    #[test]
    fn a_file_that_grows_is_scanned_on() {
        let cancel = CancellationToken::new();
        let mut index = LineIndex::default();
        let mut text = Vec::new();
        for more in [
            b"x\n".repeat(700_000),
            vec![b'y'; 1 << 20],
            Vec::new(),
            b"\nz".to_vec(),
        ] {
            text.extend(more);
            let file = file_of(&text);
            let size = text.len() as u64;
            let feed = LineFeed::Byte;
            let scan = LineScan {
                file: &file,
                size,
                reach: u64::MAX,
                feed,
                is_hashed: false,
                cancel: &cancel,
            };
            let lines = text.split_inclusive(|byte| *byte == b'\n').count() as u64;
            assert_eq!(index.count_to_end(&scan).unwrap(), lines);
            let last = text[..text.len() - 1]
                .iter()
                .rposition(|byte| *byte == b'\n')
                .unwrap() as u64
                + 1;
            assert_eq!(index.find(&scan, lines).unwrap(), last);
            assert_eq!(index.find(&scan, 600_000).unwrap(), 2 * 599_999);
        }
    }

    #[test]
    fn a_bounded_scan_stops_at_its_bound() {
        let file = file_of(&vec![b'x'; 3 << 20]);
        let cancel = CancellationToken::new();
        let scan = LineScan {
            file: &file,
            size: 3 << 20,
            reach: 1 << 20,
            feed: LineFeed::Byte,
            is_hashed: true,
            cancel: &cancel,
        };
        assert!(matches!(
            LineIndex::default().find(&scan, 2),
            Err(LineMiss::TooFar)
        ));
        assert_eq!(find_last_lines(&scan, 2, 1 << 20).unwrap(), None);
        cancel.cancel();
        assert!(matches!(
            LineIndex::default().find(&scan, 2),
            Err(LineMiss::Cancelled)
        ));
    }
}
