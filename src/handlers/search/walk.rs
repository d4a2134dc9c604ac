//! A walk through folders on several threads, in order of path: of all that is known, the smallest is always next.
//! So the first so many results are known before the rest is looked at, and no more is in memory than the folders
//! on the way. Not here: which names are looked at (scope), what is done with a file (glob, sweep).

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::time::SystemTime;

use super::folder::{Folder, Folders};
use super::halt::Halt;
use super::listing::{Kind, Listing};
use super::page::unlocked;
use super::rules::Rules;

/// More threads than this wait for the disk and for each other.
const MAX_THREADS: usize = 12;

/// Where a walk begins.
#[derive(Debug, Clone)]
pub(super) struct Start {
    /// What paths are relative to.
    pub(super) root: Arc<Path>,
    /// The path from there.
    pub(super) rel: PathBuf,
    pub(super) kind: Kind,
    pub(super) rules: Option<Rules>,
}

/// A folder of the walk.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) root: Arc<Path>,
    /// Its path from the root.
    pub(super) rel: PathBuf,
    pub(super) folder: Folder,
    /// None where everything is looked at.
    pub(super) rules: Option<Rules>,
}

/// Where a file is.
pub(super) struct Spot<'a> {
    pub(super) root: &'a Arc<Path>,
    pub(super) rel: &'a Path,
    pub(super) name: &'a OsStr,
    /// It was asked for by its own path.
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

    /// The absolute path.
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

/// How a walk goes on after a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// As before.
    On,
    /// Nothing that comes after this path below this root is needed any more.
    Until(Arc<Path>, PathBuf),
    /// Nothing is needed any more.
    Quit,
}

/// One thread's part of a walk.
pub(super) trait Visit: Send {
    /// Chooses among the names in a folder: what stays is entered or given to `file` later, in order of path.
    fn choose(&mut self, place: &mut Place, names: &mut Vec<(Box<OsStr>, Kind)>) -> Next;
    /// A file that was chosen, or that the walk began with.
    fn file(&mut self, spot: &Spot<'_>) -> Next;
    /// A folder could not be opened or listed.
    fn unreadable(&mut self);
}

/// Walks until all is seen, the visitors have enough, or the halt ends it.
pub(super) fn walk<V: Visit>(
    folders: &Arc<Folders>,
    starts: &[Start],
    halt: &Halt,
    visitor: impl Fn() -> V + Sync,
) {
    let mut starts: Vec<Start> = starts.to_vec();
    starts.sort_by(|a, b| (&a.root, &a.rel).cmp(&(&b.root, &b.rel)).reverse());
    let shared = Shared {
        state: Mutex::new(State { starts, frames: Vec::new(), working: 0, until: None, over: false }),
        wake: Condvar::new(),
        halt,
        folders,
    };
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(MAX_THREADS);
    std::thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(|| shared.work(&mut visitor()));
        }
        shared.work(&mut visitor());
    });
}

/// What the threads share.
struct Shared<'a> {
    state: Mutex<State>,
    wake: Condvar,
    halt: &'a Halt,
    folders: &'a Arc<Folders>,
}

struct State {
    /// What the walk has not begun with yet; the next is the last.
    starts: Vec<Start>,
    /// Folders with names that are still to do, the smallest at the end.
    frames: Vec<Frame>,
    /// How many threads are at work and may add frames.
    working: usize,
    until: Option<(Arc<Path>, PathBuf)>,
    over: bool,
}

/// What is left of a folder, the smallest name at the end.
struct Frame {
    place: Arc<Place>,
    names: Vec<(Box<OsStr>, Kind)>,
}

/// What a thread does next.
enum Work {
    Start(Start),
    Enter(Arc<Place>, Box<OsStr>),
    Look(Arc<Place>, Box<OsStr>),
}

