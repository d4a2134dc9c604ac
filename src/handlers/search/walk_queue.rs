//! The remaining tasks of a walk in order of path, and the size of a thread's batches.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::folder_entries::WalkEntryKind;
use super::walk_entry::{WalkFolder, WalkStart};

/// After this many files without a match, a thread takes several files at once,
const BATCH_AFTER: usize = 32;
/// but at most this many, because another thread may find that they are not needed.
const MAX_BATCH: usize = 8;

/// The remaining tasks, and the path at which the walk may end.
#[derive(Default)]
pub(super) struct WalkQueue {
    /// Starts of the walk that are still to do; the next one is last.
    starts: Vec<WalkStart>,
    /// Folders with remaining names, the smallest at the end.
    frames: Vec<FolderFrame>,
    /// The number of threads that are working and may add folders.
    pub(super) working: usize,
    /// The number of threads that wait for a task.
    pub(super) waiting: usize,
    pub(super) until: Option<(Arc<Path>, PathBuf)>,
    pub(super) over: bool,
}

/// A folder and the index of its next name.
pub(super) struct FolderFrame {
    pub(super) place: Arc<WalkFolder>,
    pub(super) next: usize,
}

/// The next task of a thread.
pub(super) enum WalkTask {
    Start(WalkStart),
    Enter(Arc<WalkFolder>, usize),
    /// Search the files at these indexes.
    SearchFiles(Arc<WalkFolder>, Range<usize>),
}

impl WalkQueue {
    /// Creates a queue that begins with the last of these.
    pub(super) fn with_starts(starts: Vec<WalkStart>) -> Self {
        Self {
            starts,
            ..Self::default()
        }
    }

    /// Inserts a folder in the order of paths.
    pub(super) fn push_frame(&mut self, frame: FolderFrame) {
        let mut at = self.frames.len();
        while at > 0 && self.frames[at - 1].place.precedes(&frame.place) {
            at -= 1;
        }
        self.frames.insert(at, frame);
    }

    /// Returns whether a path comes after the last one that is needed. Folders being read may still add smaller
    /// paths.
    pub(super) fn is_past_end(&self, root: &Arc<Path>, rel: &Path) -> bool {
        self.until
            .as_ref()
            .is_some_and(|(last, until)| (root, rel) > (last, until))
    }

    /// Returns the next task. Finished folders go to `spent`, because closing one takes longer than the rest of this
    /// function.
    pub(super) fn next_task(
        &mut self,
        quiet: usize,
        threads: usize,
        spent: &mut Vec<FolderFrame>,
    ) -> Option<WalkTask> {
        while let Some(done) = self
            .frames
            .pop_if(|frame| frame.next == frame.place.names.len())
        {
            spent.push(done);
        }
        let Some(frame) = self.frames.last() else {
            let start = self.starts.last()?;
            let needless = self.is_past_end(&start.root, &start.rel);
            return if needless {
                None
            } else {
                self.starts.pop().map(WalkTask::Start)
            };
        };
        let place = Arc::clone(&frame.place);
        let at = frame.next;
        let (name, kind) = place.names.name_at(at);
        if self.until.is_some() && self.is_past_end(&place.root, &place.rel.join(name)) {
            return None;
        }
        let count = if kind == WalkEntryKind::Folder {
            1
        } else {
            place.count_files_from(at, self.batch_size(quiet, threads))
        };
        if let Some(frame) = self.frames.last_mut() {
            frame.next += count;
        }
        Some(if kind == WalkEntryKind::Folder {
            WalkTask::Enter(place, at)
        } else {
            WalkTask::SearchFiles(place, at..at + count)
        })
    }

    /// Returns the number of files for a batch. It is 1 while the walk may end soon, and small when few files are
    /// left.
    fn batch_size(&self, quiet: usize, threads: usize) -> usize {
        let most = if quiet < BATCH_AFTER { 1 } else { MAX_BATCH };
        match self.frames.as_slice() {
            [only] => ((only.place.names.len() - only.next) / (2 * threads)).clamp(1, most),
            _ => most,
        }
    }
}

impl WalkFolder {
    /// Returns whether the remaining names come before those of another folder. Names left in a parent come after
    /// those of a subfolder that was entered already.
    fn precedes(&self, other: &Self) -> bool {
        (&self.root, &self.rel) < (&other.root, &other.rel)
            && !(self.root == other.root && other.rel.starts_with(&self.rel))
    }

    /// Counts the names from an index on that are not folders, up to a maximum.
    fn count_files_from(&self, at: usize, most: usize) -> usize {
        let end = self.names.len().min(at + most);
        (at..end)
            .take_while(|at| self.names.name_at(*at).1 != WalkEntryKind::Folder)
            .count()
    }
}
