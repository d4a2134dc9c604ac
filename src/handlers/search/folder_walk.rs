//! A parallel walk through folders in order of path: the smallest known path is always next. The first results are
//! therefore known before the rest is read, and memory holds only the folders on the way. Not here: the queue, the
//! choice of names, and the handling of files.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::SystemTime;

use super::folder::{FolderOpener, SearchFolder};
use super::folder_entries::{EntryNames, FolderBuffer, WalkEntryKind};
use super::ignore_rules::IgnoreRules;
use super::search_stop::SearchStop;
use super::smallest_items::lock_ignoring_poison;
use super::walk_queue::{FolderFrame, WalkQueue, WalkTask};

/// More threads would only wait for the disk and for each other.
const MAX_THREADS: usize = 12;
/// The number of attempts to lock the queue before a thread sleeps.
const SPIN_ROUNDS: usize = 200;

/// The start of a walk.
#[derive(Debug, Clone)]
pub(super) struct WalkStart {
    /// The folder that paths are relative to.
    pub(super) root: Arc<Path>,
    /// The path relative to it.
    pub(super) rel: PathBuf,
    pub(super) kind: WalkEntryKind,
    pub(super) rules: Option<IgnoreRules>,
}

/// A folder of the walk.
#[derive(Debug)]
pub(super) struct WalkFolder {
    pub(super) root: Arc<Path>,
    /// The path relative to the root.
    pub(super) rel: PathBuf,
    pub(super) folder: SearchFolder,
    /// `None` if nothing is ignored.
    pub(super) rules: Option<IgnoreRules>,
    /// The chosen names, in order.
    pub(super) names: EntryNames,
}

/// An entry of the walk.
pub(super) struct WalkEntry<'a> {
    pub(super) root: &'a Arc<Path>,
    pub(super) rel: &'a Path,
    pub(super) name: &'a OsStr,
    /// The call named it by its own path.
    pub(super) named: bool,
    source: EntrySource<'a>,
}

enum EntrySource<'a> {
    Folder(&'a SearchFolder),
    Start(&'a FolderOpener),
}

impl<'a> WalkEntry<'a> {
    pub(super) fn in_folder(place: &'a WalkFolder, rel: &'a Path, name: &'a OsStr) -> Self {
        Self {
            root: &place.root,
            rel,
            name,
            named: false,
            source: EntrySource::Folder(&place.folder),
        }
    }

    /// Returns the absolute path.
    pub(super) fn absolute_path(&self) -> PathBuf {
        self.root.join(self.rel)
    }

    pub(super) fn open_entry(&self) -> io::Result<File> {
        match self.source {
            EntrySource::Folder(folder) => folder.open_file(self.name),
            EntrySource::Start(folders) => folders.open_start_file(&self.absolute_path()),
        }
    }

    pub(super) fn modified_time(&self) -> Option<SystemTime> {
        match self.source {
            EntrySource::Folder(folder) => folder.modified_time(self.name),
            EntrySource::Start(_) => self
                .absolute_path()
                .symlink_metadata()
                .and_then(|meta| meta.modified())
                .ok(),
        }
    }
}

/// The decision about the rest of the walk.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum WalkControl {
    /// Continue.
    Continue,
    /// Continue; there was a match, so the end may be near.
    Found,
    /// Paths after this one below this root are no longer needed.
    Until(Arc<Path>, PathBuf),
    /// Nothing more is needed.
    Quit,
}

