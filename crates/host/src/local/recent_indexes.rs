//! Caches the line indexes of the files read last, so that the next page need not start again.

use parking_lot::Mutex;

use crate::files::FileStamp;
use punie_text::output::line_feed::LineFeed;
use punie_text::output::line_index::LineIndex;

/// The number of files in the cache.
const MAX_INDEXES: usize = 16;

/// The indexes of the files read last.
#[derive(Debug, Default)]
pub(super) struct LineIndexCache {
    recent: Mutex<Vec<((FileStamp, LineFeed), LineIndex)>>,
}

impl LineIndexCache {
    /// Takes the index of this state of a file out of the cache, so that no scan holds a lock.
    /// [`LineIndexCache::put`] returns it.
    pub(super) fn take(&self, stamp: FileStamp, feed: LineFeed) -> LineIndex {
        let mut recent = self.recent.lock();
        let at = recent.iter().position(|(known, _)| *known == (stamp, feed));
        at.map_or_else(LineIndex::default, |at| recent.remove(at).1)
    }

    /// Stores an index for the next page.
    pub(super) fn put(&self, stamp: FileStamp, feed: LineFeed, index: LineIndex) {
        let mut recent = self.recent.lock();
        // An older state of the same file will not come back.
        if let Some(at) = recent
            .iter()
            .position(|(known, _)| known.0.file == stamp.file)
        {
            let (known, other) = recent.remove(at);
            if known == (stamp, feed) && other.is_ahead_of(&index) {
                recent.push((known, other));
                return;
            }
        }
        recent.push(((stamp, feed), index));
        if recent.len() > MAX_INDEXES {
            recent.remove(0);
        }
    }
}
