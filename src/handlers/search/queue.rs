//! What a walk has still to do, in order of path, and what a thread takes of it at once. Not here: the threads (walk).

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::listing::Kind;
use super::walk::{Place, Start};

/// After so many files in which nothing was found, a thread takes more than one at once,
const QUIET: usize = 32;
/// but no more than this: another thread may find that they are not needed.
const MAX_SHARE: usize = 8;

/// What is still to do, and how far the walk need go.
#[derive(Default)]
pub(super) struct Queue {
    /// What the walk has not begun with yet; the next is the last.
    starts: Vec<Start>,
    /// Folders with names that are still to do, the smallest at the end.
    frames: Vec<Frame>,
    /// How many threads are at work and may add frames.
    pub(super) working: usize,
    /// How many wait for a frame.
    pub(super) waiting: usize,
    pub(super) until: Option<(Arc<Path>, PathBuf)>,
    pub(super) over: bool,
}

/// A folder and the place of its next name.
pub(super) struct Frame {
    pub(super) place: Arc<Place>,
    pub(super) next: usize,
}

/// What a thread does next.
pub(super) enum Work {
    Start(Start),
    Enter(Arc<Place>, usize),
    /// The files at these places.
    Look(Arc<Place>, Range<usize>),
}

impl Queue {
    /// The last of these is begun with.
    pub(super) fn starting_with(starts: Vec<Start>) -> Self {
        Self { starts, ..Self::default() }
    }

    /// Puts a folder's names where their order demands.
    pub(super) fn push(&mut self, frame: Frame) {
        let mut at = self.frames.len();
        while at > 0 && self.frames[at - 1].place.comes_before(&frame.place) {
            at -= 1;
        }
        self.frames.insert(at, frame);
    }

    /// Past the last that is needed; but what is being entered now may still bring smaller ones.
    pub(super) fn is_needless(&self, root: &Arc<Path>, rel: &Path) -> bool {
        self.until.as_ref().is_some_and(|(last, until)| (root, rel) > (last, until))
    }

    /// The next work. Folders that are done with go to `spent`: to close one takes longer than all this.
    pub(super) fn take(&mut self, quiet: usize, threads: usize, spent: &mut Vec<Frame>) -> Option<Work> {
        while let Some(done) = self.frames.pop_if(|frame| frame.next == frame.place.names.len()) {
            spent.push(done);
        }
        let Some(frame) = self.frames.last() else {
            let start = self.starts.last()?;
            let needless = self.is_needless(&start.root, &start.rel);
            return if needless { None } else { self.starts.pop().map(Work::Start) };
        };
        let (place, at) = (Arc::clone(&frame.place), frame.next);
        let (name, kind) = place.names.at(at);
        if self.until.is_some() && self.is_needless(&place.root, &place.rel.join(name)) {
            return None;
        }
        let count = if kind == Kind::Folder { 1 } else { place.files_from(at, self.share(quiet, threads)) };
        if let Some(frame) = self.frames.last_mut() {
            frame.next += count;
        }
        Some(if kind == Kind::Folder { Work::Enter(place, at) } else { Work::Look(place, at..at + count) })
    }

    /// How many files a thread takes at once. One where the walk may end any time, and where few are left.
    fn share(&self, quiet: usize, threads: usize) -> usize {
        let most = if quiet < QUIET { 1 } else { MAX_SHARE };
        match self.frames.as_slice() {
            [only] => ((only.place.names.len() - only.next) / (2 * threads)).clamp(1, most),
            _ => most,
        }
    }
}

impl Place {
    /// Whether its names that are left come before those in another folder. The names left in a folder above come
    /// after those in a folder below that was entered already.
    fn comes_before(&self, other: &Self) -> bool {
        (&self.root, &self.rel) < (&other.root, &other.rel)
            && !(self.root == other.root && other.rel.starts_with(&self.rel))
    }

    /// How many names from a place on are no folders, up to so many.
    fn files_from(&self, at: usize, most: usize) -> usize {
        let end = self.names.len().min(at + most);
        (at..end).take_while(|at| self.names.at(*at).1 != Kind::Folder).count()
    }
}
