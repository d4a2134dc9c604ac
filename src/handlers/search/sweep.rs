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

use super::coverage::Coverage;
use super::file_encoding::{encoding_to_decode, has_mark, has_nul_at_start};
use super::file_glob::FileGlob;
use super::grep::{Order, OutputMode};
use super::halt::Halt;
use super::hits::{FileHits, Keep, Lines, Unsearched};
use super::large_file::LargeFile;
use super::listing::Kind;
use super::page::{Page, unlocked};
use super::scope::{Look, Scope, Take};
use super::walk::{Next, Spot};
use crate::acp::content::is_utf32;
use crate::acp::encoding::{Encoding as TextEncoding, Utf8Tally};
use crate::output::Uncut;

/// The largest chunk in memory. A longer line cannot be searched.
const MAX_HEAP: usize = 64 << 20;
/// Files up to this size are searched in one piece.
const WHOLE: usize = 512 << 10;
/// Most files are smaller than this, and are read without a query for their size.
const FIRST: usize = 64 << 10;

/// The way to search, and the amount to keep.
#[derive(Debug, Clone)]
pub(super) struct Plan {
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
    pub(super) uncut: Uncut,
}

/// The compiled pattern.
#[derive(Debug, Clone)]
pub(super) struct Patterns {
    pub(super) exact: RegexMatcher,
    /// The same pattern for any case, for a hint if nothing matches.
    pub(super) any_case: Option<RegexMatcher>,
    /// The pattern is ASCII text, whose bytes are the same in every encoding except UTF-16.
    pub(super) is_ascii: bool,
}

impl Plan {
    /// Returns one more than is shown, which tells whether more exists.
    fn enough(&self) -> u64 {
        self.offset + self.max + 1
    }

    /// Returns whether the search ends when enough is found. Counts must be complete.
    fn ends_early(&self) -> bool {
        match self.order {
            Order::Any => true,
            Order::Path => self.mode != OutputMode::Count,
            Order::Mtime => false,
        }
    }

    fn searcher(&self, lines: bool, binary: BinaryDetection, encoding: Option<Encoding>) -> Searcher {
        SearcherBuilder::new()
            .line_number(lines)
            .multi_line(self.multiline)
            .before_context(if lines { self.before } else { 0 })
            .after_context(if lines { self.after } else { 0 })
            .max_matches(lines.then(|| self.enough()))
            .binary_detection(binary)
            .memory_map(MmapChoice::never())
            .heap_limit(Some(MAX_HEAP))
            .encoding(encoding.or_else(|| self.encoding.clone()))
            .build()
    }
}

/// The result of a search.
pub(super) struct Findings {
    /// The files in order, as many as are needed.
    pub(super) files: Vec<FileHits>,
    /// The number of files with a match, in the part that was searched.
    pub(super) found: u64,
    /// The number of matching lines, in the part that was searched.
    pub(super) lines: u64,
    /// The search ended early, so there may be more.
    pub(super) stopped: bool,
    pub(super) coverage: Coverage,
}

/// A search: its files, plan and time limit.
#[derive(Clone, Copy)]
pub(super) struct Search<'a> {
    pub(super) scope: &'a Scope,
    pub(super) glob: Option<&'a FileGlob>,
    pub(super) halt: &'a Halt,
    pub(super) plan: &'a Plan,
}

impl Search<'_> {
    /// Searches the files, or those that an earlier search skipped, until all are done, enough is found, or the stop
    /// signal ends it.
    pub(super) fn run(&self, patterns: &Patterns, left: Option<&Coverage>) -> Findings {
        let weigh: fn(&FileHits) -> usize = match self.plan.mode {
            OutputMode::Content => |hits| usize::try_from(hits.matched).unwrap_or(usize::MAX),
            OutputMode::FilesWithMatches | OutputMode::Count => |_| 1,
        };
        let total = Total {
            page: Mutex::new(Page::new(usize::try_from(self.plan.enough()).unwrap_or(usize::MAX), weigh)),
            coverage: Mutex::default(),
            files: AtomicU64::new(0),
            lines: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
        };
        let lines = self.plan.mode == OutputMode::Content;
        let looker = || FileSearch {
            search: self,
            // One copy per thread, because threads would wait for the scratch space of a shared one.
            patterns: patterns.clone(),
            searcher: self.plan.searcher(lines, BinaryDetection::none(), None),
            binary_searcher: self.plan.searcher(false, BinaryDetection::convert(0), None),
            piece_searcher: self.plan.searcher(lines, BinaryDetection::convert(0), None),
            buffer: vec![0; WHOLE],
            coverage: Coverage::default(),
            total: &total,
        };
        let mut coverage = match left {
            Some(earlier) => self.scope.walk_left(&earlier.left, self.halt, looker),
            None => self.scope.walk(self.halt, looker),
        };
        coverage.add(total.coverage.into_inner().unwrap_or_default());
        let (mut found, mut lines) = (total.files.into_inner(), total.lines.into_inner());
        let files = total.page.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).into_items();
        let stopped = total.stopped.into_inner();
        if stopped {
            // Later hits of other threads are dropped, so that the same search gives the same answer.
            found = files.len() as u64;
            lines = files.iter().map(|file| file.matched).sum();
        }
        Findings { files, found, lines, stopped, coverage }
    }
}

