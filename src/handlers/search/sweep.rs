//! A search through many files at once: what each thread does with a file and how the parts come together.
//! Not here: the tool's arguments (grep), what is kept of one file (hits), how it is shown (report).

use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use grep_regex::RegexMatcher;
use grep_searcher::{BinaryDetection, MmapChoice, Searcher, SearcherBuilder};
use ignore::{DirEntry, WalkState};

use super::coverage::Coverage;
use super::file_glob::FileGlob;
use super::grep::{Order, OutputMode};
use super::halt::Halt;
use super::hits::{FileHits, Keep, Lines, Reading, Unsearched};
use super::page::{Page, unlocked};
use super::scope::{Scope, Visit};
use crate::acp::Workspace;

/// One piece of a file in memory: a line longer than this cannot be searched.
const MAX_HEAP: usize = 256 << 20;

/// How to search and how much to keep.
#[derive(Debug, Clone, Copy)]
pub(super) struct Plan {
    pub(super) mode: OutputMode,
    pub(super) before: usize,
    pub(super) after: usize,
    pub(super) max: u64,
    pub(super) offset: u64,
    pub(super) order: Order,
    pub(super) multiline: bool,
    pub(super) max_filesize: u64,
}

impl Plan {
    /// One more than is shown, to know whether there is more.
    fn enough(&self) -> u64 {
        self.offset + self.max + 1
    }

    fn searcher(&self) -> Searcher {
        let lines = self.mode == OutputMode::Content;
        SearcherBuilder::new()
            .line_number(lines)
            .multi_line(self.multiline)
            .before_context(if lines { self.before } else { 0 })
            .after_context(if lines { self.after } else { 0 })
            .max_matches(lines.then(|| self.enough()))
            .binary_detection(BinaryDetection::quit(0))
            .memory_map(MmapChoice::never())
            .heap_limit(Some(MAX_HEAP))
            .build()
    }

    /// Looks past NUL bytes.
    fn whole_searcher(&self) -> Searcher {
        SearcherBuilder::new()
            .line_number(false)
            .multi_line(self.multiline)
            .binary_detection(BinaryDetection::convert(0))
            .memory_map(MmapChoice::never())
            .heap_limit(Some(MAX_HEAP))
            .build()
    }
}

/// What was found.
pub(super) struct Findings {
    /// The files, in order, as far as they are needed.
    pub(super) files: Vec<FileHits>,
    /// How many files have a match, as far as was looked.
    pub(super) found: u64,
    /// How many lines match, as far as was looked.
    pub(super) lines: u64,
    /// There may be more than was counted: the search ended when enough was found.
    pub(super) stopped: bool,
    pub(super) coverage: Coverage,
}

/// A search: where, how, until when.
#[derive(Clone, Copy)]
pub(super) struct Search<'a> {
    pub(super) workspace: &'a Workspace,
    pub(super) scope: &'a Scope,
    pub(super) glob: Option<&'a FileGlob>,
    pub(super) halt: &'a Halt,
    pub(super) plan: Plan,
}

impl Search<'_> {
    /// Looks through the files until all are seen, enough is found, or the halt ends it.
    pub(super) fn run(&self, matcher: &RegexMatcher) -> Findings {
        let weigh: fn(&FileHits) -> usize = match self.plan.mode {
            OutputMode::Content => |hits| usize::try_from(hits.matched).unwrap_or(usize::MAX),
            OutputMode::FilesWithMatches | OutputMode::Count => |_| 1,
        };
        let keep = usize::try_from(self.plan.enough()).unwrap_or(usize::MAX);
        let total = Total {
            page: Mutex::new(Page::new(keep, weigh)),
            coverage: Mutex::default(),
            files: AtomicU64::new(0),
            lines: AtomicU64::new(0),
            capped: AtomicBool::new(false),
        };
        let mut coverage = self.scope.walk(self.halt, || FileSearch {
            search: self,
            // A copy for each thread: a shared one would make them wait for its scratch space.
            matcher: matcher.clone(),
            searcher: self.plan.searcher(),
            page: Some(Page::new(keep, weigh)),
            coverage: Coverage::default(),
            total: &total,
        });
        coverage.add(&total.coverage.into_inner().unwrap_or_default());
        let (found, lines) = (total.files.into_inner(), total.lines.into_inner());
        let files = total.page.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).into_items();
        let counted = if self.plan.mode == OutputMode::Content { lines } else { found };
        let stopped =
            total.capped.into_inner() || self.plan.order == Order::Any && counted >= self.plan.enough();
        Findings { files, found, lines, stopped, coverage }
    }
}

