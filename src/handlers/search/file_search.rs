//! The content search of one file on one thread.

use std::fs::File;
use std::io::{self, Read};
use std::sync::atomic::{AtomicU64, Ordering};

use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use grep_searcher::{BinaryDetection, Encoding, Searcher};

use super::coverage::SearchCoverage;
use super::file_encoding::{encoding_to_decode, has_byte_order_mark, has_nul_at_start};
use super::file_hits::{FileSearchError, LineCollector, MatchDetail};
use super::large_file::LargeFile;
use super::search_plan::{OutputMode, SearchPatterns, SearchPlan};
use super::search_stop::SearchStop;
use super::walk_entry::WalkEntry;
use punie_host::encoding::{FileEncoding as TextEncoding, Utf8Tally};
use punie_host::file_content::is_utf32;
use punie_text::output::SecretBoundaries;

/// Files up to this size are searched in one piece.
const WHOLE_FILE_BYTES: usize = 512 << 10;
/// Most files are smaller than this, and are read without a query for their size.
const FIRST_READ_BYTES: usize = 64 << 10;

/// The searchers and the buffer of one thread.
pub(super) struct FileSearcher<'a> {
    plan: &'a SearchPlan,
    halt: &'a SearchStop,
    patterns: SearchPatterns,
    searcher: Searcher,
    /// Treats NUL bytes as line ends.
    binary_searcher: Searcher,
    /// The same, with the wanted lines, for files that are not in memory as a whole.
    piece_searcher: Searcher,
    buffer: Vec<u8>,
    pub(super) coverage: SearchCoverage,
    /// The number of files with a match so far, on all threads.
    found: &'a AtomicU64,
}

impl<'a> FileSearcher<'a> {
    pub(super) fn new(
        plan: &'a SearchPlan,
        halt: &'a SearchStop,
        patterns: &SearchPatterns,
        found: &'a AtomicU64,
    ) -> Self {
        let lines = plan.mode == OutputMode::Content;
        let build = |lines, binary| plan.build_searcher(lines, binary, None);
        Self {
            plan,
            halt,
            // One copy per thread, because threads would wait for the scratch space of a shared one.
            patterns: patterns.clone(),
            searcher: build(lines, BinaryDetection::none()),
            binary_searcher: build(false, BinaryDetection::convert(0)),
            piece_searcher: build(lines, BinaryDetection::convert(0)),
            buffer: vec![0; WHOLE_FILE_BYTES],
            coverage: SearchCoverage::default(),
            found,
        }
    }

    /// Searches a file. Returns its lines if it matches.
    pub(super) fn search_entry(
        &mut self,
        entry: &WalkEntry<'_>,
    ) -> Result<Option<LineCollector>, FileSearchError> {
        let mut file = entry.open().map_err(|_| FileSearchError::Unreadable)?;
        let read = self.read_beginning(&mut file)?;
        if is_utf32(&self.buffer[..read]) {
            return Err(FileSearchError::Utf32);
        }
        let lines = if read < WHOLE_FILE_BYTES {
            self.search_in_memory(read)?
        } else {
            self.search_large(entry)?
        };
        self.coverage.searched += 1;
        Ok(lines.filter(|lines| lines.matched > 0))
    }

    /// Reads the beginning of a file, which for most files is all of it.
    fn read_beginning(&mut self, file: &mut File) -> Result<usize, FileSearchError> {
        let max = self.plan.max_filesize;
        let mut read = 0;
        let mut ask = FIRST_READ_BYTES;
        while read < WHOLE_FILE_BYTES {
            let n = match file.read(&mut self.buffer[read..ask]) {
                Ok(n) => n,
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return Err(FileSearchError::Unreadable),
            };
            read += n;
            if read as u64 > max {
                return Err(FileSearchError::TooLarge);
            }
            // A regular file returns fewer bytes than asked only at its end.
            if read < ask {
                break;
            }
            if ask == FIRST_READ_BYTES && file.metadata().is_ok_and(|meta| meta.len() > max) {
                return Err(FileSearchError::TooLarge);
            }
            ask = WHOLE_FILE_BYTES;
        }
        Ok(read)
    }

