//! Caches the line indexes of the outputs read last, so that a later read starts near its line.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use super::line_index::LineIndex;
use super::output_handle::OutputHandle;

/// Outputs whose indexes are remembered.
const MAX_REMEMBERED: usize = 32;

/// The indexes of the outputs that were looked at last.
#[derive(Debug, Clone, Default)]
pub(super) struct StoredLineIndexes(Arc<Mutex<BTreeMap<OutputHandle, LineIndex>>>);

impl StoredLineIndexes {
    pub(super) fn find_index(&self, handle: &OutputHandle) -> LineIndex {
        self.0.lock().get(handle).cloned().unwrap_or_default()
    }

    pub(super) fn store_index(&self, handle: &OutputHandle, index: LineIndex) {
        let mut indexes = self.0.lock();
        if indexes.len() >= MAX_REMEMBERED && !indexes.contains_key(handle) {
            indexes.pop_first();
        }
        indexes.insert(handle.clone(), index);
    }

    /// Forgets the output whose name another one takes.
    pub(super) fn forget_index(&self, handle: &OutputHandle) {
        self.0.lock().remove(handle);
    }
}