/// The visitor of a walk on one thread.
pub(super) trait WalkVisitor: Send {
    /// Chooses among the names in a folder. Chosen folders are entered and chosen files are visited later, in order
    /// of path.
    fn choose_entries(
        &mut self,
        place: &mut WalkFolder,
        names: &EntryNames,
        path: &mut OsString,
    ) -> (EntryNames, WalkControl);
    /// Visits a chosen file, or one with which the walk began.
    fn visit_file(&mut self, spot: &WalkEntry<'_>) -> WalkControl;
    /// Counts a folder that could not be opened or listed.
    fn count_unreadable(&mut self);
}

/// Walks until all is done, the visitors have enough, or the stop signal ends it.
pub(super) fn walk_folders<V: WalkVisitor>(
    folders: &Arc<FolderOpener>,
    starts: &[WalkStart],
    halt: &SearchStop,
    visitor: impl Fn() -> V + Sync,
) {
    let mut starts: Vec<WalkStart> = starts.to_vec();
    starts.sort_by(|a, b| (&a.root, &a.rel).cmp(&(&b.root, &b.rel)).reverse());
    let threads = std::thread::available_parallelism()
        .map_or(1, std::num::NonZero::get)
        .min(MAX_THREADS);
    let shared = WalkShared {
        state: Mutex::new(WalkQueue::with_starts(starts)),
        wake: Condvar::new(),
        bounded: AtomicBool::new(false),
        threads,
        halt,
        folders,
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|| shared.run_tasks(&mut visitor()));
        }
        shared.run_tasks(&mut visitor());
    });
}

/// The state shared by the threads.
struct WalkShared<'a> {
    state: Mutex<WalkQueue>,
    wake: Condvar,
    /// The walk is over, or some paths may be skipped.
    bounded: AtomicBool,
    threads: usize,
    halt: &'a SearchStop,
    folders: &'a Arc<FolderOpener>,
}

/// The working state of a thread.
#[derive(Default)]
struct WalkThread {
    listing: FolderBuffer,
    path: OsString,
    /// The number of files searched since the last match.
    quiet: usize,
    /// The thread counts as working.
    working: bool,
    /// The folder that was entered last.
    found: Option<FolderFrame>,
    /// Finished folders that are not closed yet.
    spent: Vec<FolderFrame>,
}