/// The sums over all threads.
struct Total {
    page: Mutex<Page<FileHits>>,
    coverage: Mutex<Coverage>,
    files: AtomicU64,
    lines: AtomicU64,
    /// There may be more than was counted.
    stopped: AtomicBool,
}

impl Total {
    fn is_empty(&self) -> bool {
        self.files.load(Ordering::Relaxed) == 0
    }
}

/// The search on one thread.
struct FileSearch<'a> {
    search: &'a Search<'a>,
    patterns: Patterns,
    searcher: Searcher,
    /// Treats NUL bytes as line ends.
    binary_searcher: Searcher,
    /// The same, with the wanted lines, for files that are not in memory as a whole.
    piece_searcher: Searcher,
    buffer: Vec<u8>,
    coverage: Coverage,
    total: &'a Total,
}

impl FileSearch<'_> {
    fn keep(&self) -> Keep {
        match self.search.plan.mode {
            OutputMode::FilesWithMatches => Keep::Whether,
            OutputMode::Count => Keep::Count,
            OutputMode::Content if self.search.plan.only_matching => Keep::Matches,
            OutputMode::Content => Keep::Lines,
        }
    }

    fn search(&mut self, spot: &Spot<'_>) -> Result<Option<Lines>, Unsearched> {
        let mut file = spot.open().map_err(|_| Unsearched::Unreadable)?;
        let read = self.fill(&mut file)?;
        if is_utf32(&self.buffer[..read]) {
            return Err(Unsearched::Utf32);
        }
        let lines = if read < WHOLE { self.whole(read)? } else { self.pieces(spot)? };
        self.coverage.searched += 1;
        Ok(lines.filter(|lines| lines.matched > 0))
    }

    /// Reads the beginning of a file, which for most files is all of it.
    fn fill(&mut self, file: &mut File) -> Result<usize, Unsearched> {
        let max = self.search.plan.max_filesize;
        let (mut read, mut ask) = (0, FIRST);
        while read < WHOLE {
            let n = match file.read(&mut self.buffer[read..ask]) {
                Ok(n) => n,
                Err(cause) if cause.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return Err(Unsearched::Unreadable),
            };
            read += n;
            if read as u64 > max {
                return Err(Unsearched::TooLarge);
            }
            // A regular file returns fewer bytes than asked only at its end.
            if read < ask {
                break;
            }
            if ask == FIRST && file.metadata().is_ok_and(|meta| meta.len() > max) {
                return Err(Unsearched::TooLarge);
            }
            ask = WHOLE;
        }
        Ok(read)
    }

    /// Searches a file that is in memory.
    fn whole(&mut self, read: usize) -> Result<Option<Lines>, Unsearched> {
        let text = &self.buffer[..read];
        let Patterns { exact, any_case, is_ascii } = &self.patterns;
        let plain = self.search.plan.encoding.is_none() && !has_mark(text);
        if plain && *is_ascii && !has_nul_at_start(text) && !hit(any_case.as_ref().unwrap_or(exact), text) {
            return Ok(None);
        }
        let encoding = if plain { encoding_to_decode(text, true) } else { None };
        let decoded = encoding.map(|encoding| encoding.decode(text).0);
        let text = decoded.as_ref().map_or(text, |decoded| decoded.as_bytes());
        // One test of the whole text excludes most files. It is not valid for text that the searcher decodes, or for
        // patterns that test for the start or end of the text.
        if plain && (self.search.plan.multiline || exact.line_terminator().is_some()) {
            let any_case = self.patterns.any_case.as_ref().filter(|_| self.total.is_empty());
            match any_case {
                Some(any_case) if !hit(any_case, text) => return Ok(None),
                Some(_) if !hit(exact, text) => {
                    self.coverage.other_case += 1;
                    return Ok(None);
                }
                None if !hit(exact, text) => return Ok(None),
                _ => {}
            }
        }
        let binary = plain && memchr::memchr(0, text).is_some();
        let mut lines = Lines::new(
            exact.clone(),
            if binary { Keep::Whether } else { self.keep() },
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
                let mut again = Lines::new(any_case.clone(), Keep::Whether, Uncut::default());
                self.searcher.search_slice(any_case, text, &mut again).is_ok() && again.matched > 0
            })
        {
            self.coverage.other_case += 1;
        }
        searched.map(|()| Some(lines)).map_err(|_| Unsearched::Unreadable)
    }

    /// Searches a larger file in chunks. Its beginning is in memory and tells the encoding.
    fn pieces(&mut self, spot: &Spot<'_>) -> Result<Option<Lines>, Unsearched> {
        let plain = self.search.plan.encoding.is_none() && !has_mark(&self.buffer);
        let encoding = if plain { encoding_to_decode(&self.buffer, false) } else { None };
        let mut decoder = encoding.map(|encoding| {
            let by_name = Encoding::new(encoding.as_str()).ok();
            let lines = self.search.plan.mode == OutputMode::Content;
            self.search.plan.searcher(lines, BinaryDetection::convert(0), by_name)
        });
        let (keep, searcher) = (self.keep(), decoder.as_mut().unwrap_or(&mut self.piece_searcher));
        // If the encoding shows only later in the file, a non-ASCII pattern is not found.
        let mut tally = (plain && encoding.is_none() && !self.patterns.is_ascii).then(Utf8Tally::default);
        let file = LargeFile { search: self.search, spot };
        let mut lines = file.search(searcher, &self.patterns.exact, keep, tally.as_mut())?;
        lines.decoded_from = encoding.map(TextEncoding::as_str);
        if lines.matched == 0
            && self.total.is_empty()
            && let Some(any_case) = &self.patterns.any_case
        {
            let again = file.search(searcher, any_case, Keep::Whether, None)?;
            self.coverage.other_case += u64::from(again.matched > 0);
        }
        let is_text = lines.matched == 0 && !lines.binary;
        self.coverage.not_utf8 += u64::from(is_text && tally.is_some_and(|tally| !tally.is_utf8()));
        Ok(Some(lines))
    }

    /// Adds the hits of a file to the result.
    fn found(&self, spot: &Spot<'_>, lines: Lines) -> Next {
        let plan = self.search.plan;
        let newest = if plan.order == Order::Mtime { spot.modified() } else { None };
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
        let capped = plan.mode == OutputMode::Content && hits.matched >= plan.enough();
        let files = self.total.files.fetch_add(1, Ordering::Relaxed) + 1;
        let lines = self.total.lines.fetch_add(hits.matched, Ordering::Relaxed) + hits.matched;
        let counted = if plan.mode == OutputMode::Content { lines } else { files };
        let mut page = unlocked(&self.total.page);
        page.push(hits);
        let enough = plan.ends_early() && counted >= plan.enough();
        if capped || enough {
            self.total.stopped.store(true, Ordering::Relaxed);
        }
        match (plan.order, page.last()) {
            (Order::Any, _) if enough => Next::Quit,
            (Order::Path, Some(last)) if enough => Next::Until(Arc::clone(&last.root), last.rel.clone()),
            _ => Next::Found,
        }
    }
}

impl Look for FileSearch<'_> {
    fn kind(&self) -> Kind {
        Kind::File
    }

    fn matches(&self, spot: &Spot<'_>) -> bool {
        self.search.glob.is_none_or(|glob| glob.matches(spot.rel, spot.name))
    }

    fn take(&mut self, _spot: &Spot<'_>, _kind: Kind) -> Take {
        Take::Later
    }

    fn file(&mut self, spot: &Spot<'_>) -> Next {
        match self.search(spot) {
            Ok(Some(lines)) => return self.found(spot, lines),
            Ok(None) => {}
            Err(Unsearched::Halted) => return Next::Quit,
            Err(Unsearched::TooLarge) => self.coverage.too_large += 1,
            Err(Unsearched::Unreadable) => self.coverage.unreadable += 1,
            Err(Unsearched::Utf32) => self.coverage.utf32 += 1,
        }
        Next::On
    }
}

impl Drop for FileSearch<'_> {
    fn drop(&mut self) {
        unlocked(&self.total.coverage).add(std::mem::take(&mut self.coverage));
    }
}

fn hit(matcher: &RegexMatcher, text: &[u8]) -> bool {
    matcher.is_match(text).unwrap_or(true)
}
