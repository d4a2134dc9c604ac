//! The content search through many files: the work of each thread, and the merged result. Not here: the tool's
//! arguments, the lines of one file, and the answer.

use std::cmp::Reverse;
use std::fs::File;
use std::io::{self, Read};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use grep_matcher::Matcher;
use grep_regex::RegexMatcher;
use grep_searcher::{BinaryDetection, Encoding, MmapChoice, Searcher, SearcherBuilder};

use super::coverage::SearchCoverage;
use super::file_encoding::{encoding_to_decode, has_byte_order_mark, has_nul_at_start};
use super::file_glob::FileGlob;
use super::file_hits::{FileHits, FileSearchError, LineCollector, MatchDetail};
use super::folder_entries::WalkEntryKind;
use super::folder_walk::{WalkControl, WalkEntry};
use super::grep::{Order, OutputMode};
use super::large_file::LargeFile;
use super::search_scope::{MatchAction, SearchHandler, SearchScope};
use super::search_stop::SearchStop;
use super::smallest_items::{SmallestItems, lock_ignoring_poison};
use crate::acp::encoding::{FileEncoding as TextEncoding, Utf8Tally};
use crate::acp::file_content::is_utf32;
use crate::output::SecretBoundaries;

/// The largest chunk in memory. A longer line cannot be searched.
const MAX_CHUNK_BYTES: usize = 64 << 20;
/// Files up to this size are searched in one piece.
const WHOLE_FILE_BYTES: usize = 512 << 10;
/// Most files are smaller than this, and are read without a query for their size.
const FIRST_READ_BYTES: usize = 64 << 10;

/// The way to search, and the amount to keep.
#[derive(Debug, Clone)]
pub(super) struct SearchPlan {
    pub(super) mode: OutputMode,
    /// Keep only the matching parts of lines.
    pub(super) only_matching: bool,
    pub(super) before: usize,
    pub(super) after: usize,
    pub(super) max: u64,
    pub(super) offset: u64,
    pub(super) order: Order,
    pub(super) multiline: bool,
    pub(super) max_filesize: u64,
    /// The call asked for a higher limit than the maximum.
    pub(super) is_filesize_lowered: bool,
    pub(super) encoding: Option<Encoding>,
    /// The secrets that are masked in answers.
    pub(super) uncut: SecretBoundaries,
}

/// The compiled pattern.
#[derive(Debug, Clone)]
pub(super) struct SearchPatterns {
    pub(super) exact: RegexMatcher,
    /// The same pattern for any case, for a hint if nothing matches.
    pub(super) any_case: Option<RegexMatcher>,
    /// The pattern is ASCII text, whose bytes are the same in every encoding except UTF-16.
    pub(super) is_ascii: bool,
}

impl SearchPlan {
    /// Returns one more than is shown, which tells whether more exists.
    fn needed_results(&self) -> u64 {
        self.offset + self.max + 1
    }

    /// Returns whether the search ends when enough is found. Counts must be complete.
    fn stops_early(&self) -> bool {
        match self.order {
            Order::Any => true,
            Order::Path => self.mode != OutputMode::Count,
            Order::Mtime => false,
        }
    }

    fn build_searcher(
        &self,
        lines: bool,
        binary: BinaryDetection,
        encoding: Option<Encoding>,
    ) -> Searcher {
        SearcherBuilder::new()
            .line_number(lines)
            .multi_line(self.multiline)
            .before_context(if lines { self.before } else { 0 })
            .after_context(if lines { self.after } else { 0 })
            .max_matches(lines.then(|| self.needed_results()))
            .binary_detection(binary)
            .memory_map(MmapChoice::never())
            .heap_limit(Some(MAX_CHUNK_BYTES))
            .encoding(encoding.or_else(|| self.encoding.clone()))
            .build()
    }
}

/// The result of a search.
pub(super) struct SearchFindings {
    /// The files in order, as many as are needed.
    pub(super) files: Vec<FileHits>,
    /// The number of files with a match, in the part that was searched.
    pub(super) found: u64,
    /// The number of matching lines, in the part that was searched.
    pub(super) lines: u64,
    /// The search ended early, so there may be more.
    pub(super) stopped: bool,
    pub(super) coverage: SearchCoverage,
}

