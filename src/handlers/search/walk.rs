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

use super::folder::{Folder, Folders};
use super::halt::Halt;
use super::listing::{Kind, Listing, Names};
use super::page::unlocked;
use super::queue::{Frame, Queue, Work};
use super::rules::Rules;

/// More threads would only wait for the disk and for each other.
const MAX_THREADS: usize = 12;
/// The number of attempts to lock the queue before a thread sleeps.
const PATIENCE: usize = 200;

/// The start of a walk.
#[derive(Debug, Clone)]
pub(super) struct Start {
    /// The folder that paths are relative to.
    pub(super) root: Arc<Path>,
    /// The path relative to it.
    pub(super) rel: PathBuf,
    pub(super) kind: Kind,
    pub(super) rules: Option<Rules>,
}

/// A folder of the walk.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) root: Arc<Path>,
    /// The path relative to the root.
    pub(super) rel: PathBuf,
    pub(super) folder: Folder,
    /// `None` if nothing is ignored.
    pub(super) rules: Option<Rules>,
    /// The chosen names, in order.
    pub(super) names: Names,
}

/// An entry of the walk.
pub(super) struct Spot<'a> {
    pub(super) root: &'a Arc<Path>,
    pub(super) rel: &'a Path,
    pub(super) name: &'a OsStr,
    /// The call named it by its own path.
    pub(super) named: bool,
    source: Source<'a>,
}

enum Source<'a> {
    Folder(&'a Folder),
    Start(&'a Folders),
}

impl<'a> Spot<'a> {
    pub(super) fn below(place: &'a Place, rel: &'a Path, name: &'a OsStr) -> Self {
        Self { root: &place.root, rel, name, named: false, source: Source::Folder(&place.folder) }
    }

    /// Returns the absolute path.
    pub(super) fn path(&self) -> PathBuf {
        self.root.join(self.rel)
    }

    pub(super) fn open(&self) -> io::Result<File> {
        match self.source {
            Source::Folder(folder) => folder.open_file(self.name),
            Source::Start(folders) => folders.open_file(&self.path()),
        }
    }

    pub(super) fn modified(&self) -> Option<SystemTime> {
        match self.source {
            Source::Folder(folder) => folder.modified(self.name),
            Source::Start(_) => self.path().symlink_metadata().and_then(|meta| meta.modified()).ok(),
        }
    }
}

/// The decision about the rest of the walk.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Continue.
    On,
    /// Continue; there was a match, so the end may be near.
    Found,
    /// Paths after this one below this root are no longer needed.
    Until(Arc<Path>, PathBuf),
    /// Nothing more is needed.
    Quit,
}

/// The visitor of a walk on one thread.
pub(super) trait Visit: Send {
    /// Chooses among the names in a folder. Chosen folders are entered and chosen files are visited later, in order
    /// of path.
    fn choose(&mut self, place: &mut Place, names: &Names, path: &mut OsString) -> (Names, Next);
    /// Visits a chosen file, or one with which the walk began.
    fn file(&mut self, spot: &Spot<'_>) -> Next;
    /// Counts a folder that could not be opened or listed.
    fn unreadable(&mut self);
}

/// Walks until all is done, the visitors have enough, or the stop signal ends it.
pub(super) fn walk<V: Visit>(
    folders: &Arc<Folders>,
    starts: &[Start],
    halt: &Halt,
    visitor: impl Fn() -> V + Sync,
) {
    let mut starts: Vec<Start> = starts.to_vec();
    starts.sort_by(|a, b| (&a.root, &a.rel).cmp(&(&b.root, &b.rel)).reverse());
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(MAX_THREADS);
    let shared = Shared {
        state: Mutex::new(Queue::starting_with(starts)),
        wake: Condvar::new(),
        bounded: AtomicBool::new(false),
        threads,
        halt,
        folders,
    };
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|| shared.work(&mut visitor()));
        }
        shared.work(&mut visitor());
    });
}

/// The state shared by the threads.
struct Shared<'a> {
    state: Mutex<Queue>,
    wake: Condvar,
    /// The walk is over, or some paths may be skipped.
    bounded: AtomicBool,
    threads: usize,
    halt: &'a Halt,
    folders: &'a Arc<Folders>,
}

/// The working state of a thread.
#[derive(Default)]
struct Desk {
    listing: Listing,
    path: OsString,
    /// The number of files searched since the last match.
    quiet: usize,
    /// The thread counts as working.
    working: bool,
    /// The folder that was entered last.
    found: Option<Frame>,
    /// Finished folders that are not closed yet.
    spent: Vec<Frame>,
}