impl Shared<'_> {
    fn work<V: Visit>(&self, visitor: &mut V) {
        let mut listing = Listing::new();
        while let Some(work) = self.take() {
            let done = Done(self);
            if self.halt.over() {
                self.finish();
            } else {
                self.one(work, visitor, &mut listing);
            }
            drop(done);
        }
    }

    fn one<V: Visit>(&self, work: Work, visitor: &mut V, listing: &mut Listing) {
        match work {
            Work::Look(place, name) => {
                let rel = place.rel.join(&*name);
                let next = visitor.file(&Spot::below(&place, &rel, &name));
                self.next(next);
            }
            Work::Enter(place, name) => {
                let rel = place.rel.join(&*name);
                let rules = place.rules.clone();
                let root = Arc::clone(&place.root);
                self.enter(place.folder.enter(&name), root, rel, rules, visitor, listing);
            }
            Work::Start(Start { root, rel, kind: Kind::Folder, rules }) => {
                let path = if rel.as_os_str().is_empty() { root.to_path_buf() } else { root.join(&rel) };
                self.enter(self.folders.open(&path), root, rel, rules, visitor, listing);
            }
            Work::Start(Start { root, rel, .. }) => {
                let name = rel.file_name().unwrap_or_default();
                let source = Source::Start(self.folders);
                let next = visitor.file(&Spot { root: &root, rel: &rel, name, named: true, source });
                self.next(next);
            }
        }
    }

    fn enter<V: Visit>(
        &self,
        folder: io::Result<Folder>,
        root: Arc<Path>,
        rel: PathBuf,
        rules: Option<Rules>,
        visitor: &mut V,
        listing: &mut Listing,
    ) {
        let Ok(mut folder) = folder else { return visitor.unreadable() };
        if folder.list(listing).is_err() {
            // What was listed before it failed is looked at all the same.
            visitor.unreadable();
        }
        let mut place = Place { root, rel, folder, rules };
        let mut names = std::mem::take(&mut listing.entries);
        let next = visitor.choose(&mut place, &mut names);
        if names.is_empty() {
            listing.entries = names;
        } else {
            names.shrink_to_fit();
            names.sort_unstable_by(|a, b| b.0.cmp(&a.0));
            self.push(Frame { place: Arc::new(place), names });
        }
        self.next(next);
    }

    /// Puts a folder's names where their order demands.
    fn push(&self, frame: Frame) {
        let mut state = unlocked(&self.state);
        let mut at = state.frames.len();
        while at > 0 && state.frames[at - 1].place.comes_before(&frame.place) {
            at -= 1;
        }
        state.frames.insert(at, frame);
        drop(state);
        self.wake.notify_all();
    }

    fn next(&self, next: Next) {
        match next {
            Next::On => {}
            Next::Quit => self.finish(),
            Next::Until(root, rel) => unlocked(&self.state).until = Some((root, rel)),
        }
    }

    fn finish(&self) {
        unlocked(&self.state).over = true;
        self.wake.notify_all();
    }

    fn take(&self) -> Option<Work> {
        let mut state = unlocked(&self.state);
        loop {
            if state.over {
                return None;
            }
            if let Some(work) = state.take() {
                state.working += 1;
                return Some(work);
            }
            if state.working == 0 {
                state.over = true;
                self.wake.notify_all();
                return None;
            }
            state = self.wake.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }
}

/// Says that a thread is done with its work, also when that work has panicked.
struct Done<'a, 'b>(&'a Shared<'b>);

impl Drop for Done<'_, '_> {
    fn drop(&mut self) {
        let mut state = unlocked(&self.0.state);
        state.working -= 1;
        state.over |= std::thread::panicking();
        if state.working == 0 || state.over {
            drop(state);
            self.0.wake.notify_all();
        }
    }
}

impl State {
    fn take(&mut self) -> Option<Work> {
        while self.frames.last().is_some_and(|frame| frame.names.is_empty()) {
            self.frames.pop();
        }
        // Past the last that is needed; but what is being entered now may still bring smaller ones.
        let needless = |root: &Arc<Path>, rel: &Path| {
            self.until.as_ref().is_some_and(|(last, until)| (root, rel) > (last, until))
        };
        let Some(frame) = self.frames.last_mut() else {
            let start = self.starts.last()?;
            return if needless(&start.root, &start.rel) { None } else { self.starts.pop().map(Work::Start) };
        };
        if self.until.is_some() {
            let (name, _) = frame.names.last()?;
            if needless(&frame.place.root, &frame.place.rel.join(&**name)) {
                return None;
            }
        }
        let (name, kind) = frame.names.pop()?;
        let place = Arc::clone(&frame.place);
        Some(if kind == Kind::Folder { Work::Enter(place, name) } else { Work::Look(place, name) })
    }
}

impl Place {
    /// Whether its names that are left come before those in another folder. The names left in a folder above come
    /// after those in a folder below that was entered already.
    fn comes_before(&self, other: &Self) -> bool {
        (&self.root, &self.rel) < (&other.root, &other.rel)
            && !(self.root == other.root && other.rel.starts_with(&self.rel))
    }
}