/// A search: its files, plan and time limit.
#[derive(Clone, Copy)]
pub(super) struct ContentSearch<'a> {
    pub(super) scope: &'a SearchScope,
    pub(super) glob: Option<&'a FileGlob>,
    pub(super) halt: &'a SearchStop,
    pub(super) plan: &'a SearchPlan,
}

impl ContentSearch<'_> {
    /// Searches the files, or those that an earlier search skipped, until all are done, enough is found, or the stop
    /// signal ends it.
    pub(super) fn search_files(
        &self,
        patterns: &SearchPatterns,
        left: Option<&SearchCoverage>,
    ) -> SearchFindings {
        let weigh: fn(&FileHits) -> usize = match self.plan.mode {
            OutputMode::Content => |hits| usize::try_from(hits.matched).unwrap_or(usize::MAX),
            OutputMode::FilesWithMatches | OutputMode::Count => |_| 1,
        };
        let total = SearchTotals {
            page: Mutex::new(SmallestItems::new(
                usize::try_from(self.plan.needed_results()).unwrap_or(usize::MAX),
                weigh,
            )),
            coverage: Mutex::default(),
            files: AtomicU64::new(0),
            lines: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
        };
        let lines = self.plan.mode == OutputMode::Content;
        let looker = || ContentSearcher {
            search: self,
            // One copy per thread, because threads would wait for the scratch space of a shared one.
            patterns: patterns.clone(),
            searcher: self
                .plan
                .build_searcher(lines, BinaryDetection::none(), None),
            binary_searcher: self
                .plan
                .build_searcher(false, BinaryDetection::convert(0), None),
            piece_searcher: self
                .plan
                .build_searcher(lines, BinaryDetection::convert(0), None),
            buffer: vec![0; WHOLE_FILE_BYTES],
            coverage: SearchCoverage::default(),
            total: &total,
        };
        let mut coverage = match left {
            Some(earlier) => self.scope.walk_skipped(&earlier.skipped, self.halt, looker),
            None => self.scope.walk_all(self.halt, looker),
        };
        coverage.merge_counts(total.coverage.into_inner().unwrap_or_default());
        let (mut found, mut lines) = (total.files.into_inner(), total.lines.into_inner());
        let files = total
            .page
            .into_inner()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
            .into_sorted();
        let stopped = total.stopped.into_inner();
        if stopped {
            // Later hits of other threads are dropped, so that the same search gives the same answer.
            found = files.len() as u64;
            lines = files.iter().map(|file| file.matched).sum();
        }
        SearchFindings {
            files,
            found,
            lines,
            stopped,
            coverage,
        }
    }
}

/// The sums over all threads.
struct SearchTotals {
    page: Mutex<SmallestItems<FileHits>>,
    coverage: Mutex<SearchCoverage>,
    files: AtomicU64,
    lines: AtomicU64,
    /// There may be more than was counted.
    stopped: AtomicBool,
}

impl SearchTotals {
    fn is_empty(&self) -> bool {
        self.files.load(Ordering::Relaxed) == 0
    }
}

/// The search on one thread.
struct ContentSearcher<'a> {
    search: &'a ContentSearch<'a>,
    patterns: SearchPatterns,
    searcher: Searcher,
    /// Treats NUL bytes as line ends.
    binary_searcher: Searcher,
    /// The same, with the wanted lines, for files that are not in memory as a whole.
    piece_searcher: Searcher,
    buffer: Vec<u8>,
    coverage: SearchCoverage,
    total: &'a SearchTotals,
}