impl Shared<'_> {
    fn work<V: Visit>(&self, visitor: &mut V) {
        let _broken = Broken(self);
        let mut desk = Desk::default();
        let mut work = self.take(&mut desk);
        while let Some(one) = work {
            desk.working = true;
            if self.halt.over() {
                self.next(Next::Quit);
            } else {
                desk.found = self.one(one, visitor, &mut desk);
            }
            work = self.take(&mut desk);
            desk.spent.clear();
        }
    }

    fn one<V: Visit>(&self, work: Work, visitor: &mut V, desk: &mut Desk) -> Option<Frame> {
        match work {
            Work::Look(place, range) => {
                self.look(&place, range, visitor, desk);
                None
            }
            Work::Enter(place, at) => {
                let (name, _) = place.names.at(at);
                let rel = place.rel.join(name);
                let rules = place.rules.clone();
                let root = Arc::clone(&place.root);
                self.enter(place.folder.enter(name), root, rel, rules, visitor, desk)
            }
            Work::Start(Start { root, rel, kind: Kind::Folder, rules }) => {
                let path = if rel.as_os_str().is_empty() { root.to_path_buf() } else { root.join(&rel) };
                self.enter(self.folders.open(&path), root, rel, rules, visitor, desk)
            }
            Work::Start(Start { root, rel, .. }) => {
                let name = rel.file_name().unwrap_or_default();
                let source = Source::Start(self.folders);
                let next = visitor.file(&Spot { root: &root, rel: &rel, name, named: true, source });
                self.next(next);
                None
            }
        }
    }

    fn look<V: Visit>(&self, place: &Place, range: Range<usize>, visitor: &mut V, desk: &mut Desk) {
        let first = range.start;
        for at in range {
            let (name, _) = place.names.at(at);
            let rel = place.path_of(name, &mut desk.path);
            if at > first && (self.halt.over() || self.is_needless(place, rel)) {
                return;
            }
            let next = visitor.file(&Spot::below(place, rel, name));
            desk.quiet = if next == Next::On { desk.quiet + 1 } else { 0 };
            self.next(next);
        }
    }

    fn enter<V: Visit>(
        &self,
        folder: io::Result<Folder>,
        root: Arc<Path>,
        rel: PathBuf,
        rules: Option<Rules>,
        visitor: &mut V,
        desk: &mut Desk,
    ) -> Option<Frame> {
        let Ok(mut folder) = folder else {
            visitor.unreadable();
            return None;
        };
        if folder.list(&mut desk.listing).is_err() {
            // Names that were read before the error are used.
            visitor.unreadable();
        }
        let mut place = Place { root, rel, folder, rules, names: Names::default() };
        let (names, next) = visitor.choose(&mut place, &desk.listing.names, &mut desk.path);
        self.next(next);
        place.names = names;
        (place.names.len() > 0).then(|| Frame { place: Arc::new(place), next: 0 })
    }

    fn next(&self, next: Next) {
        match next {
            Next::On | Next::Found => return,
            Next::Quit => {
                unlocked(&self.state).over = true;
                self.wake.notify_all();
            }
            Next::Until(root, rel) => unlocked(&self.state).until = Some((root, rel)),
        }
        self.bounded.store(true, Ordering::Release);
    }

    fn is_needless(&self, place: &Place, rel: &Path) -> bool {
        self.bounded.load(Ordering::Acquire) && {
            let state = unlocked(&self.state);
            state.over || state.is_needless(&place.root, rel)
        }
    }

    /// Locks the queue. Spins first, because another thread holds it for less time than sleeping and waking takes.
    fn queue(&self) -> MutexGuard<'_, Queue> {
        for turn in 0..PATIENCE {
            if let Ok(queue) = self.state.try_lock() {
                return queue;
            }
            if turn < PATIENCE / 2 { std::hint::spin_loop() } else { std::thread::yield_now() }
        }
        unlocked(&self.state)
    }

    /// Returns the folder found by the last task to the queue, and takes the next task.
    fn take(&self, desk: &mut Desk) -> Option<Work> {
        let mut state = self.queue();
        state.working -= usize::from(std::mem::take(&mut desk.working));
        if let Some(frame) = desk.found.take() {
            state.push(frame);
            if state.waiting > 0 {
                self.wake.notify_all();
            }
        }
        loop {
            if state.over {
                return None;
            }
            if let Some(work) = state.take(desk.quiet, self.threads, &mut desk.spent) {
                state.working += 1;
                return Some(work);
            }
            if state.working == 0 {
                state.over = true;
                self.wake.notify_all();
                return None;
            }
            state.waiting += 1;
            state = self.wake.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
            state.waiting -= 1;
        }
    }
}

/// Ends the walk for all threads if one of them panics.
struct Broken<'a, 'b>(&'a Shared<'b>);

impl Drop for Broken<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.next(Next::Quit);
        }
    }
}

impl Place {
    /// Joins a name to the path of the folder, in a buffer.
    pub(super) fn path_of<'a>(&self, name: &OsStr, buffer: &'a mut OsString) -> &'a Path {
        buffer.clear();
        if !self.rel.as_os_str().is_empty() {
            buffer.push(&self.rel);
            buffer.push(std::path::MAIN_SEPARATOR_STR);
        }
        buffer.push(name);
        Path::new(buffer)
    }
}
