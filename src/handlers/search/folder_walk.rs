//! A parallel walk through folders in order of path: the smallest known path is always next. The first results are
//! therefore known before the rest is read, and memory holds only the folders on the way.

use std::ffi::OsString;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Condvar, Mutex, MutexGuard};

use super::folder::{FolderOpener, SearchFolder};
use super::folder_entries::{EntryNames, FolderBuffer, WalkEntryKind};
use super::search_stop::SearchStop;
use super::walk_entry::{EntrySource, WalkControl, WalkEntry, WalkFolder, WalkStart, WalkVisitor};
use super::walk_queue::{FolderFrame, WalkQueue, WalkTask};
use punie_core::runner_home::is_runner_home;

/// More threads would only wait for the disk and for each other.
const MAX_THREADS: usize = 12;
/// The number of attempts to lock the queue before a thread sleeps.
const SPIN_ROUNDS: usize = 200;

/// Walks until all is done, the visitors have enough, or the stop signal ends it.
pub(super) fn walk_folders<V: WalkVisitor>(
    folders: &Arc<FolderOpener>,
    mut starts: Vec<WalkStart>,
    halt: &SearchStop,
    visitor: impl Fn() -> V + Sync,
) {
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
        let mut thread = WalkThread::default();
        let mut work = self.take_task(&mut thread);
        while let Some(one) = work {
            thread.working = true;
            if self.halt.should_stop() {
                self.apply_control(WalkControl::Quit);
            } else {
                thread.found = self.run_task(one, visitor, &mut thread);
            }
            work = self.take_task(&mut thread);
            thread.spent.clear();
        }
    }

    fn run_task<V: WalkVisitor>(
        &self,
        work: WalkTask,
        visitor: &mut V,
        thread: &mut WalkThread,
    ) -> Option<FolderFrame> {
        match work {
            WalkTask::SearchFiles(place, range) => {
                self.visit_files(&place, range, visitor, thread);
                None
            }
            WalkTask::Enter(place, at) => {
                let (name, kind) = place.names.name_at(at);
                let start = WalkStart {
                    root: Arc::clone(&place.root),
                    rel: place.rel.join(name),
                    kind,
                    rules: place.rules.clone(),
                };
                self.visit_folder(place.folder.open_subfolder(name), start, visitor, thread)
            }
            WalkTask::Start(start) if start.kind == WalkEntryKind::Folder => {
                // Joining an empty path would add a separator.
                let path = if start.rel.as_os_str().is_empty() {
                    start.root.to_path_buf()
                } else {
                    start.root.join(&start.rel)
                };
                self.visit_folder(self.folders.open_folder(&path), start, visitor, thread)
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
        thread: &mut WalkThread,
    ) {
        let first = range.start;
        for at in range {
            let (name, _) = place.names.name_at(at);
            let rel = place.join_name(name, &mut thread.path);
            if at > first && (self.halt.should_stop() || self.can_skip(place, rel)) {
                return;
            }
            let next = visitor.visit_file(&WalkEntry::in_folder(place, rel, name));
            thread.quiet = if next == WalkControl::Continue {
                thread.quiet + 1
            } else {
                0
            };
            self.apply_control(next);
        }
    }

    fn visit_folder<V: WalkVisitor>(
        &self,
        folder: io::Result<SearchFolder>,
        start: WalkStart,
        visitor: &mut V,
        thread: &mut WalkThread,
    ) -> Option<FolderFrame> {
        let Ok(mut folder) = folder else {
            visitor.count_unreadable();
            return None;
        };
        if folder.read_names(&mut thread.listing).is_err() {
            // Names that were read before the error are used.
            visitor.count_unreadable();
        }
        let may_be_home = thread
            .listing
            .names
            .iter()
            .any(|(name, _)| name == "tokens");
        if may_be_home && is_runner_home(&start.root.join(&start.rel)) {
            // It holds keys and tokens.
            return None;
        }
        let mut place = WalkFolder {
            root: start.root,
            rel: start.rel,
            folder,
            rules: start.rules,
            names: EntryNames::default(),
        };
        let (names, next) =
            visitor.choose_entries(&mut place, &thread.listing.names, &mut thread.path);
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
                self.state.lock().over = true;
                self.wake.notify_all();
            }
            WalkControl::Until(root, rel) => self.state.lock().until = Some((root, rel)),
        }
        self.bounded.store(true, Ordering::Release);
    }

    fn can_skip(&self, place: &WalkFolder, rel: &Path) -> bool {
        self.bounded.load(Ordering::Acquire) && {
            let state = self.state.lock();
            state.over || state.is_past_end(&place.root, rel)
        }
    }

    /// Locks the queue. Spins first, because another thread holds it for less time than sleeping and waking takes.
    fn lock_queue(&self) -> MutexGuard<'_, WalkQueue> {
        for round in 0..SPIN_ROUNDS {
            if let Some(queue) = self.state.try_lock() {
                return queue;
            }
            if round < SPIN_ROUNDS / 2 {
                std::hint::spin_loop();
            } else {
                std::thread::yield_now();
            }
        }
        self.state.lock()
    }

    /// Returns the folder found by the last task to the queue, and takes the next task.
    fn take_task(&self, thread: &mut WalkThread) -> Option<WalkTask> {
        let mut state = self.lock_queue();
        state.working -= usize::from(std::mem::take(&mut thread.working));
        if let Some(frame) = thread.found.take() {
            state.push_frame(frame);
            if state.waiting > 0 {
                self.wake.notify_all();
            }
        }
        loop {
            if state.over {
                return None;
            }
            if let Some(work) = state.next_task(thread.quiet, self.threads, &mut thread.spent) {
                state.working += 1;
                return Some(work);
            }
            if state.working == 0 {
                state.over = true;
                self.wake.notify_all();
                return None;
            }
            state.waiting += 1;
            self.wake.wait(&mut state);
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