impl ContentSearcher<'_> {
    fn match_detail(&self) -> MatchDetail {
        match self.search.plan.mode {
            OutputMode::FilesWithMatches => MatchDetail::Exists,
            OutputMode::Count => MatchDetail::Count,
            OutputMode::Content if self.search.plan.only_matching => MatchDetail::Matches,
            OutputMode::Content => MatchDetail::Lines,
        }
    }

    fn search_entry(
        &mut self,
        spot: &WalkEntry<'_>,
    ) -> Result<Option<LineCollector>, FileSearchError> {
        let mut file = spot.open_entry().map_err(|_| FileSearchError::Unreadable)?;
        let read = self.read_beginning(&mut file)?;
        if is_utf32(&self.buffer[..read]) {
            return Err(FileSearchError::Utf32);
        }
        let lines = if read < WHOLE_FILE_BYTES {
            self.search_in_memory(read)?
        } else {
            self.search_large_file(spot)?
        };
        self.coverage.searched += 1;
        Ok(lines.filter(|lines| lines.matched > 0))
    }

    /// Reads the beginning of a file, which for most files is all of it.
    fn read_beginning(&mut self, file: &mut File) -> Result<usize, FileSearchError> {
        let max = self.search.plan.max_filesize;
        let (mut read, mut ask) = (0, FIRST_READ_BYTES);
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

    /// Searches a file that is in memory.
    fn search_in_memory(&mut self, read: usize) -> Result<Option<LineCollector>, FileSearchError> {
        let text = &self.buffer[..read];
        let SearchPatterns {
            exact,
            any_case,
            is_ascii,
        } = &self.patterns;
        let plain = self.search.plan.encoding.is_none() && !has_byte_order_mark(text);
        if plain
            && *is_ascii
            && !has_nul_at_start(text)
            && !may_match(any_case.as_ref().unwrap_or(exact), text)
        {
            return Ok(None);
        }
        let encoding = if plain {
            encoding_to_decode(text, true)
        } else {
            None
        };
        let decoded = encoding.map(|encoding| encoding.decode_lossy(text).0);
        let text = decoded.as_ref().map_or(text, |decoded| decoded.as_bytes());
        // One test of the whole text excludes most files. It is not valid for text that the searcher decodes, or for
        // patterns that test for the start or end of the text.
        if plain && (self.search.plan.multiline || exact.line_terminator().is_some()) {
            let any_case = self
                .patterns
                .any_case
                .as_ref()
                .filter(|_| self.total.is_empty());
            match any_case {
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
        let mut lines = LineCollector::new(
            exact.clone(),
            if binary {
                MatchDetail::Exists
            } else {
                self.match_detail()
            },
            self.search.plan.uncut.clone(),
        );
        let searched = if binary {
            self.binary_searcher.search_reader(exact, text, &mut lines)
        } else {
            self.searcher.search_slice(exact, text, &mut lines)
        };
        lines.binary |= binary;
        lines.decoded_from = encoding.map(TextEncoding::as_str);
        if !plain
            && lines.matched == 0
            && self.total.is_empty()
            && self.patterns.any_case.as_ref().is_some_and(|any_case| {
                let mut again = LineCollector::new(
                    any_case.clone(),
                    MatchDetail::Exists,
                    SecretBoundaries::default(),
                );
                self.searcher
                    .search_slice(any_case, text, &mut again)
                    .is_ok()
                    && again.matched > 0
            })
        {
            self.coverage.other_case += 1;
        }
        searched
            .map(|()| Some(lines))
            .map_err(|_| FileSearchError::Unreadable)
    }

    /// Searches a larger file in chunks. Its beginning is in memory and tells the encoding.
    fn search_large_file(
        &mut self,
        spot: &WalkEntry<'_>,
    ) -> Result<Option<LineCollector>, FileSearchError> {
        let plain = self.search.plan.encoding.is_none() && !has_byte_order_mark(&self.buffer);
        let encoding = if plain {
            encoding_to_decode(&self.buffer, false)
        } else {
            None
        };
        let mut decoder = encoding.map(|encoding| {
            let by_name = Encoding::new(encoding.as_str()).ok();
            let lines = self.search.plan.mode == OutputMode::Content;
            self.search
                .plan
                .build_searcher(lines, BinaryDetection::convert(0), by_name)
        });
        let (keep, searcher) = (
            self.match_detail(),
            decoder.as_mut().unwrap_or(&mut self.piece_searcher),
        );
        // If the encoding shows only later in the file, a non-ASCII pattern is not found.
        let mut tally =
            (plain && encoding.is_none() && !self.patterns.is_ascii).then(Utf8Tally::default);
        let file = LargeFile {
            search: self.search,
            spot,
        };
        let mut lines =
            file.search_in_chunks(searcher, &self.patterns.exact, keep, tally.as_mut())?;
        lines.decoded_from = encoding.map(TextEncoding::as_str);
        if lines.matched == 0
            && self.total.is_empty()
            && let Some(any_case) = &self.patterns.any_case
        {
            let again = file.search_in_chunks(searcher, any_case, MatchDetail::Exists, None)?;
            self.coverage.other_case += u64::from(again.matched > 0);
        }
        let is_text = lines.matched == 0 && !lines.binary;
        self.coverage.not_utf8 +=
            u64::from(is_text && tally.is_some_and(|tally| !tally.is_mostly_utf8()));
        Ok(Some(lines))
    }

    /// Adds the hits of a file to the result.
    fn record_hits(&self, spot: &WalkEntry<'_>, lines: LineCollector) -> WalkControl {
        let plan = self.search.plan;
        let newest = if plan.order == Order::Mtime {
            spot.modified_time()
        } else {
            None
        };
        let hits = FileHits {
            newest: Reverse(newest),
            root: Arc::clone(spot.root),
            rel: spot.rel.to_owned(),
            matched: lines.matched,
            lines: lines.kept,
            binary: lines.binary,
            lossy: lines.lossy,
            decoded_from: lines.decoded_from,
        };
        // The search of a single file also ends after enough lines.
        let capped = plan.mode == OutputMode::Content && hits.matched >= plan.needed_results();
        let files = self.total.files.fetch_add(1, Ordering::Relaxed) + 1;
        let lines = self.total.lines.fetch_add(hits.matched, Ordering::Relaxed) + hits.matched;
        let counted = if plan.mode == OutputMode::Content {
            lines
        } else {
            files
        };
        let mut page = lock_ignoring_poison(&self.total.page);
        page.push(hits);
        let enough = plan.stops_early() && counted >= plan.needed_results();
        if capped || enough {
            self.total.stopped.store(true, Ordering::Relaxed);
        }
        match (plan.order, page.last_needed()) {
            (Order::Any, _) if enough => WalkControl::Quit,
            (Order::Path, Some(last)) if enough => {
                WalkControl::Until(Arc::clone(&last.root), last.rel.clone())
            }
            _ => WalkControl::Found,
        }
    }
}

impl SearchHandler for ContentSearcher<'_> {
    fn wanted_kind(&self) -> WalkEntryKind {
        WalkEntryKind::File
    }

    fn matches_entry(&self, spot: &WalkEntry<'_>) -> bool {
        self.search
            .glob
            .is_none_or(|glob| glob.matches_file(spot.rel, spot.name))
    }

    fn handle_match(&mut self, _spot: &WalkEntry<'_>, _kind: WalkEntryKind) -> MatchAction {
        MatchAction::Later
    }

    fn handle_file(&mut self, spot: &WalkEntry<'_>) -> WalkControl {
        match self.search_entry(spot) {
            Ok(Some(lines)) => return self.record_hits(spot, lines),
            Ok(None) => {}
            Err(FileSearchError::Halted) => return WalkControl::Quit,
            Err(FileSearchError::TooLarge) => self.coverage.too_large += 1,
            Err(FileSearchError::Unreadable) => self.coverage.unreadable += 1,
            Err(FileSearchError::Utf32) => self.coverage.utf32 += 1,
        }
        WalkControl::Continue
    }
}

impl Drop for ContentSearcher<'_> {
    fn drop(&mut self) {
        lock_ignoring_poison(&self.total.coverage).merge_counts(std::mem::take(&mut self.coverage));
    }
}

fn may_match(matcher: &RegexMatcher, text: &[u8]) -> bool {
    matcher.is_match(text).unwrap_or(true)
}
