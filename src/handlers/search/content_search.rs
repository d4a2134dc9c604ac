//! The content search through many files: the work of each thread, and the merged result.

use std::cmp::Reverse;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;

use super::coverage::SearchCoverage;
use super::file_glob::FileGlob;
use super::file_hits::{FileHits, FileSearchError, LineCollector};
use super::file_search::FileSearcher;
use super::folder_entries::WalkEntryKind;
use super::result_text::saturating_usize;
use super::search_plan::{Order, OutputMode, SearchPatterns, SearchPlan};
use super::search_scope::{MatchAction, SearchHandler, SearchScope};
use super::search_stop::SearchStop;
use super::smallest_items::SmallestItems;
use super::walk_entry::{WalkControl, WalkEntry};

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
        earlier: Option<&SearchCoverage>,
    ) -> SearchFindings {
        let weigh: fn(&FileHits) -> usize = match self.plan.mode {
            OutputMode::Content => |hits| saturating_usize(hits.matched),
            OutputMode::FilesWithMatches | OutputMode::Count => |_| 1,
        };
        let needed = saturating_usize(self.plan.needed_results());
        let total = SearchTotals {
            page: Mutex::new(SmallestItems::new(needed, weigh)),
            coverage: Mutex::default(),
            files: AtomicU64::new(0),
            lines: AtomicU64::new(0),
            stopped: AtomicBool::new(false),
        };
        let searcher = || ContentSearcher {
            search: self,
            files: FileSearcher::new(self.plan, self.halt, patterns, &total.files),
            total: &total,
        };
        let mut coverage = self.scope.walk_files(earlier, self.halt, searcher);
        coverage.merge_counts(total.coverage.into_inner());
        let mut found = total.files.into_inner();
        let mut lines = total.lines.into_inner();
        let files = total.page.into_inner().into_sorted();
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

/// Returns whether a file is a document whose text its bytes do not show.
fn is_document(entry: &WalkEntry<'_>) -> bool {
    const EXTENSIONS: [&str; 8] = ["pdf", "docx", "xlsx", "xlsm", "pptx", "odt", "ods", "odp"];
    let extension = Path::new(entry.name).extension();
    extension.is_some_and(|own| {
        EXTENSIONS
            .iter()
            .any(|known| own.eq_ignore_ascii_case(known))
    })
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

/// The search on one thread.
struct ContentSearcher<'a> {
    search: &'a ContentSearch<'a>,
    files: FileSearcher<'a>,
    total: &'a SearchTotals,
}

impl ContentSearcher<'_> {
    /// Adds the hits of a file to the result.
    fn record_hits(&self, entry: &WalkEntry<'_>, lines: LineCollector) -> WalkControl {
        let plan = self.search.plan;
        let is_by_time = plan.order == Order::Mtime;
        let newest = is_by_time.then(|| entry.modified_time()).flatten();
        let hits = FileHits {
            newest: Reverse(newest),
            root: Arc::clone(entry.root),
            rel: entry.rel.to_owned(),
            matched: lines.matched,
            lines: lines.hit_lines,
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
        let mut page = self.total.page.lock();
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

    fn matches_entry(&self, entry: &WalkEntry<'_>) -> bool {
        self.search
            .glob
            .is_none_or(|glob| glob.matches(entry.rel, entry.name))
    }

    fn handle_match(&mut self, _entry: &WalkEntry<'_>, _kind: WalkEntryKind) -> MatchAction {
        MatchAction::Later
    }

    fn handle_file(&mut self, entry: &WalkEntry<'_>) -> WalkControl {
        match self.files.search_entry(entry) {
            Ok(Some(lines)) => return self.record_hits(entry, lines),
            Ok(None) => self.files.coverage.documents += u64::from(is_document(entry)),
            Err(FileSearchError::Halted) => return WalkControl::Quit,
            Err(FileSearchError::TooLarge) => self.files.coverage.too_large += 1,
            Err(FileSearchError::Unreadable) => self.files.coverage.unreadable += 1,
            Err(FileSearchError::Utf32) => self.files.coverage.utf32 += 1,
        }
        WalkControl::Continue
    }
}

impl Drop for ContentSearcher<'_> {
    fn drop(&mut self) {
        let own = std::mem::take(&mut self.files.coverage);
        self.total.coverage.lock().merge_counts(own);
    }
}