    fn search_in_memory(&mut self, read: usize) -> Result<Option<LineCollector>, FileSearchError> {
        let text = &self.buffer[..read];
        let SearchPatterns {
            exact,
            any_case,
            is_ascii,
        } = &self.patterns;
        let plain = self.plan.encoding.is_none() && !has_byte_order_mark(text);
        if plain
            && *is_ascii
            && !has_nul_at_start(text)
            && !may_match(any_case.as_ref().unwrap_or(exact), text)
        {
            return Ok(None);
        }
        let encoding = plain.then(|| encoding_to_decode(text, true)).flatten();
        let decoded = encoding.map(|encoding| encoding.decode_lossy(text).0);
        let text = decoded.as_ref().map_or(text, |decoded| decoded.as_bytes());
        // One test of the whole text excludes most files. It is not valid for text that the searcher decodes, or for
        // patterns that test for the start or end of the text.
        if plain && (self.plan.multiline || exact.line_terminator().is_some()) {
            match other_case_pattern(&self.patterns, self.found) {
                Some(any_case) if !may_match(any_case, text) => return Ok(None),
                Some(_) if !may_match(exact, text) => {
                    self.coverage.other_case += 1;
                    return Ok(None);
                }
                None if !may_match(exact, text) => return Ok(None),
                _ => {}
            }
        }
        let binary = plain && memchr::memchr(0, text).is_some();
        let detail = if binary {
            MatchDetail::Exists
        } else {
            self.plan.match_detail()
        };
        let mut lines = LineCollector::new(exact.clone(), detail, self.plan.uncut.clone());
        let searched = if binary {
            self.binary_searcher.search_reader(exact, text, &mut lines)
        } else {
            self.searcher.search_slice(exact, text, &mut lines)
        };
        lines.binary |= binary;
        lines.decoded_from = encoding.map(TextEncoding::as_str);
        if !plain
            && lines.matched == 0
            && let Some(any_case) = other_case_pattern(&self.patterns, self.found)
        {
            let uncut = SecretBoundaries::default();
            let mut again = LineCollector::new(any_case.clone(), MatchDetail::Exists, uncut);
            let searched = self.searcher.search_slice(any_case, text, &mut again);
            self.coverage.other_case += u64::from(searched.is_ok() && again.matched > 0);
        }
        searched
            .map(|()| Some(lines))
            .map_err(|_| FileSearchError::Unreadable)
    }

    /// Searches a larger file in chunks. Its beginning is in memory and tells the encoding.
    fn search_large(
        &mut self,
        entry: &WalkEntry<'_>,
    ) -> Result<Option<LineCollector>, FileSearchError> {
        let plain = self.plan.encoding.is_none() && !has_byte_order_mark(&self.buffer);
        let encoding = plain
            .then(|| encoding_to_decode(&self.buffer, false))
            .flatten();
        let mut decoder = encoding.map(|encoding| {
            let by_name = Encoding::new(encoding.as_str()).ok();
            let lines = self.plan.mode == OutputMode::Content;
            self.plan
                .build_searcher(lines, BinaryDetection::convert(0), by_name)
        });
        let searcher = decoder.as_mut().unwrap_or(&mut self.piece_searcher);
        // If the encoding shows only later in the file, a non-ASCII pattern is not found.
        let mut tally =
            (plain && encoding.is_none() && !self.patterns.is_ascii).then(Utf8Tally::default);
        let file = LargeFile {
            plan: self.plan,
            halt: self.halt,
            entry,
        };
        let exact = &self.patterns.exact;
        let detail = self.plan.match_detail();
        let mut lines = file.search_in_chunks(searcher, exact, detail, tally.as_mut())?;
        lines.decoded_from = encoding.map(TextEncoding::as_str);
        if lines.matched == 0
            && let Some(any_case) = other_case_pattern(&self.patterns, self.found)
        {
            let again = file.search_in_chunks(searcher, any_case, MatchDetail::Exists, None)?;
            self.coverage.other_case += u64::from(again.matched > 0);
        }
        let is_text = lines.matched == 0 && !lines.binary;
        self.coverage.not_utf8 +=
            u64::from(is_text && tally.is_some_and(|tally| !tally.is_mostly_utf8()));
        Ok(Some(lines))
    }
}

/// Returns the pattern for any case, while no file matches the exact one.
fn other_case_pattern<'p>(
    patterns: &'p SearchPatterns,
    found: &AtomicU64,
) -> Option<&'p RegexMatcher> {
    let any_case = patterns.any_case.as_ref();
    any_case.filter(|_| found.load(Ordering::Relaxed) == 0)
}

fn may_match(matcher: &RegexMatcher, text: &[u8]) -> bool {
    matcher.is_match(text).unwrap_or(true)
}
