//! Caches the line indexes of the outputs read last, so that a later read starts near its line. Not here: the index
//! itself (line_index).

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::OutputHandle;
use super::line_index::LineIndex;

/// Outputs whose indexes are remembered.
const MAX_REMEMBERED: usize = 32;

/// The indexes of the outputs that were looked at last.
#[derive(Debug, Clone, Default)]
pub(super) struct StoredLineIndexes(Arc<Mutex<BTreeMap<OutputHandle, LineIndex>>>);

impl StoredLineIndexes {
    fn lock_indexes(&self) -> MutexGuard<'_, BTreeMap<OutputHandle, LineIndex>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn find_index(&self, handle: &OutputHandle) -> LineIndex {
        self.lock_indexes().get(handle).cloned().unwrap_or_default()
    }

    pub(super) fn store_index(&self, handle: &OutputHandle, index: LineIndex) {
        let mut indexes = self.lock_indexes();
        if indexes.len() >= MAX_REMEMBERED && !indexes.contains_key(handle) {
            indexes.pop_first();
        }
        indexes.insert(handle.clone(), index);
    }

    /// Forgets the output whose name another one takes.
    pub(super) fn forget_index(&self, handle: &OutputHandle) {
        self.lock_indexes().remove(handle);
    }
}