/// What the threads add up.
struct Total {
    page: Mutex<Page<FileHits>>,
    coverage: Mutex<Coverage>,
    files: AtomicU64,
    lines: AtomicU64,
    /// A file has more matching lines than were counted.
    capped: AtomicBool,
}

/// One thread's part of the search.
struct FileSearch<'a> {
    search: &'a Search<'a>,
    matcher: RegexMatcher,
    searcher: Searcher,
    page: Option<Page<FileHits>>,
    coverage: Coverage,
    total: &'a Total,
}

impl FileSearch<'_> {
    fn wanted(&self, path: &Path) -> bool {
        let Some(glob) = self.search.glob else { return true };
        let base = self.search.scope.roots.iter().find(|root| path.starts_with(root));
        match base {
            // A file asked for by its own path is matched by its name.
            Some(root) if root == path => glob.matches(root.parent().unwrap_or(root), path),
            Some(root) => glob.matches(root, path),
            None => glob.matches(Path::new(""), path),
        }
    }

    fn lines(&mut self, path: &Path, named: bool) -> Result<Option<FileHits>, Unsearched> {
        let keep = match self.search.plan.mode {
            OutputMode::FilesWithMatches => Keep::Whether,
            OutputMode::Count => Keep::Count,
            OutputMode::Content => Keep::Lines,
        };
        let mut hits = self.pass(path, keep)?;
        if named && hits.binary && hits.matched == 0 {
            // Whoever names one file wants to know of all of it. Its lines would be no text, so none is kept.
            self.searcher = self.search.plan.whole_searcher();
            hits = FileHits { binary: true, ..self.pass(path, Keep::Whether)? };
            self.coverage.whole_binary += 1;
        } else {
            self.coverage.binary += u64::from(hits.binary);
        }
        Ok((hits.matched > 0).then_some(hits))
    }

    /// Searches a file once.
    fn pass(&mut self, path: &Path, keep: Keep) -> Result<FileHits, Unsearched> {
        let plan = &self.search.plan;
        let mut stopped = None;
        let mut lines = Lines::new(&self.matcher, keep);
        // Beneath the held folder: the walk went by names, and a link may have taken the place of one since.
        let file = self.search.workspace.open_found(path).map_err(|_| Unsearched::Unreadable)?;
        let file = Reading::new(file, plan.max_filesize, self.search.halt, &mut stopped);
        let searched = self.searcher.search_reader(&self.matcher, file, &mut lines);
        if let Some(why) = stopped {
            return Err(why);
        }
        searched.map_err(|_| Unsearched::Unreadable)?;
        let (kept, matched, binary) = (lines.kept, lines.matched, lines.binary);
        Ok(FileHits { newest: Reverse(None), path: PathBuf::new(), matched, lines: kept, binary })
    }
}

impl Visit for FileSearch<'_> {
    fn file(&mut self, entry: DirEntry) -> WalkState {
        if !self.wanted(entry.path()) {
            return WalkState::Continue;
        }
        let mut hits = match self.lines(entry.path(), entry.depth() == 0) {
            Ok(Some(hits)) => hits,
            Ok(None) => return WalkState::Continue,
            Err(Unsearched::Halted) => return WalkState::Quit,
            Err(Unsearched::TooLarge) => {
                self.coverage.too_large += 1;
                return WalkState::Continue;
            }
            Err(Unsearched::Unreadable) => {
                self.coverage.unreadable += 1;
                return WalkState::Continue;
            }
        };
        let plan = &self.search.plan;
        if plan.order == Order::Mtime {
            hits.newest = Reverse(entry.metadata().ok().and_then(|meta| meta.modified().ok()));
        }
        hits.path = entry.into_path();
        if plan.mode == OutputMode::Content && hits.matched >= plan.enough() {
            self.total.capped.store(true, Ordering::Relaxed);
        }
        let files = self.total.files.fetch_add(1, Ordering::Relaxed) + 1;
        let lines = self.total.lines.fetch_add(hits.matched, Ordering::Relaxed) + hits.matched;
        if let Some(page) = &mut self.page {
            page.push(hits);
        }
        let counted = if plan.mode == OutputMode::Content { lines } else { files };
        if plan.order == Order::Any && counted >= plan.enough() {
            WalkState::Quit
        } else {
            WalkState::Continue
        }
    }

    fn counts_link(&self, path: &Path) -> bool {
        self.wanted(path)
    }
}

impl Drop for FileSearch<'_> {
    fn drop(&mut self) {
        unlocked(&self.total.coverage).add(&self.coverage);
        if let Some(page) = self.page.take() {
            unlocked(&self.total.page).absorb(page);
        }
    }
}