impl WalkShared<'_> {
    fn run_tasks<V: WalkVisitor>(&self, visitor: &mut V) {
        let _broken = PanicGuard(self);
        let mut desk = WalkThread::default();
        let mut work = self.take_task(&mut desk);
        while let Some(one) = work {
            desk.working = true;
            if self.halt.should_stop() {
                self.apply_control(WalkControl::Quit);
            } else {
                desk.found = self.run_task(one, visitor, &mut desk);
            }
            work = self.take_task(&mut desk);
            desk.spent.clear();
        }
    }

    fn run_task<V: WalkVisitor>(
        &self,
        work: WalkTask,
        visitor: &mut V,
        desk: &mut WalkThread,
    ) -> Option<FolderFrame> {
        match work {
            WalkTask::SearchFiles(place, range) => {
                self.visit_files(&place, range, visitor, desk);
                None
            }
            WalkTask::Enter(place, at) => {
                let (name, _) = place.names.name_at(at);
                let rel = place.rel.join(name);
                let rules = place.rules.clone();
                let root = Arc::clone(&place.root);
                self.visit_folder(
                    place.folder.open_subfolder(name),
                    root,
                    rel,
                    rules,
                    visitor,
                    desk,
                )
            }
            WalkTask::Start(WalkStart {
                root,
                rel,
                kind: WalkEntryKind::Folder,
                rules,
            }) => {
                let path = if rel.as_os_str().is_empty() {
                    root.to_path_buf()
                } else {
                    root.join(&rel)
                };
                self.visit_folder(
                    self.folders.open_folder(&path),
                    root,
                    rel,
                    rules,
                    visitor,
                    desk,
                )
            }
            WalkTask::Start(WalkStart { root, rel, .. }) => {
                let name = rel.file_name().unwrap_or_default();
                let source = EntrySource::Start(self.folders);
                let next = visitor.visit_file(&WalkEntry {
                    root: &root,
                    rel: &rel,
                    name,
                    named: true,
                    source,
                });
                self.apply_control(next);
                None
            }
        }
    }

    fn visit_files<V: WalkVisitor>(
        &self,
        place: &WalkFolder,
        range: Range<usize>,
        visitor: &mut V,
        desk: &mut WalkThread,
    ) {
        let first = range.start;
        for at in range {
            let (name, _) = place.names.name_at(at);
            let rel = place.join_name(name, &mut desk.path);
            if at > first && (self.halt.should_stop() || self.can_skip(place, rel)) {
                return;
            }
            let next = visitor.visit_file(&WalkEntry::in_folder(place, rel, name));
            desk.quiet = if next == WalkControl::Continue {
                desk.quiet + 1
            } else {
                0
            };
            self.apply_control(next);
        }
    }

    fn visit_folder<V: WalkVisitor>(
        &self,
        folder: io::Result<SearchFolder>,
        root: Arc<Path>,
        rel: PathBuf,
        rules: Option<IgnoreRules>,
        visitor: &mut V,
        desk: &mut WalkThread,
    ) -> Option<FolderFrame> {
        let Ok(mut folder) = folder else {
            visitor.count_unreadable();
            return None;
        };
        if folder.read_names(&mut desk.listing).is_err() {
            // Names that were read before the error are used.
            visitor.count_unreadable();
        }
        let mut place = WalkFolder {
            root,
            rel,
            folder,
            rules,
            names: EntryNames::default(),
        };
        let (names, next) = visitor.choose_entries(&mut place, &desk.listing.names, &mut desk.path);
        self.apply_control(next);
        place.names = names;
        (place.names.len() > 0).then(|| FolderFrame {
            place: Arc::new(place),
            next: 0,
        })
    }

    fn apply_control(&self, next: WalkControl) {
        match next {
            WalkControl::Continue | WalkControl::Found => return,
            WalkControl::Quit => {
                lock_ignoring_poison(&self.state).over = true;
                self.wake.notify_all();
            }
            WalkControl::Until(root, rel) => {
                lock_ignoring_poison(&self.state).until = Some((root, rel))
            }
        }
        self.bounded.store(true, Ordering::Release);
    }

    fn can_skip(&self, place: &WalkFolder, rel: &Path) -> bool {
        self.bounded.load(Ordering::Acquire) && {
            let state = lock_ignoring_poison(&self.state);
            state.over || state.is_past_end(&place.root, rel)
        }
    }

    /// Locks the queue. Spins first, because another thread holds it for less time than sleeping and waking takes.
    fn lock_queue(&self) -> MutexGuard<'_, WalkQueue> {
        for turn in 0..SPIN_ROUNDS {
            if let Ok(queue) = self.state.try_lock() {
                return queue;
            }
            if turn < SPIN_ROUNDS / 2 {
                std::hint::spin_loop()
            } else {
                std::thread::yield_now()
            }
        }
        lock_ignoring_poison(&self.state)
    }

    /// Returns the folder found by the last task to the queue, and takes the next task.
    fn take_task(&self, desk: &mut WalkThread) -> Option<WalkTask> {
        let mut state = self.lock_queue();
        state.working -= usize::from(std::mem::take(&mut desk.working));
        if let Some(frame) = desk.found.take() {
            state.push_frame(frame);
            if state.waiting > 0 {
                self.wake.notify_all();
            }
        }
        loop {
            if state.over {
                return None;
            }
            if let Some(work) = state.next_task(desk.quiet, self.threads, &mut desk.spent) {
                state.working += 1;
                return Some(work);
            }
            if state.working == 0 {
                state.over = true;
                self.wake.notify_all();
                return None;
            }
            state.waiting += 1;
            state = self
                .wake
                .wait(state)
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            state.waiting -= 1;
        }
    }
}

/// Ends the walk for all threads if one of them panics.
struct PanicGuard<'a, 'b>(&'a WalkShared<'b>);

impl Drop for PanicGuard<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.apply_control(WalkControl::Quit);
        }
    }
}

impl WalkFolder {
    /// Joins a name to the path of the folder, in a buffer.
    pub(super) fn join_name<'a>(&self, name: &OsStr, buffer: &'a mut OsString) -> &'a Path {
        buffer.clear();
        if !self.rel.as_os_str().is_empty() {
            buffer.push(&self.rel);
            buffer.push(std::path::MAIN_SEPARATOR_STR);
        }
        buffer.push(name);
        Path::new(buffer)
    }
}
